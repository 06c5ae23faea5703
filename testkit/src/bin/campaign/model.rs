//! The scripted model: an OpenAI-compatible provider that follows a prompt's tag and records the calls it receives.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::script::{Step, Tag};

/// One step that the model was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ask {
    pub(crate) prompt: String,
    /// Number of answers to the prompt that the call contained.
    pub(crate) step: usize,
    /// Number of servers that had been started by then.
    pub(crate) life: usize,
    /// Number of messages that the call contained.
    pub(crate) messages: usize,
}

/// The calls that the model has received.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    /// Every requested step, in order.
    pub(crate) asks: Vec<Ask>,
    /// Every prompt that was part of a conversation.
    pub(crate) prompts: BTreeSet<String>,
    life: usize,
}

#[derive(Debug, Clone, Default)]
struct Record(Arc<Mutex<Heard>>);

impl Record {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running provider.
#[derive(Debug)]
pub(crate) struct Model {
    url: String,
    record: Record,
}

impl Model {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let record = Record::default();
        let routes = Router::new().route("/v1/chat/completions", post(complete)).with_state(record.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { url, record })
    }

    /// Records that another server is started.
    pub(crate) fn begin_life(&self) {
        self.record.lock().life += 1;
    }

    pub(crate) fn heard(&self) -> Heard {
        self.record.lock().clone()
    }

    /// A configuration with this model only. Commands that begin with `printf` need a permission.
    pub(crate) fn configuration(&self) -> Value {
        json!({
            "model": "scripted/m",
            "small_model": "scripted/m",
            "provider": { "scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Scripted",
                "options": { "baseURL": self.url, "apiKey": "not-a-key" },
                "models": { "m": { "name": "M", "limit": { "context": 1_000_000, "output": 100_000 } } },
            } },
            "permission": { "edit": "allow", "bash": { "*": "allow", "printf *": "ask" } },
        })
    }
}

async fn complete(State(record): State<Record>, Json(call): Json<Value>) -> Response {
    // Calls for titles and summaries have no tools.
    let has_tools = call.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
    let place = if has_tools { place(&call) } else { None };
    let step = place.as_ref().map_or_else(|| Step::say(3, 0), |(tag, number)| Step::of(tag, *number));
    let id = place.as_ref().map_or_else(|| "side".to_owned(), |(tag, number)| format!("{}-{number}", tag.id));
    if let Some((tag, number)) = place {
        let mut heard = record.lock();
        let messages = call.get("messages").and_then(Value::as_array).map_or(0, Vec::len);
        let life = heard.life;
        heard.asks.push(Ask { prompt: tag.id, step: number, life, messages });
        heard.prompts.extend(prompts(&call));
    }
    let pause = Duration::from_millis(step.pause);
    let body = stream::iter(chunks(&step, &id)).then(move |chunk| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        Ok::<_, Infallible>(chunk)
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

/// The prompts of a conversation.
fn prompts(call: &Value) -> Vec<String> {
    let messages = call.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let said = messages.iter().filter(|message| message.get("role").is_some_and(|role| role == "user"));
    let contents = said.filter_map(|message| message.get("content"));
    contents.filter_map(|content| Tag::read(&text(content))).map(|tag| tag.id).collect()
}

/// The newest tag of a conversation, and the number of answers after it.
fn place(call: &Value) -> Option<(Tag, usize)> {
    let messages = call.get("messages")?.as_array()?;
    let mut answers = 0;
    for message in messages.iter().rev() {
        match message.get("role").and_then(Value::as_str) {
            Some("assistant") => answers += 1,
            Some("user") => {
                if let Some(tag) = message.get("content").and_then(|content| Tag::read(&text(content))) {
                    return Some((tag, answers));
                }
            }
            _ => {}
        }
    }
    None
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn chunks(step: &Step, id: &str) -> Vec<Bytes> {
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let data = json!({ "id": id, "object": "chat.completion.chunk", "choices": [choice] });
        Bytes::from(format!("data: {data}\n\n"))
    };
    let text = |word| format!("word {word:<width$} ", width = step.width);
    let mut chunks: Vec<_> =
        (0..step.words).map(|word| chunk(json!({ "content": text(word) }), Value::Null)).collect();
    let mut reason = "stop";
    if let Some((name, input)) = &step.call {
        let function = json!({ "name": name, "arguments": input.to_string() });
        let call =
            json!({ "index": 0, "id": format!("call-{id}"), "type": "function", "function": function });
        chunks.push(chunk(json!({ "tool_calls": [call] }), Value::Null));
        reason = "tool_calls";
    }
    chunks.push(chunk(json!({}), reason.into()));
    chunks.push(Bytes::from_static(b"data: [DONE]\n\n"));
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    #[test]
    fn the_step_is_the_number_of_answers_after_the_newest_tag() {
        let said = |role: &str, text: &str| json!({ "role": role, "content": text });
        let first = Tag::write("msg_1", Script::Plain);
        let second = Tag::write("msg_2", Script::Bash);
        let mut messages = vec![said("system", "be nice"), said("user", &first), said("assistant", "yes")];
        let at =
            |messages: &[Value]| place(&json!({ "messages": messages })).map(|(tag, step)| (tag.id, step));
        assert_eq!(at(&messages), Some(("msg_1".into(), 1)));
        messages.push(json!({ "role": "user", "content": [{ "type": "text", "text": second }] }));
        assert_eq!(at(&messages), Some(("msg_2".into(), 0)));
        messages.extend([said("assistant", "done"), said("tool", "output"), said("user", "go on")]);
        assert_eq!(at(&messages), Some(("msg_2".into(), 1)));
    }
}
