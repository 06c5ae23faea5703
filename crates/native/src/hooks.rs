//! Calls the hooks of plugins from the loop. Each call is skipped if no plugin uses the hook.
//!
//! This module handles neither timeouts nor plugin errors: the implementation of [`Hooks`] returns its input
//! unchanged in both cases. An abort drops every call.

use std::sync::Arc;

use engine::ports::hooks::{
    ChatContext, Compacting, CompactionPrompt, Definition, Environment, Headers, HookPoint, Hooks, Messages,
    MessagesTransform, Params, ProviderContext, Refusal, ShellEnv, SmallModel, SmallModelChoice, System,
    SystemTransform, ToolAfter, ToolArgs, ToolBefore, ToolDefinition, ToolOutcome,
};
use engine::session::Turn;
use futures::future::join_all;
use protocol::message::ModelRef;
use protocol::number::Number;
use protocol::provider::{Model, Provider};
use protocol::{Extra, MessageWithParts, UserMessage};
use serde_json::Value;

use super::Inner;
use super::history::History;
use super::tools::Output;

/// The hooks that change a model call.
const CHAT: [HookPoint; 3] = [HookPoint::ChatParams, HookPoint::ChatHeaders, HookPoint::SystemTransform];

impl Inner {
    /// Returns a model and its provider in the form that hooks receive.
    fn known(&self, model: &ModelRef) -> Option<(&Provider, &Model)> {
        let provider = self.options.providers.iter().find(|provider| provider.id == model.provider_id)?;
        Some((provider, provider.models.get(&model.model_id)?))
    }

    /// Returns the context of a model call, or `None` if no plugin uses any of the `wanted` hooks.
    fn context(
        &self,
        turn: &Turn,
        wanted: &[HookPoint],
        agent: &str,
        model: &ModelRef,
        prompt: Option<&UserMessage>,
    ) -> Option<ChatContext> {
        if !wanted.iter().any(|point| turn.hooks().wants(*point)) {
            return None;
        }
        let (provider, known) = self.known(model)?;
        let context = ProviderContext {
            source: provider.source,
            info: provider.clone(),
            options: provider.options.clone(),
        };
        Some(ChatContext {
            session_id: turn.session.id.clone(),
            agent: agent.to_owned(),
            model: known.clone(),
            provider: context,
            message: prompt?.clone(),
        })
    }

    /// Returns the context for the hooks that change model calls.
    pub(super) fn chat(
        &self,
        turn: &Turn,
        agent: &str,
        model: &ModelRef,
        prompt: Option<&UserMessage>,
    ) -> Option<ChatContext> {
        self.context(turn, &CHAT, agent, model, prompt)
    }

    /// Returns the context for the hook that decides whether a turn goes on after a summary.
    pub(super) fn after_summary(
        &self,
        turn: &Turn,
        agent: &str,
        model: &ModelRef,
        prompt: Option<&UserMessage>,
    ) -> Option<ChatContext> {
        self.context(turn, &[HookPoint::CompactionAutocontinue], agent, model, prompt)
    }

    /// Returns the small model that a hook chooses for titles.
    pub(super) async fn small_model(&self, turn: &Turn, answering: &ModelRef) -> Option<ModelRef> {
        if !turn.hooks().wants(HookPoint::SmallModel) {
            return None;
        }
        let provider = self.known(answering)?.0.clone();
        let choice = turn.hooks().change(&SmallModel { provider }, SmallModelChoice::default()).await;
        let model = choice.model?;
        Some(ModelRef::new(&model.provider_id, &model.id))
    }
}

/// Lets hooks change the parameters, the headers and the system prompt of a model call.
pub(super) async fn change_request(
    turn: &Turn,
    chat: Option<&ChatContext>,
    mut request: llm::Request,
) -> llm::Request {
    let (Some(chat), hooks) = (chat, turn.hooks()) else { return request };
    if hooks.wants(HookPoint::SystemTransform) {
        let input = SystemTransform { session_id: Some(chat.session_id.clone()), model: chat.model.clone() };
        let changed = hooks.change(&input, System { system: vec![request.system.clone()] }).await;
        let sections =
            changed.system.iter().map(|section| section.trim()).filter(|section| !section.is_empty());
        request.system = sections.collect::<Vec<_>>().join("\n\n");
    }
    if hooks.wants(HookPoint::ChatParams) {
        let changed = hooks.change(chat, params(&request)).await;
        request.sampling.temperature = changed.temperature.map(|number| number.0);
        request.sampling.top_p = changed.top_p.map(|number| number.0);
        request.sampling.top_k = changed.top_k.and_then(count);
        request.limits.output_tokens = changed.max_output_tokens.and_then(count);
        request.options = changed.options;
    }
    if hooks.wants(HookPoint::ChatHeaders) {
        for (name, value) in hooks.change(chat, Headers::default()).await.headers {
            request.headers.set(&name, value);
        }
    }
    request
}

fn params(request: &llm::Request) -> Params {
    #[expect(clippy::cast_precision_loss, reason = "no model writes so many tokens")]
    let number = |count: u64| Number(count as f64);
    Params {
        temperature: request.sampling.temperature.map(Number),
        top_p: request.sampling.top_p.map(Number),
        top_k: request.sampling.top_k.map(number),
        max_output_tokens: request.limits.output_tokens.map(number),
        options: request.options.clone(),
    }
}

/// Converts a number to a count. Returns `None` if it is out of range.
fn count(number: Number) -> Option<u64> {
    let whole = number.0.round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within these bounds")]
    (1.0..=1e15).contains(&whole).then_some(whole as u64)
}

