//! Slash commands: the list of commands, and the prompts that they expand to.

mod expand;
mod served;

use std::path::{Path, PathBuf};

use engine::ports::Unresolved;
use protocol::agent::{Agent, AgentMode, Command, CommandSource};
use protocol::config::Skill;
use protocol::message::ModelRef;
use protocol::part::{AgentPart, FilePart, SubtaskPart, TextPart};
use protocol::prompt::{CommandInput, PartInput, PartInputBody, PromptInput};
use protocol::{Extra, Part, PartBody};
use reqwest::Url;
use serde_json::json;
use supervision::mcp::Servers;
use supervision::object;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::limits;
use expand::{Expanded, expand, hints, mentions};

pub(super) use expand::Snippet;
use served::ask;
pub use served::served;

/// The metadata field that lists the command lines in a part's text that have not run yet.
const SNIPPETS: &str = "snippets";

/// The prompt of `/init`.
const INIT: &str = "\
Write an AGENTS.md for this project, or improve the one there is. It is read by agents who know nothing about the \
project and are about to change it.

Look before you write: read the README, the manifests and build files, the configuration of linters and CI, and enough of \
the source to see how it is laid out. If the project has instructions for other agents, include them.

It should contain, each as short as possible:
- the commands to build, check and test, and how to run a single test
- the location of each part, and forbidden dependencies between parts
- conventions of the code that a newcomer would get wrong
- pitfalls: code or steps that look right and are not

Leave out what any programmer knows, what the file tree shows, and everything you did not verify. Keep what is \
right in an existing file and change only what is wrong or missing.

$ARGUMENTS";

/// The prompt of `/review`.
const REVIEW: &str = "\
Review a change and report its faults. Change nothing.

Review this: $ARGUMENTS

If that is empty, review the uncommitted changes (git status, git diff, git diff --cached, and new files). Otherwise \
it names a commit, a branch to compare with, or a pull request; find out which.

Read the changed files whole, not only the lines that changed, and the callers of changed code. Look for, in this order: \
mistakes (logic, edge cases, races, lost errors), security holes, work that is done far too often, and \
deviations from the conventions of the rest of the code. Do not report matters of taste or older faults.

Verify each finding before you report it; say so if you could not. For each, give the file and line, what goes wrong and when, \
and a fix, the worst first. If there is nothing to report, say just that.";

/// The prompt of `/continue`.
const CONTINUE: &str = "\
Go on with the open entries of your todo list, one after the other. Complete each as soon as it is done.

$ARGUMENTS";

