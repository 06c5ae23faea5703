//! Runs the calls of one step: in order, with events, within limits, and each exactly once.

use std::collections::{BTreeMap, HashSet};

use engine::ports::hooks::Refusal;
use engine::session::Turn;
use futures::future::join_all;
use protocol::agent::Agent;
use protocol::request::Action;
use protocol::{AgentEvent, Extra};
use serde_json::{Value, json};
use supervision::mcp::Servers;
use supervision::permission::{Pattern, PermissionCheck, Permissions, evaluate};
use supervision::snapshots::Changes;
use workspace::files::Root;

use super::nearby::Loaded;
use super::{
    Call, Caller, Output, Skill, Tool, ToolFailure, ToolOptions, all, bash, invalid, mcp, object, plugin,
    truncate,
};
use crate::attempt::RequestedCall;
use crate::background::Background;
use crate::hooks;
use crate::limits;
use crate::loop_detector::LoopDetector;

/// The most tools that an error names to a model that called an unknown one.
const MAX_NAMES: usize = 200;

/// The tools of one step.
pub(crate) struct Toolset {
    tools: Vec<Box<dyn Tool>>,
    /// The names of the tools that do not come from an MCP server.
    own: HashSet<String>,
    loaded: Loaded,
}

/// The context of the calls of a step.
pub(crate) struct ToolContext<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) root: &'a Root,
    pub(crate) changes: &'a Changes,
    pub(crate) permissions: &'a Permissions,
    pub(crate) background: &'a Background,
    pub(crate) hidden: &'a [String],
    pub(crate) options: &'a ToolOptions,
    /// The id of the calling model.
    pub(crate) model: &'a str,
    /// Tools that the prompt switched on or off.
    pub(crate) tool_switches: &'a BTreeMap<String, bool>,
}

/// The result of a step's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// All calls were made; some may have failed.
    Done,
    /// The user refused one; the calls after it were not made.
    Refused,
    /// The turn was aborted.
    Cancelled,
}

/// A call with its tool.
struct PreparedCall<'a> {
    id: &'a str,
    tool: &'a dyn Tool,
    input: Extra,
    /// The error for the model if the call must not be made. Clients see the call of the tool, and its failure.
    rejection: Option<String>,
}

impl<'a> PreparedCall<'a> {
    fn new(id: &'a str, tool: &'a dyn Tool, input: Extra) -> Self {
        Self { id, tool, rejection: input_error(tool, &input), input }
    }

    /// Lets hooks change the arguments, before a client sees the call or the user is asked. A hook may refuse the
    /// call.
    async fn apply_hooks(&mut self, turn: &Turn) {
        match hooks::before(turn, self.tool.name(), self.id, &self.input).await {
            Ok(shaped) if shaped == self.input => {}
            Ok(shaped) => *self = Self::new(self.id, self.tool, shaped),
            Err(Refusal(why)) => self.rejection = Some(why),
        }
    }
}

/// Returns the error for the model if the arguments do not fit.
fn input_error(tool: &dyn Tool, input: &Extra) -> Option<String> {
    let error = tool.check(input).err()?;
    let name = tool.name();
    Some(format!(
        "The arguments do not fit the tool {name}: {error}. Call it again with arguments that fit its schema."
    ))
}

impl Toolset {
    /// Returns the tools for an agent with these permissions, sorted by name, without the skills it may not use. A
    /// tool of an MCP server does not replace a built-in tool of the same name. A plugin's tool does, because the
    /// user chose the plugin.
    pub(crate) fn new(
        agents: &[Agent],
        options: &ToolOptions,
        servers: &Servers,
        permissions: &Permissions,
    ) -> Self {
        let rules = permissions.rules_for("skill");
        let usable = |skill: &&Skill| evaluate(rules.iter(), "skill", &skill.name) != Action::Deny;
        let skills = options.skills.iter().filter(usable).cloned().collect();
        let mut tools = all(agents, skills, options.command);
        let mut own: HashSet<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
        tools.extend(mcp::all(servers).into_iter().filter(|tool| !own.contains(tool.name())));
        if let Some(plugins) = &options.plugins {
            let plugin_tools = plugin::all(plugins);
            let taken: HashSet<&str> = plugin_tools.iter().map(|tool| tool.name()).collect();
            own.extend(taken.iter().map(|name| (*name).to_owned()));
            tools.retain(|tool| tool.name() == invalid::NAME || !taken.contains(tool.name()));
            tools.extend(plugin_tools.into_iter().filter(|tool| tool.name() != invalid::NAME));
        }
        tools.sort_by(|one, other| one.name().cmp(other.name()));
        Self { tools, own, loaded: Loaded::default() }
    }

