//! The plugins of a directory: called in order, each with a deadline, so that none can block or break a turn.

#[cfg(test)]
mod tests;

use std::{any::Any, collections::HashSet, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use engine::ports::hooks::{HookCall, HookPoint, Hooked, Hooks, Refusal};
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
    async fn pass(&self, call: HookCall<'_>) -> Result<(), Refusal> {
        let HookCall { point, input, output } = call;
        if let Some(first) = self.first.as_deref().filter(|first| first.wants(point)) {
            first.call(HookCall { point, input, output: &mut *output }).await?;
        }
        let limit = if point == HookPoint::TurnEnd { TURN_END } else { HOOK };
        for link in self.links.iter().filter(|link| link.hooks.wants(point)) {
            let mut changed = output.copy();
            let call = HookCall { point, input, output: &mut *changed };
            // Inside of an async block, because a plugin may panic before it returns a future.
            let asked = async { link.hooks.call(call).await };
            match timeout(limit, AssertUnwindSafe(asked).catch_unwind()).await {
                Ok(Ok(answer)) => {
                    answer?;
                    output.assign(changed);
                }
                Ok(Err(panic)) => {
                    self.failed(link, point, &format!("it panicked: {}", panic_message(&*panic)));
                }
                Err(_) => self.failed(link, point, &format!("it takes longer than {} s", limit.as_secs())),
            }
        }
        Ok(())
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

impl Hooks for Chain {
    fn wants(&self, point: HookPoint) -> bool {
        self.first.iter().chain(self.links.iter().map(|link| &link.hooks)).any(|hooks| hooks.wants(point))
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        self.pass(call).boxed()
    }
}
