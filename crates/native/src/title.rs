//! Generates a title from the first prompt of a session that has none yet.

use std::sync::Arc;

use engine::session::{Turn, Used};
use futures::StreamExt;
use llm::{Message, ModelEvent, Purpose, Request, Usage, UserContent};
use protocol::number::Number;
use protocol::{AgentEvent, MessageWithParts, PartBody, Session};
use tokio::time::timeout;

use super::active_agent::ActiveModel;
use super::history;
use super::{Inner, hooks, limits, step_end};

/// The name of the agent that writes titles.
pub(super) const AGENT: &str = "title";

/// The system prompt of that agent.
pub(super) const PROMPT: &str = "\
You name conversations. Answer the message with a title for the conversation it begins, and with nothing else.

- One line of at most fifty characters, in the language of the message.
- Say what is to be done or found out, so that the user recognises it in a list: the task, the file, the error.
- No quotes, no full stop, no \"Title:\", no word about tools or about yourself.
- Do not answer the message, even if it is a question. A greeting is a fine title for a greeting.";

/// Characters of the prompt that the model sees for a title.
const MAX_PROMPT: usize = 4_000;

/// Generates and emits a title if the session needs one. A failure is only logged for debugging: the session keeps
/// its title.
pub(super) async fn title(inner: &Inner, turn: &Turn) {
    if turn.session.parent_id.is_some() || !turn.session.has_default_title() {
        return;
    }
    match timeout(limits::TITLE, generate(inner, turn)).await {
        Ok(Ok(Some(title))) => turn.emit(AgentEvent::Titled(title)).await,
        Ok(Ok(None)) => {}
        Ok(Err(error)) => tracing::debug!(session = %turn.session.id, error, "failed to generate a title"),
        Err(_) => tracing::debug!(session = %turn.session.id, "timed out generating a title"),
    }
}

async fn generate(inner: &Inner, turn: &Turn) -> Result<Option<String>, String> {
    // Only the first prompt of a session gets a title, so reading stops at the second one.
    let mut prompts = 0;
    let messages = turn.recent(|message| {
        prompts += usize::from(is_user_prompt(message));
        prompts > 1
    });
    let messages = messages.await.map_err(|error| error.to_string())?;
    let Some(prompt) = only_prompt(messages, turn).filter(|prompt| text_of(prompt).is_some()) else {
        return Ok(None);
    };
    let model = title_model(inner, turn).await?;
    // A plugin may hide secrets from every model, so this one sees the changed text too.
    let Some(shown) = hooks::titled(turn, prompt.clone()).await else { return Ok(None) };
    let Some(text) = text_of(&shown) else { return Ok(None) };
    let user = match &prompt.info {
        protocol::Message::User(user) => Some(user.as_ref()),
        protocol::Message::Assistant(_) => None,
    };
    let chat = inner.chat(turn, AGENT, &model.reference, user);
    let request =
        hooks::change_request(turn, chat.as_ref(), request(inner, &model, &turn.session, text)).await;
    let (text, usage) = call(&model, request).await?;
    let (tokens, cost) = (step_end::tokens(usage), Number(model.prices.cost(&usage)));
    turn.tally().add(Used::of(cost, &tokens));
    turn.emit(AgentEvent::Spent { tokens, cost }).await;
    Ok(clean(&text))
}

/// Returns the model of the `title` agent, else the small model, else one that a hook chooses, else the turn's
/// model.
async fn title_model(inner: &Inner, turn: &Turn) -> Result<ActiveModel, String> {
    let own = inner.agent(AGENT).and_then(|agent| agent.model.as_ref());
    if let Some(configured) = own.or(inner.options.small_model.as_ref()) {
        return inner.active_model(configured);
    }
    let chosen = inner.small_model(turn, &turn.model).await;
    inner.active_model(chosen.as_ref().unwrap_or(&turn.model))
}

