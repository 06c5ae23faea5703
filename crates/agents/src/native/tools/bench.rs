//! Runs the calls of one step: in order, with events, within limits, and each exactly once.

use std::collections::{BTreeMap, HashSet};

use engine::ports::hooks::Refusal;
use engine::session::Turn;
use futures::future::join_all;
use protocol::agent::Agent;
use protocol::request::Action;
use protocol::{AgentEvent, Extra};
use serde_json::{Value, json};
use workspace::files::Root;

use super::nearby::Loaded;
use super::{
    By, Call, Failure, Output, Skill, Tool, ToolOptions, all, bash, brought, invalid, object, truncate,
};
use crate::native::attempt::Called;
use crate::native::background::Background;
use crate::native::doom::Doom;
use crate::native::hooks;
use crate::native::limits;
use crate::native::mcp::Servers;
use crate::native::permission::{Pattern, Permissions, Wish, evaluate};
use crate::snapshots::Changes;

/// The most tools that an error names to a model that called an unknown one.
const MAX_NAMES: usize = 200;

/// The available tools.
pub(in crate::native) struct Bench {
    tools: Vec<Box<dyn Tool>>,
    /// The names of the tools that do not come from an MCP server.
    own: HashSet<String>,
    loaded: Loaded,
}

/// The context of the calls of a step.
pub(in crate::native) struct Setting<'a> {
    pub(in crate::native) turn: &'a Turn,
    pub(in crate::native) root: &'a Root,
    pub(in crate::native) changes: &'a Changes<'a>,
    pub(in crate::native) permissions: &'a Permissions,
    pub(in crate::native) background: &'a Background,
    pub(in crate::native) hidden: &'a [String],
    pub(in crate::native) options: &'a ToolOptions,
    /// The id of the calling model.
    pub(in crate::native) model: &'a str,
    /// Tools that the prompt switched on or off.
    pub(in crate::native) off: &'a BTreeMap<String, bool>,
}

/// The result of a step's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::native) enum Fate {
    /// All calls were made; some may have failed.
    Done,
    /// The user refused one; the calls after it were not made.
    Refused,
    /// The turn was aborted.
    Cancelled,
}

/// A call with its tool.
struct Ready<'a> {
    id: &'a str,
    tool: &'a dyn Tool,
    input: Extra,
    /// The error for the model if the call must not be made. Clients see the call of the tool, and its failure.
    fault: Option<String>,
}

impl<'a> Ready<'a> {
    fn new(id: &'a str, tool: &'a dyn Tool, input: Extra) -> Self {
        Self { id, tool, fault: misfit(tool, &input), input }
    }

    /// Lets hooks change the arguments, before a client sees the call or the user is asked. A hook may refuse the
    /// call.
    async fn shape(&mut self, turn: &Turn) {
        match hooks::before(turn, self.tool.name(), self.id, &self.input).await {
            Ok(shaped) if shaped == self.input => {}
            Ok(shaped) => *self = Self::new(self.id, self.tool, shaped),
            Err(Refusal(why)) => self.fault = Some(why),
        }
    }
}

/// Returns the error for the model if the arguments do not fit.
fn misfit(tool: &dyn Tool, input: &Extra) -> Option<String> {
    let misfit = tool.check(input).err()?;
    let name = tool.name();
    Some(format!(
        "The arguments do not fit the tool {name}: {misfit}. Call it again with arguments that fit its schema."
    ))
}

impl Bench {
    /// Returns the tools for an agent with these permissions, sorted by name, without the skills it may not use. A
    /// tool of an MCP server does not replace a built-in tool of the same name. A plugin's tool does, because the
    /// user chose the plugin.
    pub(in crate::native) fn new(
        agents: &[Agent],
        options: &ToolOptions,
        servers: &Servers,
        permissions: &Permissions,
    ) -> Self {
        let rules = permissions.about("skill");
        let usable = |skill: &&Skill| evaluate(rules.iter(), "skill", &skill.name) != Action::Deny;
        let skills = options.skills.iter().filter(usable).cloned().collect();
        let mut tools = all(agents, skills, options.command);
        let mut own: HashSet<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
        tools.extend(servers.tools().into_iter().filter(|tool| !own.contains(tool.name())));
        if let Some(plugins) = &options.plugins {
            let brought = brought::all(plugins);
            let taken: HashSet<&str> = brought.iter().map(|tool| tool.name()).collect();
            own.extend(taken.iter().map(|name| (*name).to_owned()));
            tools.retain(|tool| tool.name() == invalid::NAME || !taken.contains(tool.name()));
            tools.extend(brought.into_iter().filter(|tool| tool.name() != invalid::NAME));
        }
        tools.sort_by(|one, other| one.name().cmp(other.name()));
        Self { tools, own, loaded: Loaded::default() }
    }

