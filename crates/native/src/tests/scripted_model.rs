//! A scripted model that records its requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use llm::catalogue::{Limit, Price};
use llm::{Error, EventStream, Finish, Message, Model, ModelEvent, Purpose, Request, Usage, UserContent};
use serde_json::Value;

/// The response to one request.
#[derive(Debug, Clone, Default)]
pub(super) struct Reply {
    events: Vec<ModelEvent>,
    refusal: Option<Error>,
    finish: Option<(Finish, Usage)>,
    delay: Duration,
    silent: bool,
}

impl Reply {
    pub(super) fn text(text: &str) -> Self {
        let id = || "0".to_owned();
        let content = ModelEvent::TextDelta { id: id(), text: text.to_owned() };
        let events = vec![ModelEvent::TextStart { id: id() }, content, ModelEvent::TextEnd { id: id() }];
        Self { events, finish: Some((Finish::Stop, Usage::default())), ..Self::default() }
    }

    pub(super) fn call(id: &str, tool: &str, input: Value) -> Self {
        Self { finish: Some((Finish::ToolCalls, Usage::default())), ..Self::default() }
            .and_call(id, tool, input)
    }

    pub(super) fn and_call(mut self, id: &str, tool: &str, input: Value) -> Self {
        self.events.push(ModelEvent::ToolCall { id: id.to_owned(), name: tool.to_owned(), input });
        self
    }

    pub(super) fn refused(error: Error) -> Self {
        Self { refusal: Some(error), ..Self::default() }
    }

    pub(super) fn overflow() -> Self {
        Self::refused(Error::Overflow { message: "prompt is too long".to_owned(), body: None })
    }

    /// Sends no event and never ends.
    pub(super) fn silence() -> Self {
        Self { silent: true, ..Self::default() }
    }

    pub(super) fn using(mut self, input: u64, output: u64) -> Self {
        let reason = self.finish.map_or(Finish::Stop, |(reason, _)| reason);
        self.finish = Some((reason, Usage { input, output, ..Usage::default() }));
        self
    }

    pub(super) fn ending(mut self, reason: Finish) -> Self {
        self.finish = Some((reason, self.finish.map(|(_, usage)| usage).unwrap_or_default()));
        self
    }

    pub(super) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// The model. It answers steps from its list, in order, and then with "ok". The model `small` has 24,000 usable
/// tokens, at 2 per million in and 10 per million out; the limits and prices of other models are unknown.
#[derive(Debug, Clone)]
pub(super) struct ScriptedModel(Arc<Script>);

impl Default for ScriptedModel {
    fn default() -> Self {
        let mut small = llm::catalogue::Model::named("small");
        small.limit = Limit { context: 32_000, input: None, output: 8_000 };
        small.prices.base = Price { input: 2.0, output: 10.0, ..Price::default() };
        Self(Arc::new(Script {
            small,
            steps: Mutex::default(),
            summaries: Mutex::default(),
            title: Mutex::default(),
            requests: Mutex::default(),
        }))
    }
}

#[derive(Debug)]
struct Script {
    small: llm::catalogue::Model,
    steps: Mutex<VecDeque<Reply>>,
    summaries: Mutex<VecDeque<Reply>>,
    title: Mutex<Option<Reply>>,
    requests: Mutex<Vec<Request>>,
}

impl ScriptedModel {
    pub(super) fn new(steps: impl IntoIterator<Item = Reply>) -> Self {
        let model = Self::default();
        model.0.steps.lock().unwrap().extend(steps);
        model
    }

    pub(super) fn summaries(self, summaries: impl IntoIterator<Item = Reply>) -> Self {
        self.0.summaries.lock().unwrap().extend(summaries);
        self
    }

    pub(super) fn title(self, title: Reply) -> Self {
        *self.0.title.lock().unwrap() = Some(title);
        self
    }

    /// Returns the requests for a purpose.
    pub(super) fn requests(&self, purpose: Purpose) -> Vec<Request> {
        let requests = self.0.requests.lock().unwrap();
        requests.iter().filter(|request| request.purpose == purpose).cloned().collect()
    }

    /// Returns the conversation of each step in a short form.
    pub(super) fn conversations(&self) -> Vec<String> {
        self.requests(Purpose::Turn).iter().map(|request| short(&request.messages)).collect()
    }
}

impl Model for ScriptedModel {
    fn knows(&self, _: &str) -> bool {
        true
    }

    fn about(&self, model: &str) -> Option<&llm::catalogue::Model> {
        (model == "small").then_some(&self.0.small)
    }

    fn stream(&self, request: Request) -> BoxFuture<'static, Result<EventStream, Error>> {
        let script = &self.0;
        let reply = match request.purpose {
            Purpose::Turn => script.steps.lock().unwrap().pop_front().unwrap_or_else(|| Reply::text("ok")),
            Purpose::Compaction => {
                let next = script.summaries.lock().unwrap().pop_front();
                next.unwrap_or_else(|| Reply::text("A summary.").using(10, 5))
            }
            Purpose::Title => script.title.lock().unwrap().clone().unwrap_or_else(|| Reply::text("A title")),
        };
        script.requests.lock().unwrap().push(request);
        async move {
            if !reply.delay.is_zero() {
                tokio::time::sleep(reply.delay).await;
            }
            if let Some(error) = reply.refusal {
                return Err(error);
            }
            let finish = reply.finish.map(|(reason, usage)| ModelEvent::Finish { reason, usage });
            let events = stream::iter(reply.events.into_iter().chain(finish).map(Ok));
            Ok(if reply.silent { events.chain(stream::pending()).boxed() } else { events.boxed() })
        }
        .boxed()
    }
}

/// Returns a conversation in a short form, one line per message.
pub(super) fn short(messages: &[Message]) -> String {
    let line = |message: &Message| match message {
        Message::User(content) => {
            let content = content.iter().map(|block| match block {
                UserContent::Text(text) => text.chars().take(60).collect(),
                UserContent::File { mime, .. } => format!("<{mime}>"),
            });
            format!("user: {}", content.collect::<Vec<String>>().join(" | "))
        }
        Message::Assistant(content) => {
            let content = content.iter().map(|block| match block {
                llm::AssistantContent::Text(text) => text.clone(),
                llm::AssistantContent::Reasoning { text, .. } => format!("({text})"),
                llm::AssistantContent::ToolCall { id, name, .. } => format!("{name}#{id}"),
            });
            format!("model: {}", content.collect::<Vec<String>>().join(" | "))
        }
        Message::Tool(results) => {
            let content = results.iter().map(|result| {
                let mark = if result.is_error { "!" } else { "" };
                format!("#{}{mark}", result.id)
            });
            format!("tools: {}", content.collect::<Vec<String>>().join(" | "))
        }
    };
    messages.iter().map(line).collect::<Vec<_>>().join("\n")
}
