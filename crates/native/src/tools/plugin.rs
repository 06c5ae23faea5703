//! Tools that plugins provide. One that has the name of a built-in tool takes its place.

use std::sync::Arc;

use engine::ports::{ToolCall, ToolCaller, ToolInfo, ToolOutput, ToolPermission, Tools};
use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use protocol::{Extra, MessageId};
use serde_json::Value;
use supervision::permission::{Pattern, PermissionCheck};

use super::{Call, Output, Tool, ToolFailure};

/// The longest name that providers accept.
const MAX_NAME: usize = 64;

/// A tool of a plugin, as the native loop knows tools.
struct PluginTool {
    about: ToolInfo,
    tools: Arc<dyn Tools>,
}

/// The tools of plugins, without those whose names providers do not accept.
pub(super) fn all(tools: &Arc<dyn Tools>) -> Vec<Box<dyn Tool>> {
    let usable = |about: &ToolInfo| {
        let usable = is_name(&about.id);
        if !usable {
            tracing::warn!(
                tool = about.id,
                "leaving out a plugin's tool because providers do not accept its name"
            );
        }
        usable
    };
    let listed = tools.list().into_iter().filter(usable);
    listed.map(|about| Box::new(PluginTool { about, tools: Arc::clone(tools) }) as Box<dyn Tool>).collect()
}

fn is_name(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !id.is_empty() && id.len() <= MAX_NAME && id.bytes().all(allowed)
}

impl Tool for PluginTool {
    fn name(&self) -> &str {
        &self.about.id
    }

    fn description(&self) -> String {
        self.about.description.clone()
    }

    fn schema(&self) -> Value {
        self.about.parameters.clone()
    }

    /// The tool validates its input itself.
    fn check(&self, _: &Extra) -> Result<(), String> {
        Ok(())
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, ToolFailure>> {
        async move {
            let made = ToolCall {
                id: self.about.id.clone(),
                args: call.input.clone(),
                session: call.turn.session.id.clone(),
                message: message(call).await?,
                agent: call.turn.agent.clone(),
                call: call.id.to_owned(),
            };
            let caller = CallServices { call, refusal: Mutex::default() };
            let before = call.changes.before_command().await;
            let result = tokio::select! {
                biased;
                () = call.turn.cancelled() => Err(ToolFailure::Cancelled),
                result = self.tools.call(made, &caller) => result.map_err(ToolFailure::Error),
            };
            call.changes.after_command(before.as_ref()).await;
            let refusal = caller.refusal.into_inner();
            match (result, refusal) {
                (Ok(output), _) => Ok(self.output(output)),
                // A tool that stops because the user refused a permission has not failed.
                (Err(ToolFailure::Error(_)), Some(refusal)) => Err(refusal),
                (Err(failure), _) => Err(failure),
            }
        }
        .boxed()
    }
}

impl PluginTool {
    fn output(&self, output: ToolOutput) -> Output {
        let ToolOutput { title, text, metadata, attachments } = output;
        Output { title: title.unwrap_or_else(|| self.about.id.clone()), text, metadata, attachments }
    }
}

/// Returns the message that the model is writing.
async fn message(call: &Call<'_>) -> Result<MessageId, ToolFailure> {
    let newest = call.turn.recent(|_| true).await.map_err(|error| ToolFailure::Error(error.to_string()))?;
    let newest = newest.last().map(|message| message.info.id().clone());
    newest.ok_or_else(|| ToolFailure::Error("the session has no message for this call".to_owned()))
}

/// The services for one call.
struct CallServices<'a> {
    call: &'a Call<'a>,
    /// The refusal of the user, if it ends the turn.
    refusal: Mutex<Option<ToolFailure>>,
}

impl ToolCaller for CallServices<'_> {
    fn progress(&self, title: Option<String>, metadata: Extra) -> BoxFuture<'_, ()> {
        self.call.progress(title, metadata).boxed()
    }

    fn permission(&self, needed: ToolPermission) -> BoxFuture<'_, Result<(), String>> {
        async move {
            let ToolPermission { permission, patterns, always, metadata } = needed;
            let patterns = patterns.into_iter().map(Pattern::plain).collect();
            let check = PermissionCheck { permission: permission.into(), patterns, always, metadata };
            let got = self.call.permissions.require(self.call.turn, check, Some(self.call.id)).await;
            got.map_err(|failure| match &failure {
                ToolFailure::Error(why) => why.clone(),
                ToolFailure::Refused(why) => {
                    let why = why.clone();
                    *self.refusal.lock() = Some(failure);
                    why
                }
                ToolFailure::Cancelled => "the turn was aborted".to_owned(),
            })
        }
        .boxed()
    }
}
