//! One plugin, as the engine's hooks.

use std::fmt;
use std::time::Duration;

use engine::each_hook;
use engine::ports::hooks::{
    Autocontinue, AutocontinueChoice, ChatContext, ChatMessage, CommandBefore, CommandParts, Compacting,
    CompactionPrompt, Definition, Environment, Headers, HookPoint, Hooked, Hooks, Messages,
    MessagesTransform, Next, Params, PermissionAsk, PermissionStatus, Prompted, Refusal, ShellEnv,
    SmallModel, SmallModelChoice, System, SystemTransform, Text, TextComplete, ToolAfter, ToolArgs,
    ToolBefore, ToolDefinition, ToolOutcome, TurnEnding,
};
use futures::future::FutureExt;
use protocol::config::Plugin;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;

use super::Host;
use super::ask::{Fault, Question, ask};

/// One of a host's plugins. A hook that throws, hangs or ends the process is reported once and changes nothing; one
/// that missed its deadline is not called again before it has answered. An exception before a tool call is
/// different: with it, OpenCode's plugins forbid the call.
#[derive(Clone)]
pub struct Member {
    host: Host,
    number: usize,
    name: String,
    /// True if no tool may run without this plugin's consent.
    is_required: bool,
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
        Self { host, number, name: plugin.spec.clone(), is_required: plugin.is_required() }
    }

    /// The plugin's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn limit(&self, point: HookPoint) -> Duration {
        let limits = &self.host.0.shared.settings.limits;
        if point == HookPoint::TurnEnd { limits.turn_end } else { limits.hook }
    }

    /// The output after the plugin's hook, unchanged if the hook fails.
    async fn call<I: Serialize, O: Serialize + DeserializeOwned>(
        &self,
        point: HookPoint,
        input: &I,
        output: O,
    ) -> O {
        match self.change(point, input, &output).await {
            Ok(changed) => changed.unwrap_or(output),
            Err(fault) => {
                self.failed(point, &fault);
                output
            }
        }
    }

    /// The arguments of a tool call after the plugin's hook; a refusal if the hook throws, or if a required plugin does
    /// not answer.
    async fn admit(&self, input: &ToolBefore, output: ToolArgs) -> Result<ToolArgs, Refusal> {
        let limit = self.limit(HookPoint::ToolBefore);
        if self.is_required && !(self.host.settled(limit).await && self.host.has_loaded(self.number)) {
            return Err(Refusal(format!("the plugin {} is required and does not run", self.name)));
        }
        match self.change(HookPoint::ToolBefore, input, &output).await {
            Ok(changed) => Ok(changed.unwrap_or(output)),
            Err(Fault::Thrown(why)) => Err(Refusal(why)),
            Err(fault) => {
                self.failed(HookPoint::ToolBefore, &fault);
                let why = || Refusal(format!("the plugin {} is required and does not answer", self.name));
                if self.is_required { Err(why()) } else { Ok(output) }
            }
        }
    }

    fn failed(&self, point: HookPoint, why: &Fault) {
        let at = format!("failed in its hook {point}");
        self.host.0.shared.report(Some(self.number), &at, &why.to_string());
    }

    /// The changed output; `None` if the plugin is not called.
    async fn change<I: Serialize, O: Serialize + DeserializeOwned>(
        &self,
        point: HookPoint,
        input: &I,
        output: &O,
    ) -> Result<Option<O>, Fault> {
        let Some(running) = self.host.0.shared.running() else { return Ok(None) };
        let call = Call { plugin: self.number, name: point.name(), input, output };
        let call = to_raw_value(&call).map_err(|error| Fault::Broken(error.to_string()))?;
        let question =
            Question { plugin: self.number, hook: point.name(), method: "hook", limit: self.limit(point) };
        let Some(changed) = ask(running, question, call).await? else { return Ok(None) };
        serde_json::from_str(changed.get()).map(Some).map_err(|error| Fault::misfit(&error))
    }
}

/// Implements every hook by calling the process.
macro_rules! pass_on {
    ($($(#[$doc:meta])* $method:ident($point:ident, $input:ty, $output:ty);)*) => {
        impl Hooks for Member {
            fn wants(&self, point: HookPoint) -> bool {
                if self.is_required && point == HookPoint::ToolBefore {
                    return true;
                }
                self.host.0.shared.running().is_some_and(|running| running.wants(self.number, point))
            }

            fn tool_before<'a>(
                &'a self,
                input: &'a ToolBefore,
                output: ToolArgs,
            ) -> Hooked<'a, Result<ToolArgs, Refusal>> {
                self.admit(input, output).boxed()
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
