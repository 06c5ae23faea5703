//! Hooks: the places where plugins may look at a turn, or change what happens in it.
//!
//! Every method gets what it is about by reference and what it may change by value, and gives that back. Nothing
//! here waits for ever: whoever calls a hook gives it a deadline, and abort wins over all of them.
//!
//! One hook can also say no: what is asked before a tool is called may forbid the call.

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

/// What a hook returns.
pub type Hooked<'a, T> = BoxFuture<'a, T>;

/// Why something is forbidden, in words for the model and for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Declares the points with their names on OpenCode's wire.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// A place where a hook may be called.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum HookPoint {
            $($(#[$doc])* $point,)*
        }

        impl HookPoint {
            /// Every place.
            pub const ALL: &[Self] = &[$(Self::$point,)*];

            /// The name by which OpenCode's plugins know it.
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
    /// A permission is about to be shown to a person.
    PermissionAsk = "permission.ask",
    /// A slash command has become a prompt.
    CommandBefore = "command.execute.before",
    /// A tool is about to run.
    ToolBefore = "tool.execute.before",
    /// A tool has worked.
    ToolAfter = "tool.execute.after",
    /// A tool is about to be described to a model.
    ToolDefinition = "tool.definition",
    /// A process is about to be started.
    ShellEnv = "shell.env",
    /// The conversation is about to be put into a model's words.
    MessagesTransform = "experimental.chat.messages.transform",
    /// The system prompt is complete.
    SystemTransform = "experimental.chat.system.transform",
    /// A small model is looked for.
    SmallModel = "experimental.provider.small_model",
    /// The conversation is about to be summarised.
    SessionCompacting = "experimental.session.compacting",
    /// The conversation was summarised and the turn is about to go on.
    CompactionAutocontinue = "experimental.compaction.autocontinue",
    /// A text part of an answer has ended.
    TextComplete = "experimental.text.complete",
    /// A turn is about to end (Baton's addition).
    TurnEnd = "turn.end",
}

impl HookPoint {
    /// The place of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.name() == name)
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Every method of [`Hooks`] that can only change something, with its place, what it is about and what it may change,
/// handed to a macro: whoever passes all of them on needs no list of its own. The types have to be in scope where it is
/// called. The one that can also forbid, [`Hooks::tool_before`], is written out by everybody.
#[macro_export]
macro_rules! each_hook {
    ($declare:ident) => {
        $declare! {
            /// Changes a prompt before it is stored.
            chat_message(ChatMessage, ChatMessage, Prompted);
            /// Changes the parameters of a call of a model.
            chat_params(ChatParams, ChatContext, Params);
            /// Changes the headers of a call of a model.
            chat_headers(ChatHeaders, ChatContext, Headers);
            /// Answers a permission in place of a person, or leaves it to the person.
            permission_ask(PermissionAsk, PermissionAsk, PermissionStatus);
            /// Changes what a slash command stands for.
            command_before(CommandBefore, CommandBefore, CommandParts);
            /// Changes what a tool has to say.
            tool_after(ToolAfter, ToolAfter, ToolOutcome);
            /// Changes how a tool is described to a model.
            tool_definition(ToolDefinition, ToolDefinition, Definition);
            /// Changes the environment of a process.
            shell_env(ShellEnv, ShellEnv, Environment);
            /// Changes the conversation that a model is shown; what is stored stays.
            messages_transform(MessagesTransform, MessagesTransform, Messages);
            /// Changes the system prompt.
            system_transform(SystemTransform, SystemTransform, System);
            /// Chooses the model for small things.
            small_model(SmallModel, SmallModel, SmallModelChoice);
            /// Changes how the conversation is summarised.
            session_compacting(SessionCompacting, Compacting, CompactionPrompt);
            /// Decides whether the turn goes on after the conversation was summarised.
            compaction_autocontinue(CompactionAutocontinue, Autocontinue, AutocontinueChoice);
            /// Changes a text of an answer before it is stored for good.
            text_complete(TextComplete, TextComplete, Text);
            /// May let a turn go on that is about to end.
            turn_end(TurnEnd, TurnEnding, Next);
        }
    };
}

/// Declares the trait: one method for each place, which gives back unchanged what it may change.
macro_rules! hooks {
    ($($(#[$doc:meta])* $method:ident($point:ident, $input:ty, $output:ty);)*) => {
        /// Whoever wants to look at turns or shape them. Which methods are called is what [`Hooks::wants`] says.
        pub trait Hooks: Send + Sync {
            /// Whether anybody listens there: a caller that is told no saves itself the work.
            fn wants(&self, point: HookPoint) -> bool;

            /// Changes what a tool is called with, or forbids the call: the model is told why, and the turn goes on.
            /// Nobody is asked after whoever forbids.
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

/// Waits for a hook, but not longer than the engine can bear: after that, what was there before counts. Whoever
/// carries out hooks has deadlines of its own, which are shorter.
pub(crate) async fn within<T>(limit: Duration, point: HookPoint, before: T, hook: Hooked<'_, T>) -> T {
    tokio::time::timeout(limit, hook).await.unwrap_or_else(|_| {
        tracing::warn!(%point, seconds = limit.as_secs(), "a hook took too long and is not waited for");
        before
    })
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn wants(&self, _: HookPoint) -> bool {
        false
    }
}

impl NoHooks {
    /// Nobody, where somebody might be.
    pub fn shared() -> Arc<dyn Hooks> {
        Arc::new(Self)
    }
}
