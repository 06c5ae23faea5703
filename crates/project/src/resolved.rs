//! Limits and switches of a directory, with every default applied.

use std::{
    collections::BTreeSet,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use ::plugins::host;
use drivers::external::pool::MAX_IDLE;
use engine::{lifecycle::continuation::ContinuationPolicy, limits::Limits};
use llm::Deadlines;
use native::CompactionOptions;
use protocol::config::{Budget, Config, Positive, Sandbox, SandboxMode, ToolOutput};
use supervision::SandboxOptions;
use workspace::{output, process::Support};

/// A configured wait is cut to this time, so that adding it to any instant does not overflow.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 365);

/// The limits and switches that the runtime uses. The engine, the native loop, providers and plugins receive these values
/// and decide no default of their own. Entries of agents, providers and MCP servers are resolved where they are built.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in the configuration")]
pub struct ResolvedConfig {
    /// The limits of the engine.
    pub engine: Limits,
    /// The deadlines of a provider whose own configuration sets none.
    pub(crate) deadlines: Deadlines,
    pub(crate) hooks: host::Limits,
    pub(crate) retries: u32,
    /// Time for which a step keeps retrying while the provider limits the rate of calls.
    pub(crate) rate_limit: Duration,
    pub(crate) steps: u32,
    pub(crate) continuation: ContinuationPolicy,
    pub(crate) budget: Budget,
    pub(crate) compaction: CompactionOptions,
    /// The timeout of a command for which the model sets none.
    pub(crate) command: Duration,
    /// The number of idle processes of external agents.
    pub(crate) idle_agents: usize,
    /// The sandbox of commands; none if they may do what the user may.
    pub(crate) sandbox: Option<SandboxOptions>,
    pub(crate) output: output::Limits,
    /// The size limit of an attachment. The native loop applies its own maximum on top of it.
    pub(crate) attachment: usize,
    pub(crate) subagent_depth: u32,
    pub(crate) continue_on_deny: bool,
    /// True if `webfetch` and instructions may reach this machine and private networks.
    pub(crate) private_addresses: bool,
    pub(crate) snapshots: bool,
    pub(crate) auto_commit: bool,
}

impl ResolvedConfig {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = config.limits.clone().unwrap_or_default();
        let experimental = config.experimental.as_ref();
        Self {
            engine: engine(config),
            deadlines: deadlines(config),
            hooks: hooks(limits.hook_seconds),
            retries: limits.retries.unwrap_or(native::limits::RETRIES),
            rate_limit: limits
                .rate_limit_seconds
                .map_or(native::limits::RATE_LIMIT, Positive::seconds)
                .min(LONGEST_WAIT),
            steps: limits.steps.map_or(native::limits::STEPS, NonZeroU32::get),
            continuation: continuation(config),
            budget: config.budget.clone().unwrap_or_default(),
            compaction: compaction(config),
            command: limits.command_seconds.map_or(native::limits::COMMAND, Positive::seconds),
            idle_agents: limits.idle_agents.map_or(MAX_IDLE, usize::from),
            sandbox: config.sandbox.and_then(sandbox),
            output: output_limits(config.tool_output.as_ref()),
            attachment: attachment(config),
            subagent_depth: config.subagent_depth.unwrap_or(1),
            continue_on_deny: experimental.and_then(|it| it.continue_loop_on_deny).unwrap_or(false),
            private_addresses: config.webfetch.and_then(|it| it.private_addresses).unwrap_or(false),
            snapshots: config.snapshot.unwrap_or(true),
            auto_commit: config.auto_commit.unwrap_or(false),
        }
    }
}

fn engine(config: &Config) -> Limits {
    let mut limits = Limits::default();
    if let Some(written) = &config.limits {
        let wait =
            |written: Option<Positive>, usual| written.map_or(usual, Positive::seconds).min(LONGEST_WAIT);
        limits.request = wait(written.request_seconds, limits.request);
        limits.request_reply = written.request_reply;
        limits.shutdown = wait(written.shutdown_seconds, limits.shutdown);
    }
    limits
}

fn deadlines(config: &Config) -> Deadlines {
    let mut deadlines = Deadlines::default();
    if let Some(written) = &config.limits {
        let wait =
            |written: Option<Positive>, usual| written.map_or(usual, Positive::seconds).min(LONGEST_WAIT);
        deadlines.first_chunk = wait(written.first_chunk_seconds, deadlines.first_chunk);
        deadlines.next_chunk = wait(written.next_chunk_seconds, deadlines.next_chunk);
    }
    deadlines
}

fn hooks(written: Option<Positive>) -> host::Limits {
    let usual = host::Limits::default();
    // The hook chain has the same timeout, so a longer one would have no effect.
    let hook = written.map_or(usual.hook, |written| written.seconds().min(usual.hook));
    host::Limits { hook, turn_end: hook * 3, authorize: hook * 3, ..usual }
}

fn compaction(config: &Config) -> CompactionOptions {
    let written = config.compaction.clone().unwrap_or_default();
    let usual = CompactionOptions::default();
    CompactionOptions {
        auto: written.auto.unwrap_or(usual.auto),
        prune: written.prune.unwrap_or(usual.prune),
        tail_turns: written.tail_turns,
        preserve_recent_tokens: written.preserve_recent_tokens,
        reserved: written.reserved,
    }
}