    /// Returns true if a tool does not come from an MCP server.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// Returns the tools that a model may call.
    pub(crate) fn offered(&self, context: &ToolContext<'_>) -> Vec<llm::Tool> {
        self.visible(context).map(described).collect()
    }

    /// Returns the tools that suit a model, or all tools if none is named, regardless of permissions.
    pub(crate) fn listed(&self, model: Option<&str>) -> Vec<llm::Tool> {
        let wanted = |tool: &&dyn Tool| model.is_none_or(|model| suits(*tool, model));
        self.tools.iter().map(AsRef::as_ref).filter(wanted).map(described).collect()
    }

    fn visible<'a>(&'a self, context: &'a ToolContext<'_>) -> impl Iterator<Item = &'a dyn Tool> {
        self.tools.iter().map(AsRef::as_ref).filter(move |tool| {
            suits(*tool, context.model)
                && !context.permissions.hides(tool.permission())
                && context.tool_switches.get(tool.name()) != Some(&false)
        })
    }

    /// Makes the calls. Consecutive calls of concurrent tools run at the same time.
    pub(crate) async fn run(
        &self,
        calls: &[RequestedCall],
        context: &ToolContext<'_>,
        loop_detector: &mut LoopDetector,
    ) -> CallOutcome {
        let mut prepared: Vec<PreparedCall<'_>> =
            calls.iter().filter_map(|call| self.find(call, context)).collect();
        let mut outcome = CallOutcome::Done;
        for group in prepared.chunk_by_mut(|one, next| one.tool.is_concurrent() && next.tool.is_concurrent())
        {
            outcome = match outcome {
                CallOutcome::Done if context.turn.cancellation().is_cancelled() => {
                    return CallOutcome::Cancelled;
                }
                CallOutcome::Done => self.run_together(group, context, loop_detector).await,
                CallOutcome::Refused => {
                    for call in group {
                        skip(context.turn, call).await;
                    }
                    CallOutcome::Refused
                }
                CallOutcome::Cancelled => return CallOutcome::Cancelled,
            };
        }
        outcome
    }

    /// Returns the tool for a call, or else the tool that reports the mistake to the model.
    fn find<'a>(&'a self, call: &'a RequestedCall, context: &ToolContext<'_>) -> Option<PreparedCall<'a>> {
        let lower = call.name.to_lowercase();
        let tool = [call.name.as_str(), lower.as_str()]
            .into_iter()
            .find_map(|name| self.visible(context).find(|tool| tool.name() == name).map(Tool::name));
        let tool = tool.and_then(|name| self.tools.iter().find(|tool| tool.name() == name));
        let wrong = match (tool, arguments(&call.input)) {
            (None, _) => {
                let names: Vec<&str> = self.visible(context).map(Tool::name).take(MAX_NAMES).collect();
                format!(
                    "Model tried to call unavailable tool '{}'. Available tools: {}.",
                    call.name,
                    names.join(", ")
                )
            }
            (Some(tool), Ok(input)) => return Some(PreparedCall::new(&call.id, tool.as_ref(), input)),
            (Some(tool), Err(error)) => format!("Invalid input for tool {}: {error}", tool.name()),
        };
        let tool = self.tools.iter().find(|tool| tool.name() == invalid::NAME)?;
        let input = object(json!({ "tool": call.name, "error": wrong }));
        Some(PreparedCall::new(&call.id, tool.as_ref(), input))
    }

    async fn run_together(
        &self,
        group: &mut [PreparedCall<'_>],
        context: &ToolContext<'_>,
        loop_detector: &mut LoopDetector,
    ) -> CallOutcome {
        let mut running = Vec::new();
        let mut refused = false;
        for prepared in group {
            if refused {
                skip(context.turn, prepared).await;
                continue;
            }
            tokio::select! {
                biased;
                () = context.turn.cancelled() => return CallOutcome::Cancelled,
                () = prepared.apply_hooks(context.turn) => {}
            }
            let prepared = &*prepared;
            start(context.turn, prepared).await;
            match admit(prepared, context, loop_detector).await {
                Ok(()) => running.push(self.run_one(prepared, context)),
                Err(failure) => refused = end(context, prepared, Err(failure)).await == CallOutcome::Refused,
            }
        }
        let outcomes = join_all(running).await;
        if outcomes.contains(&CallOutcome::Cancelled) || context.turn.cancellation().is_cancelled() {
            CallOutcome::Cancelled
        } else if refused || outcomes.contains(&CallOutcome::Refused) {
            CallOutcome::Refused
        } else {
            CallOutcome::Done
        }
    }

    /// Runs a command line that no model wrote, with the `bash` tool.
    pub(crate) async fn run_command(
        &self,
        context: &ToolContext<'_>,
        id: &str,
        caller: Caller,
        line: &str,
    ) -> Result<Output, ToolFailure> {
        let input = object(json!({ "command": line }));
        let bash = bash::Bash { timeout: context.options.command };
        let call = Call { caller, ..self.call(context, id, bash.name(), &input) };
        run(&bash, &call).await
    }

    async fn run_one(&self, prepared: &PreparedCall<'_>, context: &ToolContext<'_>) -> CallOutcome {
        let call = self.call(context, prepared.id, prepared.tool.name(), &prepared.input);
        let mut result = run(prepared.tool, &call).await;
        if let Ok(output) = &mut result {
            tokio::select! {
                biased;
                () = context.turn.cancelled() => return CallOutcome::Cancelled,
                shaped = hooks::after(context.turn, call.name, call.id, call.input, output) => {
                    if shaped {
                        result = Ok(truncate::fit(&call, output.clone()).await);
                    }
                }
            }
        }
        end(context, prepared, result).await
    }

    fn call<'c>(
        &'c self,
        context: &'c ToolContext<'_>,
        id: &'c str,
        name: &'c str,
        input: &'c Extra,
    ) -> Call<'c> {
        Call {
            turn: context.turn,
            root: context.root,
            changes: context.changes,
            permissions: context.permissions,
            background: context.background,
            hidden: context.hidden,
            options: context.options,
            loaded: &self.loaded,
            may_delegate: !context.permissions.hides("task")
                && context.tool_switches.get("task") != Some(&false),
            caller: Caller::Model,
            id,
            name,
            input,
        }
    }
}

