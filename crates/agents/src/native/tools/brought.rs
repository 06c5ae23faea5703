//! Tools that somebody else brings along, such as a plugin. They have their names to themselves: one that is called like
//! a tool of ours takes its place.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use protocol::part::FilePart;
use protocol::{Extra, MessageId, SessionId};
use serde_json::Value;

use super::{Call, Failure, Output, Tool};
use crate::native::permission::{Pattern, Wish};

/// The longest name that providers take.
const MAX_NAME: usize = 64;

/// Whoever brings tools along.
pub trait Toolbox: Debug + Send + Sync {
    /// What there is at this moment.
    fn tools(&self) -> Vec<BroughtTool>;

    /// Calls one of them. It is dropped when the turn is stopped.
    fn call<'a>(
        &'a self,
        call: BroughtCall,
        counter: &'a dyn Counter,
    ) -> BoxFuture<'a, Result<BroughtOutput, String>>;
}

/// A tool that is brought along.
#[derive(Debug, Clone, PartialEq)]
pub struct BroughtTool {
    /// What the model calls it by, and the permission that hides it.
    pub id: String,
    /// When and how to use it.
    pub description: String,
    /// JSON Schema of its input.
    pub schema: Value,
}

/// One call of such a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct BroughtCall {
    /// The tool.
    pub id: String,
    /// What it is called with.
    pub input: Extra,
    /// The session.
    pub session: SessionId,
    /// The message with the call.
    pub message: MessageId,
    /// The agent that calls.
    pub agent: String,
    /// The model's id of the call.
    pub call: String,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BroughtOutput {
    /// For people.
    pub title: Option<String>,
    /// For the model.
    pub text: String,
    /// Facts for clients.
    pub metadata: Extra,
    /// Pictures and documents, for both.
    pub attachments: Vec<FilePart>,
}

/// What such a tool may want before it is done.
pub trait Counter: Send + Sync {
    /// Shows how far it got.
    fn progress(&self, title: Option<String>, metadata: Extra) -> BoxFuture<'_, ()>;

    /// Gets a permission for all of these, or the reason why not.
    fn permission(
        &self,
        permission: String,
        patterns: Vec<String>,
        always: Vec<String>,
        metadata: Extra,
    ) -> BoxFuture<'_, Result<(), String>>;
}

/// A tool in the loop's hands.
struct Brought {
    about: BroughtTool,
    toolbox: Arc<dyn Toolbox>,
}

/// The tools of a box. What has no name that providers take is left out.
pub(super) fn all(toolbox: &Arc<dyn Toolbox>) -> Vec<Box<dyn Tool>> {
    let usable = |about: &BroughtTool| {
        let usable = is_name(&about.id);
        if !usable {
            tracing::warn!(tool = about.id, "a tool has a name that providers do not take");
        }
        usable
    };
    let tools = toolbox.tools().into_iter().filter(usable);
    tools.map(|about| Box::new(Brought { about, toolbox: Arc::clone(toolbox) }) as Box<dyn Tool>).collect()
}

fn is_name(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !id.is_empty() && id.len() <= MAX_NAME && id.bytes().all(allowed)
}

impl Tool for Brought {
    fn name(&self) -> &str {
        &self.about.id
    }

    fn description(&self) -> String {
        self.about.description.clone()
    }

    fn schema(&self) -> Value {
        self.about.schema.clone()
    }

    /// The tool knows best.
    fn check(&self, _: &Extra) -> Result<(), String> {
        Ok(())
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, Failure>> {
        async move {
            let made = BroughtCall {
                id: self.about.id.clone(),
                input: call.input.clone(),
                session: call.turn.session.id.clone(),
                message: message(call).await?,
                agent: call.turn.agent.clone(),
                call: call.id.to_owned(),
            };
            let counter = Here { call, refusal: Mutex::default() };
            let around = call.changes.around().await;
            let result = tokio::select! {
                biased;
                () = call.turn.cancelled() => Err(Failure::Cancelled),
                result = self.toolbox.call(made, &counter) => result.map_err(Failure::Error),
            };
            call.changes.settle(around).await;
            let refusal = counter.refusal.into_inner().unwrap_or_else(PoisonError::into_inner);
            match (result, refusal) {
                (Ok(output), _) => Ok(self.output(output)),
                // A tool that gives up because a person refused has not failed.
                (Err(Failure::Error(_)), Some(refusal)) => Err(refusal),
                (Err(failure), _) => Err(failure),
            }
        }
        .boxed()
    }
}

impl Brought {
    fn output(&self, output: BroughtOutput) -> Output {
        let BroughtOutput { title, text, metadata, attachments } = output;
        Output { title: title.unwrap_or_else(|| self.about.id.clone()), text, metadata, attachments }
    }
}

/// The message that is being written.
async fn message(call: &Call<'_>) -> Result<MessageId, Failure> {
    let newest = call.turn.recent(|_| true).await.map_err(|error| Failure::Error(error.to_string()))?;
    let newest = newest.last().map(|message| message.info.id().clone());
    newest.ok_or_else(|| Failure::Error("the call belongs to no message".to_owned()))
}

/// Where a call is made.
struct Here<'a> {
    call: &'a Call<'a>,
    /// What a person has refused, if that ends the turn.
    refusal: Mutex<Option<Failure>>,
}

impl Counter for Here<'_> {
    fn progress(&self, title: Option<String>, metadata: Extra) -> BoxFuture<'_, ()> {
        self.call.progress(title, metadata).boxed()
    }

    fn permission(
        &self,
        permission: String,
        patterns: Vec<String>,
        always: Vec<String>,
        metadata: Extra,
    ) -> BoxFuture<'_, Result<(), String>> {
        async move {
            let patterns = patterns.into_iter().map(Pattern::plain).collect();
            let wish = Wish { permission: permission.into(), patterns, always, metadata };
            let got = self.call.permissions.get(self.call.turn, wish, Some(self.call.id)).await;
            got.map_err(|failure| match &failure {
                Failure::Error(why) => why.clone(),
                Failure::Refused(why) => {
                    let why = why.clone();
                    *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                    why
                }
                Failure::Cancelled => "the turn was stopped".to_owned(),
            })
        }
        .boxed()
    }
}
