//! One plugin, as the engine knows hooks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine::each_hook;
use engine::ports::hooks::{
    Autocontinue, AutocontinueChoice, ChatContext, ChatMessage, CommandBefore, CommandParts, Compacting,
    CompactionPrompt, Definition, Environment, Headers, HookPoint, Hooked, Hooks, Messages,
    MessagesTransform, Next, Params, PermissionAsk, PermissionStatus, Prompted, ShellEnv, SmallModel,
    SmallModelChoice, System, SystemTransform, Text, TextComplete, ToolAfter, ToolArgs, ToolBefore,
    ToolDefinition, ToolOutcome, TurnEnding,
};
use futures::future::FutureExt;
use protocol::config::Plugin;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::timeout;

use super::open::Running;
use super::wire::Failure;
use super::{Host, lock};

/// One of a host's plugins. A hook that throws, hangs or dies is told of once and changes nothing; one that has not
/// answered in time is not called again before it has.
#[derive(Clone)]
pub struct Member {
    host: Host,
    number: usize,
    name: String,
}

#[derive(Serialize)]
struct Call<'a, I, O> {
    plugin: usize,
    name: &'static str,
    input: &'a I,
    output: &'a O,
}

impl Member {
    pub(super) fn new(host: Host, number: usize, plugin: &Plugin) -> Self {
        Self { host, number, name: plugin.spec.clone() }
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn limit(&self, point: HookPoint) -> Duration {
        let limits = &self.host.0.shared.settings.limits;
        if point == HookPoint::TurnEnd { limits.turn_end } else { limits.hook }
    }

    async fn call<I: Serialize, O: Serialize + DeserializeOwned>(
        &self,
        point: HookPoint,
        input: &I,
        output: O,
    ) -> O {
        let shared = &self.host.0.shared;
        let Some(running) = shared.running() else { return output };
        let call = Call { plugin: self.number, name: point.name(), input, output: &output };
        let changed = match to_raw_value(&call) {
            Ok(call) => self.ask(point, running, call).await,
            Err(error) => Err(error.to_string()),
        };
        let changed = changed.and_then(|changed| match changed {
            None => Ok(None),
            Some(raw) => serde_json::from_str::<O>(raw.get())
                .map(Some)
                .map_err(|error| format!("what it left behind has the wrong shape: {error}")),
        });
        match changed {
            Ok(Some(changed)) => changed,
            Ok(None) => output,
            Err(why) => {
                shared.report(Some(self.number), &format!("failed in its hook {point}"), &why);
                output
            }
        }
    }

    /// What the plugin has made of it; nothing if it is not to be asked.
    async fn ask(
        &self,
        point: HookPoint,
        running: Arc<Running>,
        call: Box<RawValue>,
    ) -> Result<Option<Box<RawValue>>, String> {
        let key = (self.number, point);
        if lock(&running.overdue).contains(&key) {
            return Ok(None);
        }
        let (asked, limit) = (Arc::clone(&running), self.limit(point));
        // The call goes on when nobody waits for it any more, so that it is known when the plugin is back.
        let mut answer = tokio::spawn(async move {
            let answer = asked.wire.call("hook", &call).await;
            lock(&asked.overdue).remove(&key);
            answer
        });
        match timeout(limit, &mut answer).await {
            Ok(Ok(Ok(changed))) => Ok(Some(changed)),
            Ok(Ok(Err(Failure::Gone))) => Err("it ended the plugin host, or somebody else did".to_owned()),
            Ok(Ok(Err(failure))) => Err(failure.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                lock(&running.overdue).insert(key);
                if answer.is_finished() {
                    lock(&running.overdue).remove(&key);
                }
                running.suspect.notify_one();
                Err(format!("it takes longer than {} s", limit.as_secs_f32()))
            }
        }
    }
}

/// Passes each hook on to the process.
macro_rules! pass_on {
    ($($(#[$doc:meta])* $method:ident($point:ident, $input:ty, $output:ty);)*) => {
        impl Hooks for Member {
            fn wants(&self, point: HookPoint) -> bool {
                self.host.0.shared.running().is_some_and(|running| running.wants(self.number, point))
            }

            $(
                fn $method<'a>(&'a self, input: &'a $input, output: $output) -> Hooked<'a, $output> {
                    self.call(HookPoint::$point, input, output).boxed()
                }
            )*
        }
    };
}

each_hook!(pass_on);

impl fmt::Debug for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Member").field(&self.name).finish()
    }
}
