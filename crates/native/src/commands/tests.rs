use protocol::agent::AgentMode;
use serde_json::json;

use super::*;

fn written(name: &str, more: &serde_json::Value) -> Command {
    let mut command = json!({ "name": name, "template": "Look at $1", "hints": [] });
    command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(command).unwrap()
}

fn input(arguments: &str, more: &serde_json::Value) -> CommandInput {
    let mut input = json!({ "command": "x", "arguments": arguments });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(input).unwrap()
}

fn agents() -> Vec<Agent> {
    let mut plan = Agent::new("plan", AgentMode::Primary);
    plan.model = Some(ModelRef::new("demo", "own"));
    vec![Agent::new("build", AgentMode::Primary), plan, Agent::new("general", AgentMode::Subagent)]
}

async fn expand_command(command: &serde_json::Value, input: &CommandInput) -> PromptInput {
    prompt(&written("x", command), &agents(), "/no/such/directory", input).await.unwrap()
}

#[test]
fn there_are_built_in_commands_configured_ones_and_skills() {
    let skill = |name: &str| Skill {
        name: name.to_owned(),
        description: Some("Knows.".to_owned()),
        location: "/skills/SKILL.md".to_owned(),
        content: "Do it like $1.".to_owned(),
    };
    let commands = all(vec![written("review", &json!({}))], &[skill("init"), skill("pdf")]);
    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    assert_eq!(names, ["continue", "init", "pdf", "review", "stop"]);
    assert_eq!(commands[1].hints, ["$ARGUMENTS"], "a skill does not take a name that is taken");
    assert_eq!(
        (commands[2].source, commands[2].hints.as_slice()),
        (Some(CommandSource::Skill), &["$1".to_owned()][..])
    );
    assert_eq!(commands[3].template, "Look at $1", "the user's configuration wins");
}

#[tokio::test]
async fn a_command_names_its_agent_and_model() {
    let model = |prompt: &PromptInput| prompt.model.as_ref().map(|model| model.model_id.clone());
    let plain = expand_command(
        &json!({}),
        &input("a", &json!({ "agent": "plan", "model": "demo/asked", "variant": "high" })),
    )
    .await;
    assert_eq!((plain.agent.as_deref(), model(&plain).as_deref()), (Some("plan"), Some("asked")));
    assert_eq!(plain.variant.as_deref(), Some("high"));
    let own = expand_command(
        &json!({ "agent": "plan" }),
        &input("a", &json!({ "agent": "build", "model": "demo/asked" })),
    )
    .await;
    assert_eq!((own.agent.as_deref(), model(&own)), (Some("plan"), None), "the agent's own model counts");
    let named =
        expand_command(&json!({ "agent": "plan", "model": "demo/named" }), &input("a", &json!({}))).await;
    assert_eq!(model(&named).as_deref(), Some("named"));
    let wrong = input("a", &json!({ "model": "nothing" }));
    let error = prompt(&written("x", &json!({})), &agents(), "/", &wrong).await.unwrap_err();
    assert!(error.contains("provider/model") && error.contains("nothing"), "{error}");
}

#[tokio::test]
async fn a_command_for_a_subagent_is_a_subtask() {
    for (command, expected) in [
        (json!({ "agent": "general" }), Some(("general", None))),
        (json!({ "agent": "general", "subtask": false }), None),
        (json!({ "subtask": true, "description": "About it" }), Some(("build", Some("About it")))),
    ] {
        let prompt = expand_command(&command, &input("it", &json!({}))).await;
        let subtask = match &prompt.parts[0].body {
            PartInputBody::Subtask(task) => Some(task),
            _ => None,
        };
        assert_eq!(subtask.map(|task| task.agent.as_str()), expected.map(|(agent, _)| agent), "{command}");
        if let (Some(task), Some((_, about))) = (subtask, expected) {
            assert_eq!((task.prompt.as_str(), task.command.as_deref()), ("Look at it", Some("x")));
            assert_eq!(task.description, about.unwrap_or("/x"));
        }
    }
}

#[tokio::test]
async fn mentions_become_parts_of_files_and_agents() {
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::write(directory.path().join("a b.txt"), "").unwrap();
    std::fs::write(directory.path().join("a.txt"), "").unwrap();
    std::fs::create_dir(directory.path().join("src")).unwrap();
    let command =
        written("x", &json!({ "template": "See @a.txt and @src with @general, not @none.\n$ARGUMENTS" }));
    let more = json!({ "parts": [{ "type": "file", "mime": "image/png", "url": "data:," }] });
    let made = prompt(&command, &agents(), directory.path().to_str().unwrap(), &input("@../../etc", &more))
        .await
        .unwrap();
    let shown: Vec<String> = made
        .parts
        .iter()
        .map(|part| match &part.body {
            PartInputBody::Text(text) => text.text.clone(),
            PartInputBody::File(file) => format!("{} {}", file.mime, file.filename.as_deref().unwrap_or("-")),
            PartInputBody::Agent(agent) => format!("@{}", agent.name),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shown[1..4], ["text/plain a.txt", "application/x-directory src", "@general"]);
    assert_eq!(shown.last().unwrap(), "image/png -");
}

#[tokio::test]
async fn command_lines_wait_to_be_run() {
    let command = written("x", &json!({ "template": "On !`git branch` with $1" }));
    let made = prompt(&command, &agents(), "/", &input("!`rm x`", &json!({}))).await.unwrap();
    let PartInputBody::Text(body) = &made.parts[0].body else { panic!("{made:?}") };
    let ids = ("prt_1".parse().unwrap(), "ses_1".parse().unwrap(), "msg_1".parse().unwrap());
    let part = Part { id: ids.0, session_id: ids.1, message_id: ids.2, body: PartBody::Text(body.clone()) };
    let (text, snippets) = pending_snippets(&part).unwrap();
    assert_eq!(text, "On !`git branch` with !`rm x`");
    assert_eq!(snippets, [Snippet { start: 3, end: 16, command: "git branch".to_owned() }]);
    let part = with_output(&part, "On main".to_owned());
    assert_eq!((part.text(), pending_snippets(&part)), (Some("On main"), None));
    assert!(matches!(&part.body, PartBody::Text(text) if text.metadata.is_none()));
}
