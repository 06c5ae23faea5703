//! Hooks: the points at which plugins may observe a turn or change what happens in it.
//!
//! Every method takes its context by reference and the value it may change by value, and returns that value. No
//! hook can block a turn: each caller sets a deadline, and an abort wins over all hooks.
//!
//! One hook can also refuse: [`Hooks::tool_before`] may forbid a tool call.

mod shapes;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::{self, BoxFuture, FutureExt};

pub use shapes::{
    Autocontinue, AutocontinueChoice, ChatContext, ChatMessage, CommandBefore, CommandParts, Compacting,
    CompactionPrompt, Definition, Environment, Headers, Messages, MessagesTransform, Next, Params,
    PermissionAsk, PermissionStatus, PermissionTime, Prompted, ProviderContext, ShellEnv, SmallModel,
    SmallModelChoice, System, SystemTransform, Text, TextComplete, ToolAfter, ToolArgs, ToolBefore,
    ToolDefinition, ToolOutcome, TurnEnding,
};

/// Return type of hook methods.
pub type Hooked<'a, T> = BoxFuture<'a, T>;

/// The reason why a hook forbids a tool call, as text for the model and the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Declares the hook points with their names in OpenCode's plugin interface.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
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
    };
}

points! {
    /// A prompt is about to be stored.
    ChatMessage = "chat.message",
    /// A model is about to be called: its parameters.
    ChatParams = "chat.params",
    /// A model is about to be called: the headers of the call.
    ChatHeaders = "chat.headers",
    /// The user is about to be asked for a permission.
    PermissionAsk = "permission.ask",
    /// A slash command has become a prompt.
    CommandBefore = "command.execute.before",
    /// A tool is about to run.
    ToolBefore = "tool.execute.before",
    /// A tool call has succeeded.
    ToolAfter = "tool.execute.after",
    /// A tool is about to be described to a model.
    ToolDefinition = "tool.definition",
    /// A process is about to be started.
    ShellEnv = "shell.env",
    /// The conversation is about to be converted to the model's format.
    MessagesTransform = "experimental.chat.messages.transform",
    /// The system prompt is complete, and can still be changed.
    SystemTransform = "experimental.chat.system.transform",
    /// A model for small tasks, such as titles, is being chosen.
    SmallModel = "experimental.provider.small_model",
    /// The conversation is about to be summarised.
    SessionCompacting = "experimental.session.compacting",
    /// The conversation was summarised and the turn is about to continue.
    CompactionAutocontinue = "experimental.compaction.autocontinue",
    /// A text part of an answer has ended.
    TextComplete = "experimental.text.complete",
    /// A turn is about to end (Baton's addition).
    TurnEnd = "turn.end",
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

/// Passes every method of [`Hooks`] that can only change a value to a macro: its name, its point, its input and its
/// output. Implementations that forward all hooks use it instead of a list of their own. The types have to be in
/// scope at the call. [`Hooks::tool_before`], the one hook that can also refuse, is not included; each
/// implementation writes it out.
#[macro_export]
macro_rules! each_hook {
    ($declare:ident) => {
        $declare! {
            /// Changes a prompt before it is stored.
            chat_message(ChatMessage, ChatMessage, Prompted);
            /// Changes the parameters of a model call.
            chat_params(ChatParams, ChatContext, Params);
            /// Changes the headers of a model call.
            chat_headers(ChatHeaders, ChatContext, Headers);
            /// Answers a permission in place of the user, or leaves it to the user.
            permission_ask(PermissionAsk, PermissionAsk, PermissionStatus);
            /// Changes the prompt that a slash command expands to.
            command_before(CommandBefore, CommandBefore, CommandParts);
            /// Changes the result of a tool call.
            tool_after(ToolAfter, ToolAfter, ToolOutcome);
            /// Changes a tool's description for the model.
            tool_definition(ToolDefinition, ToolDefinition, Definition);
            /// Changes the environment of a process.
            shell_env(ShellEnv, ShellEnv, Environment);
            /// Changes the conversation that the model receives; the stored messages stay as they are.
            messages_transform(MessagesTransform, MessagesTransform, Messages);
            /// Changes the system prompt.
            system_transform(SystemTransform, SystemTransform, System);
            /// Chooses the model for small tasks.
            small_model(SmallModel, SmallModel, SmallModelChoice);
            /// Changes the prompt that summarises the conversation.
            session_compacting(SessionCompacting, Compacting, CompactionPrompt);
            /// Decides whether the turn continues after the conversation was summarised.
            compaction_autocontinue(CompactionAutocontinue, Autocontinue, AutocontinueChoice);
            /// Changes a text part of an answer before its final version is stored.
            text_complete(TextComplete, TextComplete, Text);
            /// May continue a turn that is about to end.
            turn_end(TurnEnd, TurnEnding, Next);
        }
    };
}

/// Declares the trait: one method for each point, which by default returns its output unchanged.
macro_rules! hooks {
    ($($(#[$doc:meta])* $method:ident($point:ident, $input:ty, $output:ty);)*) => {
        /// A plugin's view of turns. Callers use a method only if [`Hooks::wants`] returns true for its point.
        pub trait Hooks: Send + Sync {
            /// Returns true if a plugin listens at this point; otherwise callers skip the work of preparing the
            /// call.
            fn wants(&self, point: HookPoint) -> bool;

            /// Changes the arguments of a tool call, or forbids it. The model receives the reason and the turn
            /// continues. The first refusal ends the chain: no later hook is called.
            fn tool_before<'a>(
                &'a self,
                input: &'a ToolBefore,
                output: ToolArgs,
            ) -> Hooked<'a, Result<ToolArgs, Refusal>> {
                let _ = input;
                future::ready(Ok(output)).boxed()
            }

            $(
                $(#[$doc])*
                fn $method<'a>(&'a self, input: &'a $input, output: $output) -> Hooked<'a, $output> {
                    let _ = input;
                    future::ready(output).boxed()
                }
            )*
        }
    };
}

each_hook!(hooks);

/// Waits for a hook, at most for `limit`; after that, `before` is the result. The plugin host has shorter deadlines
/// of its own, so this is a backstop.
pub(crate) async fn within<T>(limit: Duration, point: HookPoint, before: T, hook: Hooked<'_, T>) -> T {
    tokio::time::timeout(limit, hook).await.unwrap_or_else(|_| {
        tracing::warn!(%point, seconds = limit.as_secs(), "hook timed out; its result is ignored");
        before
    })
}

/// An implementation without any hooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn wants(&self, _: HookPoint) -> bool {
        false
    }
}

impl NoHooks {
    pub fn shared() -> Arc<dyn Hooks> {
        Arc::new(Self)
    }
}
