//! Repairs messages of agents that break the official schema: fills in missing fields that Baton does not need and
//! removes invalid values, so that the rest of the message can be decoded.
//!
//! The schema's types already tolerate invalid values in optional fields. This module handles the rest: required fields
//! that Baton does not use, and lists from which the types would drop entries that can be repaired. Essential values,
//! such as the id of a tool call, are never made up.

use agent_client_protocol_schema::v1::{
    ElicitationPropertySchema, EnumOption, PermissionOption, PlanEntryPriority, PlanEntryStatus, StopReason,
};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

/// Mends the parameters of `session/update`.
pub(super) fn notice(params: &mut Value) {
    let Some(update) = fields(params, "update") else { return };
    match update.get("sessionUpdate").and_then(Value::as_str) {
        Some("agent_message_chunk" | "agent_thought_chunk") => {
            update.get_mut("content").map(block);
        }
        Some("tool_call") => {
            otherwise::<String>(update, "title", "");
            contents(update);
        }
        Some("tool_call_update") => contents(update),
        Some("plan") => entries(update, "entries").for_each(plan_entry),
        Some("usage_update") => {
            otherwise::<u64>(update, "used", 0);
            otherwise::<u64>(update, "size", 0);
        }
        _ => {}
    }
}

/// Mends a request about files or commands. Baton does not use its session id, so a missing one becomes empty.
pub(super) fn call(params: &mut Value) {
    if let Some(params) = params.as_object_mut() {
        otherwise::<String>(params, "sessionId", "");
    }
}

/// Mends the parameters of `session/request_permission`.
pub(super) fn permission(params: &mut Value) {
    call(params);
    let Some(params) = params.as_object_mut() else { return };
    otherwise::<Vec<Value>>(params, "options", json!([]));
    entries(params, "options").for_each(|option| otherwise::<String>(option, "name", ""));
    keep::<PermissionOption>(params, "options");
}

/// Mends the parameters of `elicitation/create`.
pub(super) fn form(params: &mut Value) {
    if params.get("requestId").is_none() {
        call(params);
    }
    let Some(params) = params.as_object_mut() else { return };
    otherwise::<String>(params, "mode", "form");
    otherwise::<String>(params, "message", "");
    let Some(schema) = params.get_mut("requestedSchema") else { return };
    for property in fields(schema, "properties").into_iter().flat_map(Map::values_mut) {
        self::property(property);
    }
}

/// Mends the answers to `session/new`, `session/load` and `session/resume`.
pub(super) fn opened(answer: &mut Value) {
    if let Some(modes) = fields(answer, "modes") {
        otherwise::<String>(modes, "currentModeId", "");
        entries(modes, "availableModes").for_each(|mode| otherwise::<String>(mode, "name", ""));
    }
    let Some(answer) = answer.as_object_mut() else { return };
    for option in entries(answer, "configOptions") {
        otherwise::<String>(option, "name", "");
        otherwise::<String>(option, "type", "select");
        if option.get("type").is_some_and(|kind| kind == "select") {
            otherwise::<String>(option, "currentValue", "");
            otherwise::<Vec<Value>>(option, "options", json!([]));
        }
        for value in entries(option, "options") {
            otherwise::<String>(value, "name", "");
            if value.contains_key("options") {
                otherwise::<String>(value, "group", "");
            }
            entries(value, "options").for_each(|value| otherwise::<String>(value, "name", ""));
        }
    }
}

/// Mends the answer to `session/prompt`. Removes and returns a stop reason that the protocol does not define.
pub(super) fn answered(answer: &mut Value) -> Option<String> {
    if let Some(usage) = fields(answer, "usage") {
        let parts = ["inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens"];
        let told = parts.iter().filter_map(|part| usage.get(*part)?.as_u64());
        let sum = told.fold(0, u64::saturating_add);
        otherwise::<u64>(usage, "inputTokens", 0);
        otherwise::<u64>(usage, "outputTokens", 0);
        otherwise::<u64>(usage, "totalTokens", sum);
    }
    let answer = answer.as_object_mut()?;
    let reason = answer.get("stopReason")?.as_str()?.to_owned();
    otherwise::<StopReason>(answer, "stopReason", json!(StopReason::EndTurn));
    answer.get("stopReason").is_none_or(|read| *read != reason.as_str()).then_some(reason)
}

fn plan_entry(entry: &mut Fields) {
    // A cancelled entry is no longer pending work, and the protocol has no status for it.
    let given_up = entry.get("status").is_some_and(|status| status == "cancelled");
    otherwise::<PlanEntryStatus>(entry, "status", if given_up { "completed" } else { "pending" });
    otherwise::<PlanEntryPriority>(entry, "priority", "medium");
}

fn contents(call: &mut Fields) {
    entries(call, "content").filter_map(|content| content.get_mut("content")).for_each(block);
}

