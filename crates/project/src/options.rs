//! Options of the native loop and limits of the engine, from the configuration and its defaults.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ::agents::{
    native::{self, SandboxOptions, Skill, ToolOptions},
    roster::External,
};
use engine::{lifecycle::continuation::Policy, limits::Limits};
use protocol::{
    agent::Agent,
    config::{Config, Positive, Sandbox, SandboxMode, ToolOutput},
};
use workspace::{output, process::Support};

use crate::{instructions::ProjectInstructions, providers, services::Services, settings::Settings};

/// A configured wait is cut to this time, so that adding it to any instant does not overflow.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 365);

/// Returns the options of the native loop.
pub(crate) fn native(
    services: &Services,
    settings: &Arc<Settings>,
    agents: Vec<Agent>,
    models: &BTreeMap<String, Arc<dyn llm::Model>>,
    external: &[Arc<dyn External>],
    hidden: Vec<String>,
) -> native::Options {
    let config = &settings.loaded.config;
    let small_model = config.small_model.as_ref().and_then(|written| {
        let known = providers::known(written, models);
        if known.is_none() {
            tracing::warn!(model = written, "unknown `small_model` in the configuration; ignoring it");
        }
        known
    });
    let is_unknown = |model: &&String| {
        providers::known(model, models).or_else(|| providers::run_elsewhere(model, external)).is_none()
    };
    for (agent, written) in &config.agent {
        if let Some(model) = written.model.as_ref().filter(is_unknown) {
            tracing::warn!(agent, model, "unknown model of an agent in the configuration");
        }
    }
    let experimental = config.experimental.as_ref();
    native::Options {
        agents,
        small_model,
        instructions: Arc::new(ProjectInstructions::new(Arc::clone(settings))),
        compaction: config.compaction.clone().unwrap_or_default(),
        budget: config.budget.clone().unwrap_or_default(),
        limits: config.limits.clone().unwrap_or_default(),
        attachment: attachment(config),
        subagent_depth: config.subagent_depth.unwrap_or(1),
        continue_on_deny: experimental.and_then(|it| it.continue_loop_on_deny).unwrap_or(false),
        hidden,
        tools: ToolOptions {
            output: output_limits(config.tool_output.as_ref()),
            shelf: Some(services.shelf.clone()),
            skills: skills(settings),
            closed: services.closed.clone(),
            private_addresses: config.webfetch.and_then(|it| it.private_addresses).unwrap_or(false),
            sandbox: config.sandbox.and_then(sandbox),
            kernel: Support::probe(),
            plugins: None,
        },
        snapshots: (config.snapshot != Some(false)).then(|| Arc::clone(&services.snapshots)),
        ..native::Options::default()
    }
}

/// Returns the size limit of attachments. The loop applies its own maximum on top of it.
fn attachment(config: &Config) -> usize {
    let image = config.attachment.as_ref().and_then(|attachment| attachment.image.as_ref());
    let written = image.and_then(|image| image.max_base64_bytes);
    written.and_then(|most| usize::try_from(most.get()).ok()).unwrap_or(native::limits::ATTACHMENT)
}

/// Returns the limits of the engine.
pub fn limits(config: &Config) -> Limits {
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

/// Returns the limits of continuation. Open todos continue a turn unless the configuration switches that off.
pub(crate) fn continuation(config: &Config) -> Policy {
    let written = config.continuation.clone().unwrap_or_default();
    let usual = Policy::default();
    Policy {
        todos: written.enabled.unwrap_or(true),
        rounds: written.rounds.unwrap_or(usual.rounds),
        stagnant: written.stagnant_rounds.map_or(usual.stagnant, NonZeroU32::get),
        tokens: written.tokens.map_or(usual.tokens, NonZeroU64::get),
        time: written.minutes.map_or(usual.time, |minutes| minutes.seconds().saturating_mul(60)),
        countdown: written.countdown_ms.map_or(usual.countdown, |ms| Duration::from_millis(ms.into())),
    }
}

/// Returns the sandbox of commands. If the system does not support it, the server starts all the same and refuses commands.
pub(crate) fn sandbox(written: Sandbox) -> Option<SandboxOptions> {
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

fn skills(settings: &Settings) -> Vec<Skill> {
    let known = |skill: &protocol::config::Skill| Skill {
        name: skill.name.clone(),
        description: skill.description.clone().unwrap_or_default(),
        path: PathBuf::from(&skill.location),
    };
    settings.skills.values().map(known).collect()
}