/// Open todos continue a turn unless the configuration switches that off.
fn continuation(config: &Config) -> ContinuationPolicy {
    let written = config.continuation.clone().unwrap_or_default();
    let usual = ContinuationPolicy::default();
    ContinuationPolicy {
        todos: written.enabled.unwrap_or(true),
        rounds: written.rounds.unwrap_or(usual.rounds),
        stagnant: written.stagnant_rounds.map_or(usual.stagnant, NonZeroU32::get),
        tokens: written.tokens.map_or(usual.tokens, NonZeroU64::get),
        time: written.minutes.map_or(usual.time, |minutes| minutes.seconds().saturating_mul(60)),
        countdown: written.countdown_ms.map_or(usual.countdown, |ms| Duration::from_millis(ms.into())),
    }
}

/// If the system does not support the sandbox, the server starts all the same and refuses commands.
fn sandbox(written: Sandbox) -> Option<SandboxOptions> {
    let (mode, network) = (written.mode(), written.network());
    if mode == SandboxMode::Off {
        return None;
    }
    let support = Support::probe();
    let needed = if network { Support::Files } else { Support::Network };
    if support < needed {
        tracing::warn!(
            ?support,
            ?needed,
            "this system does not support the configured sandbox; refusing commands"
        );
    }
    Some(SandboxOptions { mode, network, temporary: temporary(), support })
}

/// Returns the directories for temporary files.
fn temporary() -> Vec<PathBuf> {
    let usual = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
    let real = [std::env::temp_dir()].into_iter().chain(usual).filter_map(|path| path.canonicalize().ok());
    real.collect::<BTreeSet<_>>().into_iter().collect()
}

fn output_limits(written: Option<&ToolOutput>) -> output::Limits {
    let usual = output::Limits::default();
    let lines = written.and_then(|it| it.max_lines).and_then(|lines| usize::try_from(lines.get()).ok());
    let bytes = written.and_then(|it| it.max_bytes).and_then(|bytes| usize::try_from(bytes.get()).ok());
    output::Limits { lines: lines.unwrap_or(usual.lines), bytes: bytes.unwrap_or(usual.bytes) }
}

fn attachment(config: &Config) -> usize {
    let image = config.attachment.as_ref().and_then(|attachment| attachment.image.as_ref());
    let written = image.and_then(|image| image.max_base64_bytes);
    written.and_then(|most| usize::try_from(most.get()).ok()).unwrap_or(native::limits::ATTACHMENT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(config: serde_json::Value) -> ResolvedConfig {
        ResolvedConfig::new(&serde_json::from_value(config).unwrap())
    }

    #[test]
    fn an_empty_configuration_has_the_documented_defaults() {
        let plain = resolved(json!({}));
        assert_eq!((plain.retries, plain.steps, plain.subagent_depth), (5, 1000, 1));
        assert_eq!(plain.deadlines, Deadlines::default());
        assert_eq!(plain.hooks, host::Limits::default());
        assert_eq!((plain.sandbox, plain.idle_agents), (None, 4));
        assert_eq!((plain.command, plain.compaction.auto), (native::limits::COMMAND, true));
        assert!(plain.snapshots && plain.continuation.todos);
        assert!(!plain.auto_commit && !plain.continue_on_deny && !plain.private_addresses);
    }

    #[test]
    fn configured_limits_replace_the_defaults() {
        let config = resolved(json!({
            "limits": {
                "request_seconds": 2, "shutdown_seconds": 1e300, "first_chunk_seconds": 1.5, "next_chunk_seconds": 3,
                "retries": 0, "rate_limit_seconds": 90, "steps": 7, "hook_seconds": 4, "command_seconds": 8,
                "idle_agents": 0,
            },
            "continuation": { "enabled": false, "minutes": 2 },
            "tool_output": { "max_lines": 9 },
            "compaction": { "auto": false, "reserved": 5 },
            "snapshot": false,
        }));
        assert_eq!((config.engine.request, config.engine.shutdown), (Duration::from_secs(2), LONGEST_WAIT));
        let Deadlines { first_chunk, next_chunk, headers, .. } = config.deadlines;
        assert_eq!((first_chunk, next_chunk), (Duration::from_millis(1500), Duration::from_secs(3)));
        assert_eq!(headers, Deadlines::default().headers);
        assert_eq!((config.retries, config.steps), (0, 7));
        assert_eq!(config.rate_limit, Duration::from_secs(90));
        assert_eq!(
            (config.hooks.hook, config.hooks.turn_end),
            (Duration::from_secs(4), Duration::from_secs(12))
        );
        assert_eq!((config.continuation.todos, config.continuation.time), (false, Duration::from_mins(2)));
        assert_eq!((config.output.lines, config.output.bytes), (9, output::Limits::default().bytes));
        assert_eq!((config.compaction.auto, config.compaction.reserved), (false, Some(5)));
        assert_eq!(config.command, Duration::from_secs(8));
        assert_eq!(config.idle_agents, 0);
        assert!(!config.snapshots);
    }

    #[test]
    fn a_hook_timeout_is_never_longer_than_that_of_the_hook_chain() {
        let config = resolved(json!({ "limits": { "hook_seconds": 3600 } }));
        assert_eq!(config.hooks.hook, host::Limits::default().hook);
    }
}