/// Mends a content block.
fn block(block: &mut Value) {
    let Some(block) = block.as_object_mut() else { return };
    match block.get("type").and_then(Value::as_str) {
        Some("resource_link") => otherwise::<String>(block, "name", ""),
        Some("resource") => {
            let Some(resource) = block.get_mut("resource").and_then(Value::as_object_mut) else { return };
            if !resource.get("text").is_some_and(Value::is_string) {
                otherwise::<String>(resource, "blob", "");
            }
        }
        _ => {}
    }
}

/// Mends a field of a form. A field of an unknown type becomes a text field.
fn property(property: &mut Value) {
    if let Some(fields) = property.as_object_mut() {
        let list = fields.contains_key("items");
        otherwise::<String>(fields, "type", if list { "array" } else { "string" });
        choices(fields, "oneOf");
        if let Some(items) = fields.get_mut("items").and_then(Value::as_object_mut) {
            choices(items, "anyOf");
            if items.contains_key("enum") {
                otherwise::<String>(items, "type", "string");
            }
        }
    }
    if ElicitationPropertySchema::deserialize(&*property).is_err() {
        let said = |key: &str| property.get(key).filter(|text| text.is_string()).cloned();
        *property = json!({ "type": "string", "title": said("title"), "description": said("description") });
    }
}

/// Mends the choices of a field. A choice without a title gets its value as the title.
fn choices(fields: &mut Fields, key: &str) {
    for choice in entries(fields, key) {
        let title = choice.get("const").and_then(Value::as_str).unwrap_or_default().to_owned();
        otherwise::<String>(choice, "title", title);
    }
    keep::<EnumOption>(fields, key);
}

/// The object under `key`.
fn fields<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Fields> {
    value.get_mut(key)?.as_object_mut()
}

/// The objects in the list under `key`.
fn entries<'a>(fields: &'a mut Fields, key: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a field to `value` unless it already decodes as a `T`.
fn otherwise<T: DeserializeOwned>(fields: &mut Fields, key: &str, value: impl Into<Value>) {
    if fields.get(key).is_none_or(|value| T::deserialize(value).is_err()) {
        fields.insert(key.to_owned(), value.into());
    }
}

