//! Tools that a plugin provides. A tool with the name of a built-in tool replaces it.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use protocol::part::FilePart;
use protocol::{Extra, MessageId, SessionId};
use serde_json::Value;

use super::{Call, Failure, Output, Tool};
use crate::native::permission::{Pattern, PermissionCheck};

/// The longest name that providers accept.
const MAX_NAME: usize = 64;

/// A provider of tools, such as the plugin host.
pub trait Toolbox: Debug + Send + Sync {
    /// Returns the tools that are available now.
    fn tools(&self) -> Vec<BroughtTool>;

    /// Calls a tool. The future is dropped when the turn is aborted.
    fn call<'a>(
        &'a self,
        call: BroughtCall,
        counter: &'a dyn Counter,
    ) -> BoxFuture<'a, Result<BroughtOutput, String>>;
}

/// A tool of a [`Toolbox`].
#[derive(Debug, Clone, PartialEq)]
pub struct BroughtTool {
    /// The name for the model, and of the permission that hides the tool.
    pub id: String,
    /// The description for the model: when and how to use the tool.
    pub description: String,
    /// The JSON Schema of the tool's input.
    pub schema: Value,
}

/// One call of a [`BroughtTool`].
#[derive(Debug, Clone, PartialEq)]
pub struct BroughtCall {
    /// The id of the tool.
    pub id: String,
    pub input: Extra,
    pub session: SessionId,
    /// The message with the call.
    pub message: MessageId,
    /// The calling agent.
    pub agent: String,
    /// The model's id of the call.
    pub call: String,
}

/// The result of a [`BroughtCall`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BroughtOutput {
    /// Displayed to users. The id of the tool if absent.
    pub title: Option<String>,
    /// Sent to the model.
    pub text: String,
    /// Details for clients.
    pub metadata: Extra,
    /// Pictures and documents, for clients and the model.
    pub attachments: Vec<FilePart>,
}

/// The services of the loop that a tool can use while it runs.
pub trait Counter: Send + Sync {
    /// Emits the progress of the call.
    fn progress(&self, title: Option<String>, metadata: Extra) -> BoxFuture<'_, ()>;

    /// Gets a permission for all of these patterns, or the reason why not.
    fn permission(
        &self,
        permission: String,
        patterns: Vec<String>,
        always: Vec<String>,
        metadata: Extra,
    ) -> BoxFuture<'_, Result<(), String>>;
}

struct Brought {
    about: BroughtTool,
    toolbox: Arc<dyn Toolbox>,
}

/// Returns the tools of a toolbox, without those whose name providers do not accept.
pub(super) fn all(toolbox: &Arc<dyn Toolbox>) -> Vec<Box<dyn Tool>> {
    let usable = |about: &BroughtTool| {
        let usable = is_name(&about.id);
        if !usable {
            tracing::warn!(
                tool = about.id,
                "leaving out a plugin's tool because providers do not accept its name"
            );
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

    /// The tool validates its input itself.
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
            let before = call.changes.before_command().await;
            let result = tokio::select! {
                biased;
                () = call.turn.cancelled() => Err(Failure::Cancelled),
                result = self.toolbox.call(made, &counter) => result.map_err(Failure::Error),
            };
            call.changes.after_command(before).await;
            let refusal = counter.refusal.into_inner().unwrap_or_else(PoisonError::into_inner);
            match (result, refusal) {
                (Ok(output), _) => Ok(self.output(output)),
                // A tool that stops because the user refused a permission has not failed.
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

/// Returns the message that the model is writing.
async fn message(call: &Call<'_>) -> Result<MessageId, Failure> {
    let newest = call.turn.recent(|_| true).await.map_err(|error| Failure::Error(error.to_string()))?;
    let newest = newest.last().map(|message| message.info.id().clone());
    newest.ok_or_else(|| Failure::Error("the session has no message for this call".to_owned()))
}

/// The services for one call.
struct Here<'a> {
    call: &'a Call<'a>,
    /// The refusal of the user, if it ends the turn.
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
            let check = PermissionCheck { permission: permission.into(), patterns, always, metadata };
            let got = self.call.permissions.require(self.call.turn, check, Some(self.call.id)).await;
            got.map_err(|failure| match &failure {
                Failure::Error(why) => why.clone(),
                Failure::Refused(why) => {
                    let why = why.clone();
                    *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                    why
                }
                Failure::Cancelled => "the turn was aborted".to_owned(),
            })
        }
        .boxed()
    }
}
