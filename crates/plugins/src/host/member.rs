//! One plugin, as the engine's hooks.

use std::fmt;
use std::time::Duration;

use engine::ports::hooks::{HookCall, HookPoint, Hooked, Hooks, Refusal};
use futures::future::FutureExt;
use protocol::config::Plugin;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

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
struct Call {
    plugin: usize,
    name: &'static str,
    input: Box<RawValue>,
    output: Box<RawValue>,
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

    /// Calls the plugin's hook, which changes nothing if it fails. A tool call is refused if the hook throws, or if a
    /// required plugin does not answer.
    async fn pass(&self, mut call: HookCall<'_>) -> Result<(), Refusal> {
        let point = call.point;
        let (may_refuse, limit) = (point == HookPoint::ToolBefore, self.limit(point));
        let must_answer = may_refuse && self.is_required;
        if must_answer && !(self.host.settled(limit).await && self.host.has_loaded(self.number)) {
            return Err(Refusal(format!("the plugin {} is required and does not run", self.name)));
        }
        match self.change(&mut call).await {
            Ok(()) => Ok(()),
            Err(Fault::Thrown(why)) if may_refuse => Err(Refusal(why)),
            Err(fault) => {
                self.failed(point, &fault);
                let why = || Refusal(format!("the plugin {} is required and does not answer", self.name));
                if must_answer { Err(why()) } else { Ok(()) }
            }
        }
    }

    fn failed(&self, point: HookPoint, why: &Fault) {
        let at = format!("failed in its hook {point}");
        self.host.0.shared.report(Some(self.number), &at, &why.to_string());
    }

    /// Changes the output, if the plugin is running.
    async fn change(&self, call: &mut HookCall<'_>) -> Result<(), Fault> {
        let Some(running) = self.host.0.shared.running() else { return Ok(()) };
        let name = call.point.name();
        let encoded = || {
            let (input, output) = (call.input.encode()?, call.output.encode()?);
            to_raw_value(&Call { plugin: self.number, name, input, output })
        };
        let encoded = encoded().map_err(|error| Fault::Broken(error.to_string()))?;
        let question =
            Question { plugin: self.number, hook: name, method: "hook", limit: self.limit(call.point) };
        let Some(changed) = ask(running, question, encoded).await? else { return Ok(()) };
        call.output.decode(&changed).map_err(|error| Fault::misfit(&error))
    }
}

impl Hooks for Member {
    fn wants(&self, point: HookPoint) -> bool {
        if self.is_required && point == HookPoint::ToolBefore {
            return true;
        }
        self.host.0.shared.running().is_some_and(|running| running.wants(self.number, point))
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        self.pass(call).boxed()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Member").field(&self.name).finish()
    }
}