/// Removes the entries of a list that do not decode as a `T`.
fn keep<T: DeserializeOwned>(fields: &mut Fields, key: &str) {
    if let Some(list) = fields.get_mut(key).and_then(Value::as_array_mut) {
        list.retain(|entry| T::deserialize(entry).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::{
        ContentBlock, CreateElicitationRequest, ElicitationMode, InitializeResponse, NewSessionResponse,
        ReadTextFileRequest, RequestPermissionRequest, SessionConfigKind, SessionNotification, SessionUpdate,
        ToolCallContent, ToolKind,
    };

    use super::*;
    use crate::acp::wire::{Answered, read};

    fn update(update: &Value) -> SessionUpdate {
        let notice: SessionNotification = read(json!({ "sessionId": "s", "update": update }), notice)
            .unwrap_or_else(|it| panic!("{update}: {it}"));
        notice.update
    }

    #[test]
    fn valid_updates_are_not_changed() {
        let mut said = json!({ "sessionId": "s", "update": {
            "sessionUpdate": "tool_call", "toolCallId": "1", "title": "Look", "rawInput": { "type": "resource_link" },
            "content": [{ "type": "content", "content": { "type": "text", "text": "x" } }],
        } });
        let before = said.clone();
        notice(&mut said);
        assert_eq!(said, before);
        let mut answer = json!({ "stopReason": "end_turn" });
        assert_eq!((answered(&mut answer), answer), (None, json!({ "stopReason": "end_turn" })));
    }

    #[test]
    fn a_tool_call_requires_only_its_id() {
        let said = json!({
            "toolCallId": "1", "status": "paused", "kind": "dance", "title": 7, "locations": "everywhere",
            "content": [
                { "type": "hologram" },
                { "type": "content", "content": { "type": "resource_link", "uri": "file:///a" } },
                { "type": "content", "content": { "type": "resource", "resource": { "uri": "file:///b" } } },
            ],
        });
        for kind in ["tool_call", "tool_call_update"] {
            let mut said = said.clone();
            said["sessionUpdate"] = kind.into();
            let (kind, content) = match update(&said) {
                SessionUpdate::ToolCall(call) => (call.kind, call.content),
                SessionUpdate::ToolCallUpdate(call) => {
                    (call.fields.kind.unwrap(), call.fields.content.unwrap())
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(kind, ToolKind::Other);
            let [ToolCallContent::Content(link), ToolCallContent::Content(file)] = content.as_slice() else {
                panic!("{content:?}")
            };
            assert!(matches!(link.content, ContentBlock::ResourceLink(_)), "{link:?}");
            assert!(matches!(file.content, ContentBlock::Resource(_)), "{file:?}");
        }
    }

    #[test]
    fn plan_entries_with_invalid_fields_are_kept() {
        let plan = update(&json!({ "sessionUpdate": "plan", "entries": [
            { "content": "look", "status": "completed", "priority": "high" },
            { "content": "leap" },
            { "content": "dance", "status": "cancelled", "priority": 1 },
            "sing",
        ] }));
        let SessionUpdate::Plan(plan) = plan else { panic!("{plan:?}") };
        let told: Vec<_> =
            plan.entries.iter().map(|entry| json!([entry.content, entry.status, entry.priority])).collect();
        assert_eq!(
            json!(told),
            json!([
                ["look", "completed", "high"],
                ["leap", "pending", "medium"],
                ["dance", "completed", "medium"]
            ])
        );
    }

    #[test]
    fn a_cost_without_token_counts_is_read() {
        let usage =
            update(&json!({ "sessionUpdate": "usage_update", "cost": { "amount": 0.5, "currency": "USD" } }));
        let SessionUpdate::UsageUpdate(usage) = usage else { panic!("{usage:?}") };
        assert_eq!((usage.used, usage.cost.unwrap().currency.as_str()), (0, "USD"));
    }

    #[test]
    fn permission_options_of_an_unknown_kind_are_removed() {
        let options = json!([
            { "optionId": "yes", "kind": "allow_once" }, { "optionId": "maybe", "kind": "toss_a_coin" }, 5,
            { "optionId": "no", "name": "No", "kind": "reject_once" },
        ]);
        let asked = json!({ "toolCall": { "toolCallId": "1" }, "options": options });
        let asked: RequestPermissionRequest = read(asked, permission).unwrap();
        let left: Vec<&str> = asked.options.iter().map(|option| &*option.option_id.0).collect();
        assert_eq!(left, ["yes", "no"]);
        let asked: RequestPermissionRequest =
            read(json!({ "toolCall": { "toolCallId": "1" } }), permission).unwrap();
        assert_eq!(asked.options, []);
        assert!(read::<RequestPermissionRequest>(json!(5), permission).is_err());
        assert!(read::<ReadTextFileRequest>(json!({ "path": "/a" }), call).is_ok());
    }

    #[test]
    fn form_fields_of_unknown_types_become_text_fields() {
        let asked = json!({ "requestedSchema": { "properties": {
            "size": { "type": "string", "enum": [1, 2], "title": "Size" },
            "when": { "type": "string", "format": "full-moon" },
            "what": { "title": "What?" },
            "which": { "type": "array", "items": { "anyOf": [{ "const": "a" }, { "const": 3 }] } },
            "nothing": 5,
        } } });
        let asked: CreateElicitationRequest = read(asked, form).unwrap();
        let ElicitationMode::Form(mode) = asked.mode else { panic!("{:?}", asked.mode) };
        let properties = mode.requested_schema.properties;
        assert_eq!(json!(properties["size"]), json!({ "type": "string", "title": "Size" }));
        for words in ["when", "what", "nothing"] {
            assert_eq!(json!(properties[words])["type"], "string", "{words}");
        }
        assert_eq!(json!(properties["which"])["items"], json!({ "anyOf": [{ "const": "a", "title": "a" }] }));
    }

    #[test]
    fn modes_and_options_require_no_names() {
        let answer = json!({
            "sessionId": "s", "modes": { "availableModes": [{ "id": "plan" }] },
            "configOptions": [
                { "id": "model", "options": [{ "value": "small" }] },
                { "id": "effort", "type": "select", "options": [{ "options": [{ "value": "high" }] }] },
                { "id": "fast", "type": "boolean", "currentValue": true },
                { "id": "volume", "type": "slider" },
            ],
        });
        let opened: NewSessionResponse = read(answer, opened).unwrap();
        assert_eq!(&*opened.modes.unwrap().available_modes[0].id.0, "plan");
        let options = opened.config_options.unwrap();
        let ids: Vec<&str> = options.iter().map(|option| &*option.id.0).collect();
        assert_eq!(ids, ["model", "effort", "fast"]);
        let [SessionConfigKind::Select(flat), SessionConfigKind::Select(grouped)] =
            [&options[0].kind, &options[1].kind]
        else {
            panic!("{options:?}")
        };
        assert_eq!(json!(flat.options)[0]["value"], "small");
        assert_eq!(json!(grouped.options)[0]["options"][0]["value"], "high");
    }

    #[test]
    fn an_unknown_stop_reason_is_returned_and_the_rest_is_read() {
        let answer = Answered::read(
            json!({ "stopReason": "bored", "usage": { "inputTokens": 3, "outputTokens": null } }),
        );
        let answer = answer.unwrap();
        assert_eq!(answer.unknown.as_deref(), Some("bored"));
        let usage = answer.response.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (3, 0, 3));
    }

    /// Capabilities need no repair, because the schema's types tolerate invalid ones.
    #[test]
    fn an_initialize_answer_requires_only_a_version() {
        let greeting: InitializeResponse = serde_json::from_value(
            json!({ "protocolVersion": 1, "agentCapabilities": 5, "authMethods": [{ "name": "no id" }, 7] }),
        )
        .unwrap();
        assert!(!greeting.agent_capabilities.load_session && greeting.auth_methods.is_empty());
        assert!(serde_json::from_value::<InitializeResponse>(json!({})).is_err());
    }
}
