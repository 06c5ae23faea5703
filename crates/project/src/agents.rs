//! The agents of a directory: built-in, external and configured ones, with their permission rules.

use std::sync::Arc;

use drivers::roster::External;
use native::built_in;
use protocol::{
    agent::{Agent, AgentMode},
    config::{AgentConfig, Config},
    message::ModelRef,
    request::Rule,
};
use store::files::{Environment, permission};
use supervision::permission::defaults;

/// Returns the permission rules that hold for every agent: the defaults and the configured ones.
pub(crate) fn rules(environment: &Environment, config: &Config) -> Vec<Rule> {
    defaults().into_iter().chain(written(environment, config)).collect()
}

/// Returns the configured permission rules that hold for every agent, final ones last.
pub(crate) fn written(environment: &Environment, config: &Config) -> Vec<Rule> {
    let home = environment.home();
    let written = config.permission.as_ref().map(|written| permission::rules(written, home.as_deref()));
    written.into_iter().flatten().chain(finals(environment, config)).collect()
}

/// Returns the rules that no other rule overrides.
fn finals(environment: &Environment, config: &Config) -> Vec<Rule> {
    let home = environment.home();
    let written = config.permission_final.as_ref().map(|written| permission::rules(written, home.as_deref()));
    written.into_iter().flatten().map(Rule::into_final).collect()
}

/// Returns all agents. The first one is the default, which runs prompts that name no agent.
pub(crate) fn all(environment: &Environment, config: &Config, external: &[Arc<dyn External>]) -> Vec<Agent> {
    let home = environment.home();
    let rules = |written: &Option<_>| -> Vec<Rule> {
        written.as_ref().map(|written| permission::rules(written, home.as_deref())).unwrap_or_default()
    };
    let common = rules(&config.permission);
    let mut agents = built_in(&common);
    agents.extend(external.iter().map(|external| external.about().agent()));
    for (name, written) in &config.agent {
        let place = agents.iter().position(|agent| agent.name == *name);
        if written.disable == Some(true) {
            agents.retain(|agent| agent.name != *name);
            continue;
        }
        let new = || Agent {
            permission: defaults().into_iter().chain(common.iter().cloned()).collect(),
            native: Some(false),
            ..Agent::new(name, AgentMode::All)
        };
        let mut agent = place.and_then(|place| agents.get(place).cloned()).unwrap_or_else(new);
        change(&mut agent, written);
        agent.permission.extend(rules(&written.permission));
        match place.and_then(|place| agents.get_mut(place)) {
            Some(known) => *known = agent,
            None => agents.push(agent),
        }
    }
    let finals = finals(environment, config);
    for agent in &mut agents {
        agent.permission.extend(finals.iter().cloned());
    }
    if let Some(wanted) = &config.default_agent {
        let choosable = |agent: &Agent| agent.mode != AgentMode::Subagent && agent.hidden != Some(true);
        if agents.iter().any(|agent| agent.name == *wanted && choosable(agent)) {
            agents.sort_by_key(|agent| agent.name != *wanted);
        }
    }
    agents
}

fn change(agent: &mut Agent, written: &AgentConfig) {
    fn set<T: Clone>(to: &mut Option<T>, from: Option<&T>) {
        if let Some(from) = from {
            *to = Some(from.clone());
        }
    }
    set(&mut agent.description, written.description.as_ref());
    set(&mut agent.prompt, written.prompt.as_ref());
    set(&mut agent.hidden, written.hidden.as_ref());
    set(&mut agent.temperature, written.temperature.as_ref());
    set(&mut agent.top_p, written.top_p.as_ref());
    set(&mut agent.color, written.color.as_ref().map(|color| &color.0));
    set(&mut agent.steps, written.steps.map(std::num::NonZero::get).as_ref());
    set(&mut agent.variant, written.variant.as_ref());
    agent.mode = written.mode.unwrap_or(agent.mode);
    agent.options.extend(written.options.0.clone());
    if let Some((provider, model)) = written.model.as_deref().and_then(|name| name.split_once('/')) {
        agent.model = Some(ModelRef::new(provider, model));
    }
    if let Some(model) = &mut agent.model {
        model.variant.clone_from(&agent.variant);
    }
}

#[cfg(test)]
mod tests {
    use protocol::request::Action;
    use serde_json::json;
    use supervision::permission::evaluate;

    use super::*;

    fn agents(config: serde_json::Value) -> Vec<Agent> {
        let environment = Environment::of([("HOME", "/h")]);
        all(&environment, &serde_json::from_value(config).unwrap(), &[])
    }

    fn names(agents: &[Agent]) -> Vec<&str> {
        agents.iter().map(|agent| agent.name.as_str()).collect()
    }

    fn named<'a>(agents: &'a [Agent], name: &str) -> &'a Agent {
        agents.iter().find(|agent| agent.name == name).unwrap()
    }

    #[test]
    fn built_in_agents_are_changed_and_others_added() {
        let agents = agents(json!({
            "default_agent": "reviewer",
            "permission": { "bash": { "make": "allow" } },
            "agent": {
                "plan": { "disable": true },
                "build": { "model": "acme/large", "variant": "high", "temperature": 0.5, "steps": 7 },
                "reviewer": {
                    "description": "Reviews.", "prompt": "Review.", "hidden": false,
                    "permission": { "edit": "deny" }, "options": { "effort": "low" },
                },
            },
        }));
        assert_eq!(
            names(&agents),
            ["reviewer", "build", "general", "explore", "compaction", "title"],
            "the default agent is first, the disabled one is missing"
        );
        let (build, reviewer) = (named(&agents, "build"), named(&agents, "reviewer"));
        let model = build.model.as_ref().unwrap();
        assert_eq!((model.model_id.as_str(), model.variant.as_deref()), ("large", Some("high")));
        assert_eq!((build.steps, build.native, build.mode), (Some(7), Some(true), AgentMode::Primary));
        assert_eq!((reviewer.mode, reviewer.prompt.as_deref()), (AgentMode::All, Some("Review.")));
        let says = |agent: &Agent, permission: &str, pattern: &str| {
            evaluate(agent.permission.iter(), permission, pattern)
        };
        assert_eq!(says(build, "edit", "a"), Action::Allow);
        assert_eq!(says(reviewer, "edit", "a"), Action::Deny);
        assert_eq!([build, reviewer].map(|agent| says(agent, "bash", "make")), [Action::Allow; 2]);
        assert_eq!(
            says(reviewer, "read", ".env"),
            says(build, "read", ".env"),
            "the defaults hold for all agents"
        );
    }

    #[test]
    fn final_rules_come_last_for_every_agent() {
        let agents = agents(json!({
            "permission": { "bash": "allow" },
            "permission_final": { "bash": { "git push *": "deny" } },
            "agent": { "build": { "permission": { "bash": "allow" } }, "mine": { "permission": "allow" } },
        }));
        for agent in &agents {
            let last = agent.permission.last().unwrap();
            assert!(last.is_final && last.pattern == "git push *", "{}", agent.name);
            assert_eq!(evaluate(agent.permission.iter(), "bash", "git push -f"), Action::Deny);
        }
    }

    #[test]
    fn a_default_agent_that_cannot_be_chosen_is_ignored() {
        for wanted in ["general", "title", "unknown"] {
            assert_eq!(names(&agents(json!({ "default_agent": wanted })))[0], "build", "{wanted}");
        }
    }
}