/// Returns all commands: those that the user configured, the built-in ones, and the skills, sorted by name.
pub fn all(configured: Vec<Command>, skills: &[Skill]) -> Vec<Command> {
    let built_in = [
        command("continue", "Continue with the todo list", CONTINUE, None),
        // Has no prompt: the engine handles this command itself.
        command("stop", "Stop continuing the todo list automatically, until your next message", "", None),
        command("init", "Write or improve AGENTS.md", INIT, None),
        command(
            "review",
            "Review uncommitted changes, or a commit, branch or pull request",
            REVIEW,
            Some(true),
        ),
    ];
    let mut all: Vec<Command> = Vec::new();
    let skills = skills.iter().map(|skill| Command {
        description: skill.description.clone(),
        source: Some(CommandSource::Skill),
        ..command(&skill.name, "", &skill.content, None)
    });
    // The first command with a name wins.
    for command in configured.into_iter().chain(built_in).chain(skills) {
        if all.iter().all(|known| known.name != command.name) {
            all.push(Command { hints: hints(&command.template), ..command });
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn command(name: &str, about: &str, template: &str, subtask: Option<bool>) -> Command {
    Command {
        name: name.to_owned(),
        description: Some(about.to_owned()),
        agent: None,
        model: None,
        source: Some(CommandSource::Command),
        template: template.to_owned(),
        subtask,
        hints: Vec::new(),
        extra: Extra::new(),
    }
}

/// Finds a command, first among `commands`, then among the prompts of MCP servers, and expands it to a prompt.
pub async fn resolve(
    commands: &[Command],
    servers: &Servers,
    agents: &[Agent],
    directory: &str,
    input: &CommandInput,
) -> Result<PromptInput, Unresolved> {
    let name = input.command.clone();
    let prompt = match commands.iter().find(|command| command.name == name) {
        Some(command) => prompt(command, agents, directory, input).await,
        None => serve(commands, servers, input).await?,
    };
    prompt.map_err(|message| Unresolved::Unusable { name, message })
}

/// Expands a command that only an MCP server may know.
async fn serve(
    commands: &[Command],
    servers: &Servers,
    input: &CommandInput,
) -> Result<Result<PromptInput, String>, Unresolved> {
    servers.ready().await;
    let served = servers.prompts().await;
    let name = input.command.clone();
    if let Some(prompt) = served.iter().find(|prompt| prompt.name == name) {
        return Ok(ask(servers, prompt, input).await);
    }
    let ours = commands.iter().map(|command| command.name.as_str());
    let known = ours.chain(served.iter().map(|prompt| prompt.name.as_str()));
    Err(Unresolved::Command { name, known: known.collect::<Vec<_>>().join(", ") })
}

/// Expands a command to a prompt. Fails if the command is too long or names an invalid model.
async fn prompt(
    command: &Command,
    agents: &[Agent],
    directory: &str,
    input: &CommandInput,
) -> Result<PromptInput, String> {
    let expanded = expand(&command.template, &input.arguments).ok_or_else(too_long)?;
    let is_subagent =
        |name: &String| agents.iter().any(|agent| agent.name == *name && agent.mode == AgentMode::Subagent);
    let own = command.agent.as_ref().or(input.agent.as_ref());
    let model = command.model.as_deref().map(model).transpose()?;
    let requested = input.model.as_deref().map(self::model).transpose()?;
    let mut prompt = PromptInput::text("");
    prompt.message_id.clone_from(&input.message_id);
    prompt.variant.clone_from(&input.variant);
    if command.subtask.unwrap_or_else(|| own.is_some_and(is_subagent)) {
        let agent = own.cloned().unwrap_or_else(|| default_agent(agents));
        prompt.agent = input.agent.clone().filter(|name| !is_subagent(name));
        prompt.model = requested;
        prompt.parts = vec![subtask(command, agent, model, expanded)];
        return Ok(prompt);
    }
    // The agent that the command names brings its own model along, if it has one.
    let brings = |agent: &Agent| command.agent.as_ref() == Some(&agent.name) && agent.model.is_some();
    prompt.agent = own.cloned();
    prompt.model = model.or_else(|| requested.filter(|_| !agents.iter().any(brings)));
    prompt.parts = parts(expanded, agents, directory).await;
    prompt.parts.extend(input.parts.iter().flatten().cloned());
    Ok(prompt)
}

fn too_long() -> String {
    format!("the command is longer than {} bytes with these arguments", expand::MAX_TEXT)
}

/// The agent for a prompt that names none.
fn default_agent(agents: &[Agent]) -> String {
    let choosable = |agent: &&Agent| agent.mode != AgentMode::Subagent && agent.hidden != Some(true);
    agents.iter().find(choosable).map(|agent| agent.name.clone()).unwrap_or_default()
}

fn model(name: &str) -> Result<ModelRef, String> {
    let (provider, model) = name
        .split_once('/')
        .ok_or_else(|| format!("the model must be written as provider/model, not {name:?}"))?;
    Ok(ModelRef::new(provider, model))
}

fn subtask(command: &Command, agent: String, model: Option<ModelRef>, expanded: Expanded) -> PartInput {
    let description = command.description.clone().filter(|about| !about.is_empty());
    let body = SubtaskPart {
        prompt: expanded.text,
        description: description.unwrap_or_else(|| format!("/{}", command.name)),
        agent,
        model,
        command: Some(command.name.clone()),
        extra: snippets_metadata(&expanded.snippets),
    };
    PartInput { id: None, body: PartInputBody::Subtask(body) }
}

/// Builds the text part, and parts for the files and agents that the text mentions.
async fn parts(expanded: Expanded, agents: &[Agent], directory: &str) -> Vec<PartInput> {
    let mut mentioned = mentions(&expanded);
    mentioned.truncate(limits::ATTACHMENTS);
    let named = |name: &str| agents.iter().any(|agent| agent.name == name && agent.hidden != Some(true));
    let words: Vec<String> = mentioned.iter().map(|(word, _)| word.clone()).collect();
    let found = locate(PathBuf::from(directory), words).await;
    let mut bodies = Vec::new();
    for ((word, range), path) in mentioned.into_iter().zip(found) {
        let mention =
            json!({ "value": expanded.text.get(range.clone()), "start": range.start, "end": range.end });
        bodies.extend(match path {
            Some((url, mime)) => Some(PartInputBody::File(FilePart {
                mime: mime.to_owned(),
                url,
                source: Some(object(json!({ "type": "file", "path": word, "text": mention }))),
                filename: Some(word),
                extra: Extra::new(),
            })),
            None if named(&word) => {
                let source = Some(object(mention));
                Some(PartInputBody::Agent(AgentPart { name: word, source, extra: Extra::new() }))
            }
            None => None,
        });
    }
    let metadata = Some(snippets_metadata(&expanded.snippets)).filter(|pending| !pending.is_empty());
    let text = TextPart { text: expanded.text, metadata, ..TextPart::default() };
    let bodies = std::iter::once(PartInputBody::Text(text)).chain(bodies);
    bodies.map(|body| PartInput { id: None, body }).collect()
}

/// Returns the URL and media type of each file that exists. Read permission is checked later.
async fn locate(directory: PathBuf, words: Vec<String>) -> Vec<Option<(String, &'static str)>> {
    let count = words.len();
    let look = move |word: String| {
        let path = directory.join(Path::new(&word));
        let about = path.metadata().ok()?;
        let mime = if about.is_dir() { "application/x-directory" } else { "text/plain" };
        Some((Url::from_file_path(path).ok()?.to_string(), mime))
    };
    let found = spawn_blocking(move || words.into_iter().map(look).collect::<Vec<_>>());
    // Files that are not found in time are not attached; the agent still sees their names in the text.
    match timeout(limits::ATTACH_TIME, found).await {
        Ok(Ok(found)) => found,
        _ => vec![None; count],
    }
}

/// Returns the metadata that lists command lines that have not run yet.
fn snippets_metadata(snippets: &[Snippet]) -> Extra {
    if snippets.is_empty() {
        return Extra::new();
    }
    object(json!({ SNIPPETS: snippets }))
}

/// Returns a part's text and its command lines that have not run yet.
pub(super) fn pending_snippets(part: &Part) -> Option<(&str, Vec<Snippet>)> {
    let (text, noted) = match &part.body {
        PartBody::Text(text) => (text.text.as_str(), text.metadata.as_ref()?.get(SNIPPETS)?),
        PartBody::Subtask(task) => (task.prompt.as_str(), task.extra.get(SNIPPETS)?),
        _ => return None,
    };
    Some((text, serde_json::from_value(noted.clone()).ok()?))
}

/// Returns the part with a new text and no command lines left to run.
pub(super) fn with_output(part: &Part, text: String) -> Part {
    let mut part = part.clone();
    match &mut part.body {
        PartBody::Text(body) => {
            body.text = text;
            if let Some(metadata) = &mut body.metadata {
                metadata.remove(SNIPPETS);
            }
            body.metadata = body.metadata.take().filter(|metadata| !metadata.is_empty());
        }
        PartBody::Subtask(task) => {
            task.prompt = text;
            task.extra.remove(SNIPPETS);
        }
        _ => {}
    }
    part
}

#[cfg(test)]
mod tests;