/// Lets hooks change the conversation. Returns `None` if no plugin uses the hook.
pub(super) async fn conversation(turn: &Turn, history: &History) -> Option<Vec<MessageWithParts>> {
    if !turn.hooks().wants(HookPoint::MessagesTransform) {
        return None;
    }
    let summary = history.summary.iter().flat_map(|it| [&it.request, &it.summary]);
    let messages = summary.chain(&history.messages).map(|message| message.as_ref().clone()).collect();
    Some(transformed(turn, messages).await)
}

/// Lets hooks change the messages that are about to be summarised, and the summary before them. Returns `None` if no
/// plugin uses the hook.
pub(super) async fn summarised(
    turn: &Turn,
    previous: Option<&MessageWithParts>,
    head: &[Arc<MessageWithParts>],
) -> Option<(Option<MessageWithParts>, Vec<MessageWithParts>)> {
    if !turn.hooks().wants(HookPoint::MessagesTransform) {
        return None;
    }
    let all = previous.into_iter().chain(head.iter().map(Arc::as_ref)).cloned().collect();
    let (before, head): (Vec<_>, Vec<_>) = transformed(turn, all)
        .await
        .into_iter()
        .partition(|message| previous.is_some_and(|previous| previous.info.id() == message.info.id()));
    Some((before.into_iter().next(), head))
}

/// Lets hooks change the prompt that gets a title. Returns `None` if a plugin removes it.
pub(super) async fn titled(turn: &Turn, prompt: MessageWithParts) -> Option<MessageWithParts> {
    if !turn.hooks().wants(HookPoint::MessagesTransform) {
        return Some(prompt);
    }
    let id = prompt.info.id().clone();
    transformed(turn, vec![prompt]).await.into_iter().find(|message| *message.info.id() == id)
}

async fn transformed(turn: &Turn, messages: Vec<MessageWithParts>) -> Vec<MessageWithParts> {
    turn.hooks().change(&MessagesTransform {}, Messages { messages }).await.messages
}

/// Lets hooks change the descriptions of the loop's own tools. Tools of MCP servers stay as they are.
pub(super) async fn define(hooks: &dyn Hooks, tools: &mut [llm::Tool], is_own: impl Fn(&str) -> bool) {
    if !hooks.wants(HookPoint::ToolDefinition) {
        return;
    }
    let own = tools.iter_mut().filter(|tool| is_own(&tool.name));
    join_all(own.map(|tool| async {
        let input = ToolDefinition { tool_id: tool.name.clone() };
        let output = Definition {
            description: tool.description.clone(),
            parameters: tool.schema.clone(),
            json_schema: tool.schema.clone(),
        };
        let changed = hooks.change(&input, output).await;
        tool.description = changed.description;
        let schemas = [changed.json_schema, changed.parameters].into_iter();
        if let Some(changed) = schemas.filter(Value::is_object).find(|schema| *schema != tool.schema) {
            tool.schema = changed;
        }
    }))
    .await;
}

/// Lets hooks change the arguments of a tool call, or refuse the call.
pub(super) async fn before(turn: &Turn, tool: &str, call: &str, input: &Extra) -> Result<Extra, Refusal> {
    if !turn.hooks().wants(HookPoint::ToolBefore) {
        return Ok(input.clone());
    }
    let about =
        ToolBefore { tool: tool.to_owned(), session_id: turn.session.id.clone(), call_id: call.to_owned() };
    let given = ToolArgs { args: Value::Object(input.clone()) };
    Ok(match turn.hooks().admit(&about, given).await?.args {
        Value::Object(changed) => changed,
        // Tools take only objects, so anything else is ignored.
        _ => input.clone(),
    })
}

/// Lets hooks change the output of a tool. Returns true if a hook was called.
pub(super) async fn after(turn: &Turn, tool: &str, call: &str, args: &Extra, output: &mut Output) -> bool {
    if !turn.hooks().wants(HookPoint::ToolAfter) {
        return false;
    }
    let about = ToolAfter {
        tool: tool.to_owned(),
        session_id: turn.session.id.clone(),
        call_id: call.to_owned(),
        args: Value::Object(args.clone()),
    };
    let given = ToolOutcome {
        title: std::mem::take(&mut output.title),
        output: std::mem::take(&mut output.text),
        metadata: std::mem::take(&mut output.metadata),
    };
    let changed = turn.hooks().change(&about, given).await;
    (output.title, output.text, output.metadata) = (changed.title, changed.output, changed.metadata);
    true
}

/// Returns the environment variables that hooks set for a process.
pub(super) async fn variables(turn: &Turn, directory: &std::path::Path, call: &str) -> Vec<(String, String)> {
    if !turn.hooks().wants(HookPoint::ShellEnv) {
        return Vec::new();
    }
    let input = ShellEnv {
        cwd: directory.to_string_lossy().into_owned(),
        session_id: Some(turn.session.id.clone()),
        call_id: Some(call.to_owned()),
    };
    let variables = turn.hooks().change(&input, Environment::default()).await.env.into_iter();
    // The system rejects other names and values, and the process would not start.
    let possible =
        |name: &str, value: &str| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
    variables.filter(|(name, value)| possible(name, value)).collect()
}

/// Lets hooks change the request for a summary.
pub(super) async fn compacting(turn: &Turn) -> CompactionPrompt {
    if !turn.hooks().wants(HookPoint::SessionCompacting) {
        return CompactionPrompt::default();
    }
    let input = Compacting { session_id: turn.session.id.clone() };
    turn.hooks().change(&input, CompactionPrompt::default()).await
}