    /// Returns true if a tool does not come from an MCP server.
    pub(in crate::native) fn is_own(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// Returns the tools that a model may call.
    pub(in crate::native) fn offered(&self, setting: &Setting<'_>) -> Vec<llm::Tool> {
        self.visible(setting).map(described).collect()
    }

    /// Returns the tools that suit a model, or all tools if none is named, regardless of permissions.
    pub(in crate::native) fn listed(&self, model: Option<&str>) -> Vec<llm::Tool> {
        let wanted = |tool: &&dyn Tool| model.is_none_or(|model| suits(*tool, model));
        self.tools.iter().map(AsRef::as_ref).filter(wanted).map(described).collect()
    }

    fn visible<'a>(&'a self, setting: &'a Setting<'_>) -> impl Iterator<Item = &'a dyn Tool> {
        self.tools.iter().map(AsRef::as_ref).filter(move |tool| {
            suits(*tool, setting.model)
                && !setting.permissions.hides(tool.permission())
                && setting.off.get(tool.name()) != Some(&false)
        })
    }

    /// Makes the calls. Consecutive calls of concurrent tools run at the same time.
    pub(in crate::native) async fn run(
        &self,
        calls: &[Called],
        setting: &Setting<'_>,
        doom: &mut Doom,
    ) -> Fate {
        let mut ready: Vec<Ready<'_>> = calls.iter().filter_map(|call| self.find(call, setting)).collect();
        let mut fate = Fate::Done;
        for group in ready.chunk_by_mut(|one, next| one.tool.is_concurrent() && next.tool.is_concurrent()) {
            fate = match fate {
                Fate::Done if setting.turn.cancellation().is_cancelled() => return Fate::Cancelled,
                Fate::Done => self.make_together(group, setting, doom).await,
                Fate::Refused => {
                    for call in group {
                        skip(setting.turn, call).await;
                    }
                    Fate::Refused
                }
                Fate::Cancelled => return Fate::Cancelled,
            };
        }
        fate
    }

    /// Returns the tool for a call, or else the tool that reports the mistake to the model.
    fn find<'a>(&'a self, call: &'a Called, setting: &Setting<'_>) -> Option<Ready<'a>> {
        let lower = call.name.to_lowercase();
        let tool = [call.name.as_str(), lower.as_str()]
            .into_iter()
            .find_map(|name| self.visible(setting).find(|tool| tool.name() == name).map(Tool::name));
        let tool = tool.and_then(|name| self.tools.iter().find(|tool| tool.name() == name));
        let wrong = match (tool, arguments(&call.input)) {
            (None, _) => {
                let names: Vec<&str> = self.visible(setting).map(Tool::name).take(MAX_NAMES).collect();
                format!(
                    "Model tried to call unavailable tool '{}'. Available tools: {}.",
                    call.name,
                    names.join(", ")
                )
            }
            (Some(tool), Ok(input)) => return Some(Ready::new(&call.id, tool.as_ref(), input)),
            (Some(tool), Err(error)) => format!("Invalid input for tool {}: {error}", tool.name()),
        };
        let tool = self.tools.iter().find(|tool| tool.name() == invalid::NAME)?;
        let input = object(json!({ "tool": call.name, "error": wrong }));
        Some(Ready::new(&call.id, tool.as_ref(), input))
    }

    async fn make_together(&self, group: &mut [Ready<'_>], setting: &Setting<'_>, doom: &mut Doom) -> Fate {
        let mut going = Vec::new();
        let mut refused = false;
        for ready in group {
            if refused {
                skip(setting.turn, ready).await;
                continue;
            }
            tokio::select! {
                biased;
                () = setting.turn.cancelled() => return Fate::Cancelled,
                () = ready.shape(setting.turn) => {}
            }
            let ready = &*ready;
            start(setting.turn, ready).await;
            match admit(ready, setting, doom).await {
                Ok(()) => going.push(self.make(ready, setting)),
                Err(failure) => refused = end(setting, ready, Err(failure)).await == Fate::Refused,
            }
        }
        let fates = join_all(going).await;
        if fates.contains(&Fate::Cancelled) || setting.turn.cancellation().is_cancelled() {
            Fate::Cancelled
        } else if refused || fates.contains(&Fate::Refused) {
            Fate::Refused
        } else {
            Fate::Done
        }
    }

    /// Runs a command line that no model wrote, with the `bash` tool.
    pub(in crate::native) async fn line(
        &self,
        setting: &Setting<'_>,
        id: &str,
        by: By,
        line: &str,
    ) -> Result<Output, Failure> {
        let input = object(json!({ "command": line }));
        let bash = bash::Bash { timeout: setting.options.command };
        let call = Call { by, ..self.call(setting, id, bash.name(), &input) };
        run(&bash, &call).await
    }

    async fn make(&self, ready: &Ready<'_>, setting: &Setting<'_>) -> Fate {
        let call = self.call(setting, ready.id, ready.tool.name(), &ready.input);
        let mut result = run(ready.tool, &call).await;
        if let Ok(output) = &mut result {
            tokio::select! {
                biased;
                () = setting.turn.cancelled() => return Fate::Cancelled,
                shaped = hooks::after(setting.turn, call.name, call.id, call.input, output) => {
                    if shaped {
                        result = Ok(truncate::fit(&call, output.clone()).await);
                    }
                }
            }
        }
        end(setting, ready, result).await
    }

    fn call<'c>(
        &'c self,
        setting: &'c Setting<'_>,
        id: &'c str,
        name: &'c str,
        input: &'c Extra,
    ) -> Call<'c> {
        Call {
            turn: setting.turn,
            root: setting.root,
            changes: setting.changes,
            permissions: setting.permissions,
            background: setting.background,
            hidden: setting.hidden,
            options: setting.options,
            loaded: &self.loaded,
            may_delegate: !setting.permissions.hides("task") && setting.off.get("task") != Some(&false),
            by: By::Model,
            id,
            name,
            input,
        }
    }
}

