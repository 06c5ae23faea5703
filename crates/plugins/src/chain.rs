//! The plugins of a directory: called in order, each with a deadline, so that none can block or break a turn.

#[cfg(test)]
mod tests;

use std::{
    any::Any, collections::HashSet, convert::Infallible, fmt, panic::AssertUnwindSafe, sync::Arc,
    time::Duration,
};

use engine::each_hook;
use engine::ports::hooks::{
    Autocontinue, AutocontinueChoice, ChatContext, ChatMessage, CommandBefore, CommandParts, Compacting,
    CompactionPrompt, Definition, Environment, Headers, HookPoint, Hooked, Hooks, Messages,
    MessagesTransform, Next, Params, PermissionAsk, PermissionStatus, Prompted, Refusal, ShellEnv,
    SmallModel, SmallModelChoice, System, SystemTransform, Text, TextComplete, ToolAfter, ToolArgs,
    ToolBefore, ToolDefinition, ToolOutcome, TurnEnding,
};
use futures::future::FutureExt;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::host::Reporter;

/// Deadline of one plugin's hook. A plugin host has shorter deadlines of its own, so that it can name the late
/// plugin.
const HOOK: Duration = Duration::from_secs(11);

/// The deadline at the end of a turn, where a plugin may have real work to do.
const TURN_END: Duration = Duration::from_secs(31);

/// Maximum number of reported failures.
const MAX_REPORTS: usize = 100;

#[derive(Clone)]
pub struct NamedHooks {
    /// The plugin's name in messages.
    pub name: String,
    pub hooks: Arc<dyn Hooks>,
}

impl fmt::Debug for NamedHooks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("NamedHooks").field(&self.name).finish()
    }
}

/// Plugins in the order in which they are called. A plugin that panics or times out is reported once per hook, and
/// its output is dropped.
pub struct Chain {
    /// Another chain whose plugins are called first, with deadlines of its own.
    first: Option<Arc<dyn Hooks>>,
    links: Vec<NamedHooks>,
    report: Reporter,
    reported: Mutex<HashSet<(String, HookPoint)>>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Chain").field("links", &self.links).finish_non_exhaustive()
    }
}

impl Chain {
    /// A chain of plugins; `report` receives their failures.
    pub fn new(links: Vec<NamedHooks>, report: Reporter) -> Self {
        Self { first: None, links, report, reported: Mutex::default() }
    }

    /// The same chain after the plugins of another chain.
    #[must_use]
    pub fn after(self, first: Arc<dyn Hooks>) -> Self {
        Self { first: Some(first), ..self }
    }

    /// Passes the output through all plugins. A refusal ends the chain.
    async fn call<'a, I, O: Clone, R>(
        &'a self,
        point: HookPoint,
        input: &'a I,
        mut output: O,
        method: impl Fn(&'a dyn Hooks, &'a I, O) -> Hooked<'a, Result<O, R>>,
    ) -> Result<O, R> {
        if let Some(first) = self.first.as_deref().filter(|first| first.wants(point)) {
            output = method(first, input, output).await?;
        }
        let limit = if point == HookPoint::TurnEnd { TURN_END } else { HOOK };
        for link in self.links.iter().filter(|link| link.hooks.wants(point)) {
            let given = output.clone();
            // Inside of an async block, because a plugin may panic before it returns a future.
            let asked = async { method(&*link.hooks, input, given).await };
            match timeout(limit, AssertUnwindSafe(asked).catch_unwind()).await {
                Ok(Ok(changed)) => output = changed?,
                Ok(Err(panic)) => {
                    self.failed(link, point, &format!("it panicked: {}", panic_message(&*panic)));
                }
                Err(_) => self.failed(link, point, &format!("it takes longer than {} s", limit.as_secs())),
            }
        }
        Ok(output)
    }

    fn failed(&self, link: &NamedHooks, point: HookPoint, why: &str) {
        let mut reported = self.reported.lock();
        if reported.len() < MAX_REPORTS && reported.insert((link.name.clone(), point)) {
            drop(reported);
            (self.report)(&format!("the plugin {} failed in its hook {point}: {why}", link.name));
        }
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// Implements every hook by calling each plugin in order.
macro_rules! ask_all {
    ($($(#[$doc:meta])* $method:ident($point:ident, $input:ty, $output:ty);)*) => {
        impl Hooks for Chain {
            fn wants(&self, point: HookPoint) -> bool {
                self.first.iter().chain(self.links.iter().map(|link| &link.hooks)).any(|hooks| hooks.wants(point))
            }

            fn tool_before<'a>(
                &'a self,
                input: &'a ToolBefore,
                output: ToolArgs,
            ) -> Hooked<'a, Result<ToolArgs, Refusal>> {
                self.call(HookPoint::ToolBefore, input, output, |hooks, input, output| {
                    hooks.tool_before(input, output)
                })
                .boxed()
            }

            $(
                fn $method<'a>(&'a self, input: &'a $input, output: $output) -> Hooked<'a, $output> {
                    async move {
                        let changed = self.call(HookPoint::$point, input, output, |hooks, input, output| {
                            hooks.$method(input, output).map(Ok::<_, Infallible>).boxed()
                        });
                        let Ok(changed) = changed.await;
                        changed
                    }
                    .boxed()
                }
            )*
        }
    };
}

each_hook!(ask_all);
