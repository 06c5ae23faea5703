//! Warnings about a directory's configuration, for clients, terminals and the log.
//!
//! Warnings that are known when the project is built are part of it. Plugins add theirs while they run, and MCP servers
//! have theirs in their state.

use std::{path::Path, sync::Arc};

use drivers::roster::External;
use parking_lot::Mutex;
use protocol::{
    agent::{Agent, AgentMode},
    config::Config,
    diagnostic::{Diagnostic, DiagnosticKind},
    trust::Withheld,
};
use store::files::{Position, Problem, Source};

use crate::{providers, trust};

/// Plugins of a directory can add this many warnings. Later ones are only logged and published.
const MAX_REPORTS: usize = 32;

/// The warnings of plugins, shared by the successive projects of a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<Diagnostic>>>);

impl Reports {
    pub(crate) fn add(&self, message: &str) {
        let mut reports = self.0.lock();
        if reports.len() < MAX_REPORTS && !reports.iter().any(|known| known.message == message) {
            reports.push(Diagnostic::new(DiagnosticKind::Plugin, message));
        }
    }

    pub(crate) fn list(&self) -> Vec<Diagnostic> {
        self.0.lock().clone()
    }
}

/// Converts a warning about a file.
pub(crate) fn problem(problem: &Problem) -> Diagnostic {
    let number = |number: usize| u32::try_from(number).ok();
    Diagnostic {
        source: Some(problem.source.to_string()).filter(|_| problem.source != Source::Merged),
        line: problem.at.and_then(|Position { line, .. }| number(line)),
        column: problem.at.and_then(|Position { column, .. }| number(column)),
        key: Some(problem.key.clone()).filter(|key| !key.is_empty()),
        ..Diagnostic::new(DiagnosticKind::Config, &problem.message)
    }
}

/// Returns the warning about withheld parts of a configuration, if there are any.
pub(crate) fn withheld(directory: &Path, withheld: &[Withheld]) -> Option<Diagnostic> {
    Some(Diagnostic::new(DiagnosticKind::Trust, trust::warning(directory, withheld)?))
}

/// Returns the warning about an MCP server that is not available.
pub(crate) fn server(name: &str, why: &str) -> Diagnostic {
    let message = format!("the MCP server `{name}` is not available: {why}");
    Diagnostic::new(DiagnosticKind::Mcp, message).at_key(format!("mcp.{name}"))
}

/// Returns a warning for each configured model or agent that does not exist. The default model is not checked: prompts
/// that need it are refused, with the reason.
pub(crate) fn references(
    config: &Config,
    agents: &[Agent],
    models: &providers::Models,
    external: &[Arc<dyn External>],
) -> Vec<Diagnostic> {
    let warning = |key: String, message: String| Diagnostic::new(DiagnosticKind::Config, message).at_key(key);
    let mut found = Vec::new();
    if let Some(model) = config.small_model.as_ref().filter(|model| providers::known(model, models).is_none())
    {
        let message = format!("`small_model` names {model:?}, which is not a usable model; ignoring it");
        found.push(warning("small_model".to_owned(), message));
    }
    for (name, agent) in &config.agent {
        let is_unknown = |model: &&String| {
            providers::known(model, models).or_else(|| providers::run_elsewhere(model, external)).is_none()
        };
        if let Some(model) = agent.model.as_ref().filter(is_unknown) {
            let key = format!("agent.{name}.model");
            let message = format!("`{key}` names {model:?}, which is not a usable model");
            found.push(warning(key, message));
        }
    }
    if let Some(wanted) = &config.default_agent {
        let why = match agents.iter().find(|agent| agent.name == *wanted) {
            Some(agent) if agent.mode == AgentMode::Subagent || agent.hidden == Some(true) => {
                "which is hidden or a subagent"
            }
            Some(_) => return found,
            None => "which does not exist",
        };
        let message = format!("`default_agent` names {wanted:?}, {why}; ignoring it");
        found.push(warning("default_agent".to_owned(), message));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn plugins_add_a_bounded_number_of_distinct_warnings() {
        let reports = Reports::default();
        for number in 0..MAX_REPORTS * 2 {
            reports.add(&format!("failure {}", number / 2));
        }
        assert_eq!(reports.list().len(), MAX_REPORTS);
        reports.add("one more");
        assert_eq!(reports.list().len(), MAX_REPORTS);
    }

    #[test]
    fn names_of_models_and_agents_that_do_not_exist_are_warned_about() {
        let config = serde_json::from_value(json!({
            "small_model": "acme/tiny", "default_agent": "nobody", "agent": { "build": { "model": "acme/large" } },
        }));
        let agents = [Agent::new("build", AgentMode::Primary)];
        let found = references(&config.unwrap(), &agents, &BTreeMap::new(), &[]);
        let keys: Vec<&str> = found.iter().filter_map(|found| found.key.as_deref()).collect();
        assert_eq!(keys, ["small_model", "agent.build.model", "default_agent"]);
    }
}