async fn run(tool: &dyn Tool, call: &Call<'_>) -> Result<Output, ToolFailure> {
    if let Some(sandbox) = &call.options.sandbox {
        sandbox.permits(tool.name(), tool.permission())?;
    }
    if !call.turn.admit().await {
        return Err(ToolFailure::Cancelled);
    }
    let output = tool.run(call).await?;
    Ok(truncate::fit(call, output).await)
}

fn described(tool: &dyn Tool) -> llm::Tool {
    llm::Tool { name: tool.name().to_owned(), description: tool.description(), schema: tool.schema() }
}

/// Returns true if a tool is offered to a model.
fn suits(tool: &dyn Tool, model: &str) -> bool {
    match tool.name() {
        "apply_patch" => prefers_patches(model),
        "edit" | "write" => !prefers_patches(model),
        invalid::NAME => false,
        _ => tool.is_available(),
    }
}

/// Returns true if a model is trained to change files with patches rather than with `edit` and `write`.
fn prefers_patches(model: &str) -> bool {
    model.contains("gpt-") && !model.contains("oss") && !model.contains("gpt-4")
}

/// Returns the arguments as an object. Some providers send nothing for a call without arguments.
fn arguments(input: &Value) -> Result<Extra, String> {
    match input {
        Value::Object(object) => Ok(object.clone()),
        Value::Null => Ok(Extra::new()),
        Value::String(text) if text.trim().is_empty() => Ok(Extra::new()),
        Value::String(text) => {
            let error = serde_json::from_str::<Value>(text).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| "expected an object".to_owned());
            Err(format!("JSON parsing failed: Text: {text}.\nError message: {error}"))
        }
        other => Err(format!("expected an object, not {other}")),
    }
}

async fn start(turn: &Turn, prepared: &PreparedCall<'_>) {
    let running = AgentEvent::ToolRunning {
        call: prepared.id.to_owned(),
        tool: prepared.tool.name().to_owned(),
        input: prepared.input.clone(),
        title: None,
        metadata: None,
    };
    turn.emit(running).await;
}

