//! Measures the time that plugins add to a turn: none, a hook in Rust, ten hooks in JavaScript.
//!
//! Each kind has a server of its own, and the servers take turns, so that other load on the machine affects all
//! alike. A second server without plugins shows the measurement's noise.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use protocol::EventBody;
use testkit::{
    calls::Calls,
    process::{Baton, Home},
    watch::Watch,
};

use crate::table::{Table, millis, percentile};

/// Default number of turns of each kind.
pub(crate) const TURNS: usize = 200;

/// Number of hooks in JavaScript. Each is a plugin of its own and is called once per turn.
const HOOKS: usize = 10;

/// The text that each of them adds to an answer.
const MARK: &str = " hooked";

/// Baton's directory for packages that plugins import. These plugins import nothing, so empty stand-ins avoid a
/// call to the registry.
const RUNTIME: &str = "cache/plugins/runtime-1.18.33-1.2.1/node_modules";

/// Maximum number of turns to wait until the plugins are loaded.
const PATIENCE: usize = 50;

/// The kinds of servers, each with its name and remark in the table.
const KINDS: [(Kind, &str, &str); 4] = [
    (Kind::None, "a turn without plugins", "prompt to idle, scenario `simple`"),
    (Kind::Control, "added by nothing", "a second server without plugins: the noise of the measurement"),
    (Kind::Rust, "added by a Rust hook", "auto-commit, which finds no change to commit"),
    (
        Kind::JavaScript,
        "added by ten JS hooks",
        "ten plugins with `experimental.text.complete`, called one after the other",
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Control,
    Rust,
    JavaScript,
}

pub(crate) async fn measure(program: &Path, table: &mut Table, turns: usize) -> Result<()> {
    let mut subjects = Vec::new();
    for (kind, ..) in KINDS {
        subjects.push(Subject::start(program, kind).await?);
    }
    for first in 0..turns {
        // The first server may have warmer or colder caches, so each is first equally often.
        for offset in 0..subjects.len() {
            let at = (first + offset) % subjects.len();
            if let Some(subject) = subjects.get_mut(at) {
                let (_, time) = subject.turn().await?;
                subject.times.push(time);
            }
        }
    }
    let mut usual = None;
    for (subject, (_, name, how)) in subjects.into_iter().zip(KINDS) {
        let spread = subject.end().await?;
        let how = format!("p50 / p95 of {turns}, {how}");
        match usual {
            None => table.row(name, format!("{} / {}", millis(spread.0), millis(spread.1)), how),
            Some(usual) => table.row(name, compared(spread, usual), how),
        }
        usual = usual.or(Some(spread));
    }
    Ok(())
}

/// The 50th and the 95th percentile.
type Spread = (Duration, Duration);

/// The additional time, and the ratio.
fn compared((low, high): Spread, (usual_low, usual_high): Spread) -> String {
    let more = |it: Duration, usual: Duration| (it.as_secs_f64() - usual.as_secs_f64()) * 1_000.0;
    let times = |it: Duration, usual: Duration| it.as_secs_f64() / usual.as_secs_f64();
    format!(
        "{:+.2} ms / {:+.2} ms, {:.2} / {:.2} times as long",
        more(low, usual_low),
        more(high, usual_high),
        times(low, usual_low),
        times(high, usual_high)
    )
}

/// A server and the durations of its turns.
struct Subject {
    server: Baton,
    calls: Calls,
    watch: Watch,
    times: Vec<Duration>,
    _home: Home,
}

impl Subject {
    async fn start(program: &Path, kind: Kind) -> Result<Self> {
        let home = Home::new(program)?;
        match kind {
            Kind::None | Kind::Control => {}
            Kind::Rust => std::fs::write(home.project().join("baton.json"), r#"{ "auto_commit": true }"#)?,
            Kind::JavaScript => put_plugins(&home)?,
        }
        let server = home.start().await?;
        let watch = Watch::connect(&server.url, "/global/event", None).await?;
        let calls = Calls::new(&server.url);
        let mut subject = Self { server, calls, watch, times: Vec::new(), _home: home };
        subject.warm_up(if kind == Kind::JavaScript { HOOKS } else { 0 }).await?;
        Ok(subject)
    }

    /// Runs turns until one calls all plugins.
    async fn warm_up(&mut self, hooks: usize) -> Result<()> {
        for _ in 0..PATIENCE {
            let (session, _) = self.turn().await?;
            let messages = self.calls.get(&format!("/session/{session}/message")).await?;
            if messages.to_string().matches(MARK).count() == hooks {
                return Ok(());
            }
        }
        bail!("the plugins are not called: is Node or Bun in the search path?")
    }

    /// Runs one turn in a new session; returns the session and the time from the prompt to idle.
    async fn turn(&mut self) -> Result<(String, Duration)> {
        let session = self.calls.session().await?;
        let begun = Instant::now();
        self.calls.prompt(&session, "simple", None).await?;
        loop {
            let seen = self.watch.next().await?.context("the stream ended")?;
            if matches!(seen.event.body, EventBody::SessionIdle(_)) {
                return Ok((session, begun.elapsed()));
            }
        }
    }

    /// Ends the server and returns the percentiles.
    async fn end(mut self) -> Result<Spread> {
        self.server.terminate().await?;
        Ok((percentile(&mut self.times, 0.5), percentile(&mut self.times, 0.95)))
    }
}

/// Installs ten plugins for the user.
fn put_plugins(home: &Home) -> Result<()> {
    let folder = home.configuration().join("plugin");
    std::fs::create_dir_all(&folder)?;
    for number in 0..HOOKS {
        let hook = format!("async (_input, output) => {{ output.text += \"{MARK}\" }}");
        let plugin =
            format!("export const Hooked = async () => ({{ \"experimental.text.complete\": {hook} }})\n");
        std::fs::write(folder.join(format!("hook-{number}.js")), plugin)?;
    }
    for package in ["@opencode-ai/plugin", "amaro"] {
        let folder = home.data().join(RUNTIME).join(package);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("package.json"), "{}")?;
    }
    Ok(())
}