async fn run(tool: &dyn Tool, call: &Call<'_>) -> Result<Output, Failure> {
    if let Some(sandbox) = &call.options.sandbox {
        sandbox.permits(tool)?;
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
        _ => tool.is_of_use(),
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

async fn start(turn: &Turn, ready: &Ready<'_>) {
    let running = AgentEvent::ToolRunning {
        call: ready.id.to_owned(),
        tool: ready.tool.name().to_owned(),
        input: ready.input.clone(),
        title: None,
        metadata: None,
    };
    turn.emit(running).await;
}

/// Checks whether a call may be made.
async fn admit(ready: &Ready<'_>, setting: &Setting<'_>, doom: &mut Doom) -> Result<(), Failure> {
    guard(ready, setting, doom).await?;
    match &ready.fault {
        None => Ok(()),
        Some(fault) => Err(Failure::Error(fault.clone())),
    }
}

/// Asks the user about a call that is repeated too often.
async fn guard(ready: &Ready<'_>, setting: &Setting<'_>, doom: &mut Doom) -> Result<(), Failure> {
    let name = ready.tool.name();
    if doom.note(name, &ready.input) < limits::DOOM {
        return Ok(());
    }
    let wish = Wish {
        permission: "doom_loop".into(),
        patterns: vec![Pattern::plain(name)],
        always: vec![name.to_owned()],
        metadata: object(json!({ "tool": name, "input": ready.input })),
    };
    setting.permissions.get(setting.turn, wish, None).await
}

/// Emits the result of a call.
async fn end(setting: &Setting<'_>, ready: &Ready<'_>, result: Result<Output, Failure>) -> Fate {
    let call = ready.id.to_owned();
    // The engine closes open parts after an abort, in the same way for every tool.
    if setting.turn.cancellation().is_cancelled() {
        return Fate::Cancelled;
    }
    match result {
        Ok(output) => {
            let Output { title, text: output, metadata, attachments } = output;
            setting.turn.emit(AgentEvent::ToolCompleted { call, output, title, metadata, attachments }).await;
            Fate::Done
        }
        Err(Failure::Error(error)) => {
            setting.turn.emit(AgentEvent::ToolFailed { call, error, metadata: None }).await;
            Fate::Done
        }
        Err(Failure::Refused(error)) => {
            setting.turn.emit(AgentEvent::ToolFailed { call, error, metadata: None }).await;
            Fate::Refused
        }
        Err(Failure::Cancelled) => Fate::Cancelled,
    }
}

async fn skip(turn: &Turn, ready: &Ready<'_>) {
    let error = "Not run: the user refused an earlier tool call.".to_owned();
    turn.emit(AgentEvent::ToolFailed { call: ready.id.to_owned(), error, metadata: None }).await;
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
        let nobody = Permissions::new(Vec::new(), Vec::new());
        let bench = Bench::new(&[], &ToolOptions::default(), &Servers::default(), &nobody);
        let lists = |model, name: &str| bench.listed(model).iter().any(|tool| tool.name == name);
        assert!(lists(Some("gpt-5"), "apply_patch") && !lists(Some("gpt-5"), "edit"));
        assert!(lists(Some("claude-opus"), "edit") && !lists(Some("claude-opus"), "apply_patch"));
        assert!(lists(Some("gpt-5"), "read") && !lists(Some("gpt-5"), invalid::NAME));
        assert!(lists(None, "edit") && lists(None, "apply_patch") && lists(None, invalid::NAME));
    }

    #[test]
    fn arguments_are_objects_or_say_why_not() {
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