/// Checks whether a call may be made.
async fn admit(
    prepared: &PreparedCall<'_>,
    context: &ToolContext<'_>,
    loop_detector: &mut LoopDetector,
) -> Result<(), ToolFailure> {
    check_repetition(prepared, context, loop_detector).await?;
    match &prepared.rejection {
        None => Ok(()),
        Some(rejection) => Err(ToolFailure::Error(rejection.clone())),
    }
}

/// Asks the user about a call that is repeated too often.
async fn check_repetition(
    prepared: &PreparedCall<'_>,
    context: &ToolContext<'_>,
    loop_detector: &mut LoopDetector,
) -> Result<(), ToolFailure> {
    let name = prepared.tool.name();
    if loop_detector.record(name, &prepared.input) < limits::REPEATED_CALLS {
        return Ok(());
    }
    let check = PermissionCheck {
        permission: "doom_loop".into(),
        patterns: vec![Pattern::plain(name)],
        always: vec![name.to_owned()],
        metadata: object(json!({ "tool": name, "input": prepared.input })),
    };
    context.permissions.require(context.turn, check, None).await
}

/// Emits the result of a call.
async fn end(
    context: &ToolContext<'_>,
    prepared: &PreparedCall<'_>,
    result: Result<Output, ToolFailure>,
) -> CallOutcome {
    let call = prepared.id.to_owned();
    // The engine closes open parts after an abort, in the same way for every tool.
    if context.turn.cancellation().is_cancelled() {
        return CallOutcome::Cancelled;
    }
    match result {
        Ok(output) => {
            let Output { title, text: output, metadata, attachments } = output;
            context.turn.emit(AgentEvent::ToolCompleted { call, output, title, metadata, attachments }).await;
            CallOutcome::Done
        }
        Err(ToolFailure::Error(error)) => {
            context.turn.emit(AgentEvent::ToolFailed { call, error, metadata: None }).await;
            CallOutcome::Done
        }
        Err(ToolFailure::Refused(error)) => {
            context.turn.emit(AgentEvent::ToolFailed { call, error, metadata: None }).await;
            CallOutcome::Refused
        }
        Err(ToolFailure::Cancelled) => CallOutcome::Cancelled,
    }
}

async fn skip(turn: &Turn, prepared: &PreparedCall<'_>) {
    let error = "Not run: the user refused an earlier tool call.".to_owned();
    turn.emit(AgentEvent::ToolFailed { call: prepared.id.to_owned(), error, metadata: None }).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_were_taught_patches_get_them() {
        for model in ["gpt-5", "openai/gpt-5.1-codex", "gpt-6-mini"] {
            assert!(prefers_patches(model), "{model}");
        }
        for model in ["gpt-4.1", "gpt-4o", "gpt-oss-120b", "claude-opus", "o3", "chatgpt"] {
            assert!(!prefers_patches(model), "{model}");
        }
    }

    #[test]
    fn tools_are_listed_for_a_model_or_altogether() {
        let no_rules = Permissions::new(Vec::new(), Vec::new());
        let tools = Toolset::new(&[], &ToolOptions::default(), &Servers::default(), &no_rules);
        let lists = |model, name: &str| tools.listed(model).iter().any(|tool| tool.name == name);
        assert!(lists(Some("gpt-5"), "apply_patch") && !lists(Some("gpt-5"), "edit"));
        assert!(lists(Some("claude-opus"), "edit") && !lists(Some("claude-opus"), "apply_patch"));
        assert!(lists(Some("gpt-5"), "read") && !lists(Some("gpt-5"), invalid::NAME));
        assert!(lists(None, "edit") && lists(None, "apply_patch") && lists(None, invalid::NAME));
    }

    #[test]
    fn arguments_are_objects_or_an_error() {
        assert_eq!(arguments(&json!({ "a": 1 })), Ok(object(json!({ "a": 1 }))));
        assert_eq!(arguments(&Value::Null), Ok(Extra::new()));
        assert_eq!(arguments(&json!("  ")), Ok(Extra::new()));
        let error = arguments(&json!("{\"filePath\": ")).unwrap_err();
        assert!(
            error.starts_with("JSON parsing failed: Text: {\"filePath\": .\nError message: EOF"),
            "{error}"
        );
        assert_eq!(arguments(&json!([1])), Err("expected an object, not [1]".to_owned()));
    }
}
