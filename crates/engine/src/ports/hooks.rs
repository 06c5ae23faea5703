//! Hooks: the points at which plugins may observe a turn or change what happens in it.
//!
//! A call has an input, and an output that plugins may change. The type of the output identifies the point, so callers
//! use [`change`](trait.Hooks.html#method.change) for all of them. No hook can block a turn: each caller sets a
//! deadline, and an abort wins over all hooks.

mod call;
mod shapes;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::{self, BoxFuture, FutureExt};

pub use call::{HookCall, HookOutput, HookValue};
pub use shapes::{
    Autocontinue, AutocontinueChoice, ChatContext, ChatMessage, CommandBefore, CommandParts, Compacting,
    CompactionPrompt, Definition, Environment, Headers, Messages, MessagesTransform, Next, Params,
    PermissionAsk, PermissionStatus, PermissionTime, Prompted, ProviderContext, ShellEnv, SmallModel,
    SmallModelChoice, System, SystemTransform, Text, TextComplete, ToolAfter, ToolArgs, ToolBefore,
    ToolDefinition, ToolOutcome, TurnEnding,
};

/// Return type of hooks.
pub type Hooked<'a> = BoxFuture<'a, Result<(), Refusal>>;

/// The reason why a hook forbids a tool call, as text for the model and the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Declares the hook points: the name in OpenCode's plugin interface, the input and the output.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal, $input:ty => $output:ty;)*) => {
        /// A point at which a hook may be called.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum HookPoint {
            $($(#[$doc])* $point,)*
        }

        impl HookPoint {
            pub const ALL: &[Self] = &[$(Self::$point,)*];

            /// The name of this point in OpenCode's plugin interface.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)*
                }
            }
        }

        $(impl HookOutput for $output {
            const POINT: HookPoint = HookPoint::$point;
            type Input = $input;
        })*
    };
}

points! {
    /// A prompt is about to be stored.
    ChatMessage = "chat.message", ChatMessage => Prompted;
    /// A model is about to be called: its parameters.
    ChatParams = "chat.params", ChatContext => Params;
    /// A model is about to be called: the headers of the call.
    ChatHeaders = "chat.headers", ChatContext => Headers;
    /// The user is about to be asked for a permission. A hook may answer in place of the user.
    PermissionAsk = "permission.ask", PermissionAsk => PermissionStatus;
    /// A slash command has become a prompt.
    CommandBefore = "command.execute.before", CommandBefore => CommandParts;
    /// A tool is about to run. A hook may forbid it: the model receives the reason and the turn continues.
    ToolBefore = "tool.execute.before", ToolBefore => ToolArgs;
    /// A tool call has succeeded: its result.
    ToolAfter = "tool.execute.after", ToolAfter => ToolOutcome;
    /// A tool is about to be described to a model.
    ToolDefinition = "tool.definition", ToolDefinition => Definition;
    /// A process is about to be started: its environment.
    ShellEnv = "shell.env", ShellEnv => Environment;
    /// The conversation is about to be converted to the model's format; the stored messages stay as they are.
    MessagesTransform = "experimental.chat.messages.transform", MessagesTransform => Messages;
    /// The system prompt is complete, and can still be changed.
    SystemTransform = "experimental.chat.system.transform", SystemTransform => System;
    /// A model for small tasks, such as titles, is being chosen.
    SmallModel = "experimental.provider.small_model", SmallModel => SmallModelChoice;
    /// The conversation is about to be summarised.
    SessionCompacting = "experimental.session.compacting", Compacting => CompactionPrompt;
    /// The conversation was summarised and the turn is about to continue.
    CompactionAutocontinue = "experimental.compaction.autocontinue", Autocontinue => AutocontinueChoice;
    /// A text part of an answer has ended, and its final version is about to be stored.
    TextComplete = "experimental.text.complete", TextComplete => Text;
    /// A turn is about to end (Baton's addition). A hook may continue it.
    TurnEnd = "turn.end", TurnEnding => Next;
}

impl HookPoint {
    /// Finds the point with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.name() == name)
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A plugin's view of turns. Callers prepare a call only if [`Hooks::wants`] returns true for its point.
pub trait Hooks: Send + Sync {
    /// Returns true if a plugin listens at this point.
    fn wants(&self, point: HookPoint) -> bool;

    /// Lets the plugin change the output of a call. Only a call at [`HookPoint::ToolBefore`] can be refused; the first
    /// refusal ends it, and no later plugin is called.
    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a>;
}

impl dyn Hooks + '_ {
    /// Returns the value as plugins have changed it.
    pub async fn change<O: HookOutput>(&self, input: &O::Input, mut output: O) -> O {
        // Only the arguments of tools are refused, and they pass through `admit`.
        let _ = self.call(HookCall::new(input, &mut output)).await;
        output
    }

    /// Returns the arguments of a tool call as plugins have changed them, or the reason why they forbid the call.
    pub async fn admit(&self, input: &ToolBefore, mut args: ToolArgs) -> Result<ToolArgs, Refusal> {
        self.call(HookCall::new(input, &mut args)).await?;
        Ok(args)
    }

    /// Like `change`, at most for `limit`; after that the value stays as it was. The plugin host has shorter
    /// deadlines of its own, so this is a backstop.
    pub(crate) async fn change_within<O: HookOutput>(
        &self,
        limit: Duration,
        input: &O::Input,
        before: O,
    ) -> O {
        let hook = self.change(input, before.clone());
        tokio::time::timeout(limit, hook).await.unwrap_or_else(|_| {
            tracing::warn!(point = %O::POINT, seconds = limit.as_secs(), "hook timed out; its result is ignored");
            before
        })
    }
}

/// An implementation without any hooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn wants(&self, _: HookPoint) -> bool {
        false
    }

    fn call<'a>(&'a self, _: HookCall<'a>) -> Hooked<'a> {
        future::ready(Ok(())).boxed()
    }
}

impl NoHooks {
    pub fn shared() -> Arc<dyn Hooks> {
        Arc::new(Self)
    }
}
