//! Options of the native loop.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use native::{Skill, ToolOptions};
use protocol::agent::Agent;
use workspace::process::Support;

use crate::{instructions::ProjectInstructions, providers, services::Services, settings::Settings};

/// Returns the options of the native loop.
pub(crate) fn native(
    services: &Services,
    settings: &Arc<Settings>,
    agents: Vec<Agent>,
    models: &BTreeMap<String, Arc<dyn llm::Model>>,
    hidden: Vec<String>,
) -> native::Options {
    let config = &settings.loaded.config;
    let small_model = config.small_model.as_ref().and_then(|written| providers::known(written, models));
    let resolved = &settings.resolved;
    native::Options {
        agents,
        small_model,
        instructions: Arc::new(ProjectInstructions::new(Arc::clone(settings))),
        compaction: resolved.compaction.clone(),
        budget: resolved.budget.clone(),
        retries: resolved.retries,
        rate_limit: resolved.rate_limit,
        steps: resolved.steps,
        attachment: resolved.attachment,
        subagent_depth: resolved.subagent_depth,
        continue_on_deny: resolved.continue_on_deny,
        hidden,
        tools: ToolOptions {
            output: resolved.output,
            output_directory: Some(services.output_directory.clone()),
            skills: skills(settings),
            closed: services.closed.clone(),
            private_addresses: resolved.private_addresses,
            command: resolved.command,
            sandbox: resolved.sandbox.clone(),
            kernel: Support::probe(),
            plugins: None,
        },
        snapshots: resolved.snapshots.then(|| Arc::clone(&services.snapshots)),
        ..native::Options::default()
    }
}

fn skills(settings: &Settings) -> Vec<Skill> {
    let known = |skill: &protocol::config::Skill| Skill {
        name: skill.name.clone(),
        description: skill.description.clone().unwrap_or_default(),
        path: PathBuf::from(&skill.location),
    };
    settings.skills.values().map(known).collect()
}