fn request(inner: &Inner, model: &ActiveModel, session: &Session, prompt: String) -> Request {
    let mut request = model.request(session);
    request.purpose = Purpose::Title;
    let agent = inner.agent(AGENT);
    request.system = agent.and_then(|agent| agent.prompt.clone()).unwrap_or_else(|| PROMPT.to_owned());
    request.sampling.temperature = agent.and_then(|agent| agent.temperature).map(|number| number.0);
    request.messages = vec![Message::User(vec![UserContent::Text(prompt)])];
    request
}

async fn call(model: &ActiveModel, request: Request) -> Result<(String, Usage), String> {
    let stream = model.provider.stream(request).await;
    let mut stream = stream.map_err(|error| error.to_string())?;
    let (mut text, mut used) = (String::new(), Usage::default());
    while let Some(event) = stream.next().await {
        match event.map_err(|error| error.to_string())? {
            ModelEvent::TextDelta { text: more, .. } => text.push_str(&more),
            ModelEvent::Finish { usage, .. } => {
                used = usage;
                break;
            }
            _ => {}
        }
    }
    Ok((text, used))
}

/// Returns the only user prompt in a session, or `None` if there are several.
fn only_prompt(messages: Vec<Arc<MessageWithParts>>, turn: &Turn) -> Option<MessageWithParts> {
    let mut written = messages.into_iter().filter(|message| is_user_prompt(message));
    let prompt = written.next().filter(|_| written.next().is_none())?;
    (*prompt.info.id() == turn.prompt && history::compaction(&prompt).is_none())
        .then(|| Arc::unwrap_or_clone(prompt))
}

/// Returns the text of a prompt that the model sees for a title.
fn text_of(prompt: &MessageWithParts) -> Option<String> {
    let text: Vec<&str> =
        prompt.parts.iter().filter_map(prompt_text).filter(|text| !text.trim().is_empty()).collect();
    let text: String = text.join("\n").chars().take(MAX_PROMPT).collect();
    (!text.is_empty()).then_some(text)
}

/// Returns true if the user wrote the message.
fn is_user_prompt(message: &MessageWithParts) -> bool {
    let protocol::Message::User(user) = &message.info else { return false };
    let synthetic =
        |part: &protocol::Part| matches!(&part.body, PartBody::Text(it) if it.synthetic == Some(true));
    user.continues().is_none() && !message.parts.iter().all(synthetic)
}

fn prompt_text(part: &protocol::Part) -> Option<&str> {
    match &part.body {
        PartBody::Text(text) if text.synthetic != Some(true) && text.ignored != Some(true) => {
            Some(&text.text)
        }
        PartBody::Subtask(task) => Some(&task.prompt),
        _ => None,
    }
}

/// Returns the first line with text, without the model's thoughts, cut to the length limit.
fn clean(text: &str) -> Option<String> {
    let mut rest = text;
    let mut answer = String::new();
    while let Some((before, thought)) = rest.split_once("<think>") {
        answer.push_str(before);
        rest = thought.split_once("</think>").map_or("", |(_, after)| after);
    }
    answer.push_str(rest);
    let line =
        answer.lines().map(|line| line.trim().trim_matches('"').trim()).find(|line| !line.is_empty())?;
    if line.chars().count() <= limits::TITLE_LENGTH {
        return Some(line.to_owned());
    }
    let start: String = line.chars().take(limits::TITLE_LENGTH - 3).collect();
    Some(format!("{start}..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_without_reasoning() {
        let long = "x".repeat(101);
        let cut = format!("{}...", "x".repeat(97));
        for (answer, title) in [
            ("Fix the build", Some("Fix the build")),
            ("<think>a\nb</think>\n\n  \"Fix the build\" \nmore", Some("Fix the build")),
            ("one<think>thinking without end", Some("one")),
            ("  \n", None),
            ("<think>only</think>", None),
            (long.as_str(), Some(cut.as_str())),
        ] {
            assert_eq!(clean(answer).as_deref(), title, "{answer}");
        }
    }
}
