//! The agents that come with the native loop.

use protocol::agent::{Agent, AgentMode};
use protocol::number::Number;
use protocol::request::{Action, Rule};
use protocol::{Extra, Session};
use supervision::permission::defaults;

use super::compaction::summary;
use super::title;

/// Permissions that a child session lacks unless its agent grants them: a child cannot start children of its own,
/// and the todo list belongs to the session that the user looks at.
const NOT_FOR_CHILDREN: [&str; 2] = ["task", "todowrite"];

/// Returns the agents `build`, `plan`, `general` and `explore`, each with its own rules followed by the user's
/// `rules`, and the hidden agents that write summaries and titles.
pub fn built_in(rules: &[Rule]) -> Vec<Agent> {
    let deny = |permission: &str| Rule::new(permission, "*", Action::Deny);
    let allow = |permission: &str| Rule::new(permission, "*", Action::Allow);
    let looks = ["read", "list", "glob", "grep", "webfetch", "bash", "external_directory"];
    let explore = std::iter::once(deny("*")).chain(looks.map(allow));
    vec![
        agent(
            "build",
            AgentMode::Primary,
            "The default agent: reads and changes files and runs commands.",
            [],
            rules,
        ),
        agent(
            "plan",
            AgentMode::Primary,
            "Plans a change without changing files.",
            [deny("edit"), Rule::new("task", "general", Action::Deny)],
            rules,
        ),
        agent(
            "general",
            AgentMode::Subagent,
            "Works on a question or task of several steps on its own.",
            [deny("todowrite")],
            rules,
        ),
        agent(
            "explore",
            AgentMode::Subagent,
            "Explores a code base quickly, without changing files.",
            explore.chain(reading_rules()),
            rules,
        ),
        hidden("compaction", "Writes summaries of conversations.", summary::PROMPT, None),
        hidden("title", "Writes titles of conversations.", title::PROMPT, Some(0.5)),
    ]
}

/// An agent that only the loop uses; users cannot choose it.
fn hidden(name: &str, about: &str, prompt: &str, temperature: Option<f64>) -> Agent {
    let mut agent = agent(name, AgentMode::Primary, about, [], &[Rule::new("*", "*", Action::Deny)]);
    agent.hidden = Some(true);
    agent.prompt = Some(prompt.to_owned());
    agent.temperature = temperature.map(Number);
    agent
}

/// The default rules for commands, paths and reading. `explore` repeats them after it has denied everything.
fn reading_rules() -> impl Iterator<Item = Rule> {
    defaults()
        .into_iter()
        .filter(|rule| matches!(rule.permission.as_str(), "bash" | "external_directory" | "read"))
}

fn agent(
    name: &str,
    mode: AgentMode,
    about: &str,
    own: impl IntoIterator<Item = Rule>,
    rules: &[Rule],
) -> Agent {
    let mut agent = Agent::new(name, mode);
    agent.description = Some(about.to_owned());
    agent.native = Some(true);
    agent.permission = defaults().into_iter().chain(own).chain(rules.iter().cloned()).collect();
    agent.options = Extra::new();
    agent
}

/// Returns the rules of a turn: the agent's, then those for children, then the session's.
pub(super) fn rules(agent: &Agent, session: &Session) -> Vec<Rule> {
    let mut rules = agent.permission.clone();
    if session.parent_id.is_some() {
        let unnamed: Vec<&str> = NOT_FOR_CHILDREN
            .into_iter()
            .filter(|permission| !rules.iter().any(|rule| rule.permission == *permission))
            .collect();
        rules.extend(unnamed.into_iter().map(|permission| Rule::new(permission, "*", Action::Deny)));
    }
    rules.extend(session.permission.iter().flatten().cloned());
    rules
}

#[cfg(test)]
mod tests {
    use supervision::permission::evaluate;

    use super::*;

    fn says(agent: &str, rules: &[Rule], permission: &str, pattern: &str) -> Action {
        let agents = built_in(rules);
        let agent = agents.iter().find(|found| found.name == agent).unwrap();
        evaluate(agent.permission.iter(), permission, pattern)
    }

    #[test]
    fn agents_have_the_permissions_of_their_purpose() {
        assert_eq!(says("build", &[], "edit", "a.rs"), Action::Allow);
        assert_eq!(says("build", &[], "bash", "make"), Action::Ask);
        assert_eq!(says("plan", &[], "edit", "a.rs"), Action::Deny);
        assert_eq!(says("plan", &[], "task", "general"), Action::Deny);
        assert_eq!(says("plan", &[], "task", "explore"), Action::Allow);
        assert_eq!(says("title", &[], "read", "a.rs"), Action::Deny);
        assert_eq!(says("explore", &[], "edit", "a.rs"), Action::Deny);
        assert_eq!(says("explore", &[], "task", "general"), Action::Deny);
        assert_eq!(says("explore", &[], "read", "a.rs"), Action::Allow);
        assert_eq!(says("explore", &[], "bash", "ls -la"), Action::Allow);
        assert_eq!(says("explore", &[], "bash", "rm x"), Action::Ask);
        assert_eq!(says("explore", &[], "external_directory", "/etc/*"), Action::Ask);
    }

    #[test]
    fn a_child_cannot_start_children_unless_its_agent_may() {
        let session = |more: &str| {
            let common =
                r#""id":"ses_1","slug":"s","projectID":"p","directory":"/","title":"t","version":"0""#;
            let session = format!(r#"{{{common}{more},"time":{{"created":1,"updated":1}}}}"#);
            serde_json::from_str::<Session>(&session).unwrap()
        };
        let (parent, child) = (session(""), session(r#","parentID":"ses_0""#));
        let says = |rules: Vec<Rule>| evaluate(rules.iter(), "task", "general");
        let agents = built_in(&[]);
        let general = agents.iter().find(|agent| agent.name == "general").unwrap();
        assert_eq!(says(rules(general, &parent)), Action::Allow);
        assert_eq!(says(rules(general, &child)), Action::Deny);
        let trusted = &built_in(&[Rule::new("task", "*", Action::Allow)])[2];
        assert_eq!(says(rules(trusted, &child)), Action::Allow);
    }

    #[test]
    fn the_users_rules_come_last() {
        let mine = [Rule::new("bash", "*", Action::Allow), Rule::new("bash", "rm *", Action::Deny)];
        assert_eq!(says("build", &mine, "bash", "make"), Action::Allow);
        assert_eq!(says("build", &mine, "bash", "rm x"), Action::Deny);
    }
}
