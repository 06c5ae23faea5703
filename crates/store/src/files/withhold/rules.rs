//! Rules of a project that allow something without asking. Rules that ask or deny need no trust.

use serde_json::{Map, Value};

use super::{Part, joined};
use protocol::trust::WithheldKind;

/// The action that needs trust.
const ALLOW: &str = "allow";

/// Removes rules that allow from a configuration or an agent: from its `permission`, and from its `tools`, the
/// older form. `key` is the path of the configuration or agent.
pub(in super::super) fn tighten(holder: &mut Map<String, Value>, key: &str) -> Vec<Part> {
    let mut found = Vec::new();
    if holder.get("permission").is_some_and(is_allowance) {
        holder.remove("permission");
        found.push(joined(key, "permission"));
    }
    if let Some(Value::Object(rules)) = holder.get_mut("permission") {
        rules.retain(|name, rule| {
            let loosens = is_allowance(rule) || thin_out(rule);
            if loosens {
                found.push(joined(&joined(key, "permission"), name));
            }
            // A rule that lost only some patterns still asks or denies.
            !loosens || rule.as_object().is_some_and(|patterns| !patterns.is_empty())
        });
    }
    if let Some(Value::Object(tools)) = holder.get_mut("tools") {
        tools.retain(|name, on| {
            let loosens = *on == Value::Bool(true);
            if loosens {
                found.push(joined(&joined(key, "tools"), name));
            }
            !loosens
        });
    }
    found.into_iter().map(|key| Part { key, kind: WithheldKind::Permission }).collect()
}

fn is_allowance(rule: &Value) -> bool {
    rule.as_str() == Some(ALLOW)
}

/// Removes allowed patterns from a rule; returns true if there was any.
fn thin_out(rule: &mut Value) -> bool {
    let Some(patterns) = rule.as_object_mut() else { return false };
    let before = patterns.len();
    patterns.retain(|_, action| !is_allowance(action));
    patterns.len() < before
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_that_allow_are_removed_and_others_stay() {
        let cases = [
            (json!({ "permission": "allow" }), json!({}), vec!["permission"]),
            (json!({ "permission": "deny" }), json!({ "permission": "deny" }), vec![]),
            (
                json!({ "permission": { "*": "allow", "edit": "ask", "bash": { "*": "ask", "rm *": "allow" } } }),
                json!({ "permission": { "edit": "ask", "bash": { "*": "ask" } } }),
                vec!["permission[\"*\"]", "permission.bash"],
            ),
            (
                json!({ "permission": { "bash": { "*": "allow" } }, "tools": { "bash": true, "edit": false } }),
                json!({ "permission": {}, "tools": { "edit": false } }),
                vec!["permission.bash", "tools.bash"],
            ),
        ];
        for (written, kept, expected) in cases {
            let Value::Object(mut holder) = written else { panic!("a map") };
            let keys: Vec<String> = tighten(&mut holder, "").into_iter().map(|part| part.key).collect();
            assert_eq!(
                (Value::Object(holder), keys),
                (kept, expected.into_iter().map(String::from).collect())
            );
        }
    }
}
