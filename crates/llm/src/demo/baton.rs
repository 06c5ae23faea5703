//! `demo/baton`: answers the first prompt of a new user.
//!
//! It is a script, and says so, but everything it does is real: it lists the project's files, and the command
//! it runs asks for a real permission. The next step follows from the prompt and the tool results since, so it
//! needs no state, and a missing or failing tool only makes the answer shorter.

mod intent;
mod look;

use serde_json::{Value, json};

use self::intent::Intent;
use super::choice;
use super::scenario::{Action, ScriptedText};
use crate::{Finish, Message, Request, ToolResult};

/// Milliseconds per word: fast to read, slow enough to show the streaming.
const WORD_MS: u64 = 18;

const HELP: &str = "\
I am Baton's built-in demo: a script, not a model. I use the real tools, though, so you can see how a turn \
looks before you add a provider. Try one of these:

- `read FILE` reads a file of this project
- `run COMMAND` runs a command, and asks you first
- `ask me` asks you a question
- `think` shows reasoning
- `plan` keeps a todo list
- `subagent` hands a task to a child session

Anything else makes me look around. The other `demo/...` models show how errors, retries and silence look.

";

const PROVIDER_HINT: &str = "\
To work with a real model, add a provider and its key to `opencode.json` (or set a key such as \
`ANTHROPIC_API_KEY` before starting Baton) and choose one of its models as `provider/model`.";

/// Actions of the demo in this step.
pub(super) fn answer(request: &Request) -> Vec<Action> {
    let prompt = choice::prompt(request);
    let turn = Turn { request, step: choice::step_number(request) };
    match Intent::of(&prompt) {
        Intent::Help => stop([say(HELP), say(PROVIDER_HINT)]),
        Intent::Read(path) => turn.once("Let me open it. ", "read", json!({ "filePath": path }), |result| {
            format!("I read {} lines of it. {}", look::lines(result), look::opening(&path, result))
        }),
        Intent::Run(command) => {
            turn.once("I can run that, if you allow it. ", "bash", json!({ "command": command }), |result| {
                format!("It ran. Its output:\n\n```\n{}\n```", result.trim_end())
            })
        }
        Intent::Ask => turn.once("Gladly. ", "question", questions(), |result| {
            format!("Thank you. The tool returned: {result}")
        }),
        Intent::Subagent => turn.once(
            "I'll send a colleague ahead. It works in its own session. ",
            "task",
            json!({
                "description": "Look around the project",
                "prompt": "Look around this project and say what you see.",
                "subagent_type": "general",
            }),
            |result| format!("My colleague is back and reports:\n\n{}", look::task_report(result)),
        ),
        Intent::Think => stop([
            think(
                "You want to see me think. I am a script, so this is what thinking looks like from outside: \
                 a block of its own, streamed before the answer, that clients may fold away.",
            ),
            say("The reasoning came first, as a separate part; this is the answer."),
        ]),
        Intent::Plan => plan(&turn),
        Intent::Look => look::around(&turn),
    }
}

/// The turn of the newest prompt so far.
struct Turn<'a> {
    request: &'a Request,
    step: usize,
}

impl Turn<'_> {
    fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|offered| offered.name == tool)
    }

    /// The newest result of a tool in this turn.
    fn result(&self, tool: &str) -> Option<&ToolResult> {
        self.request.since_newest_prompt().iter().rev().find_map(|message| match message {
            Message::Tool(results) => results.iter().rev().find(|result| result.name == tool),
            Message::User(_) | Message::Assistant(_) => None,
        })
    }

    /// Calls a tool once, then answers with its result.
    fn once(
        &self,
        first: &str,
        tool: &str,
        input: Value,
        answer: impl FnOnce(&str) -> String,
    ) -> Vec<Action> {
        match self.result(tool) {
            Some(result) if result.is_error => {
                stop([say(&format!("That did not work: {}", result.output.trim()))])
            }
            Some(result) => stop([say(&answer(&result.output))]),
            None if !self.offers(tool) => {
                stop([say(&format!("I would use the `{tool}` tool for this, but it is switched off here."))])
            }
            // The call was made and no result came: it was interrupted. Calling again could loop for ever.
            None if self.step > 0 => stop([say(&format!("The `{tool}` tool gave no answer."))]),
            None => go_on([say(first), call(tool, input)]),
        }
    }
}

fn plan(turn: &Turn<'_>) -> Vec<Action> {
    let list = |states: [&str; 3]| {
        let contents = ["Understand the question", "Do the work", "Check the result"];
        let todos: Vec<Value> = contents
            .iter()
            .zip(states)
            .map(|(content, status)| json!({ "content": content, "status": status, "priority": "medium" }))
            .collect();
        call("todowrite", json!({ "todos": todos }))
    };
    if !turn.offers("todowrite") {
        return stop([say("I would keep a todo list, but that tool is switched off here.")]);
    }
    match turn.step {
        0 => go_on([say("First the plan. "), list(["in_progress", "pending", "pending"])]),
        1 => go_on([say("Understood. Now the work. "), list(["completed", "in_progress", "pending"])]),
        2 => go_on([say("Almost done. "), list(["completed", "completed", "completed"])]),
        _ => stop([say("All three entries are done. Clients show the list as it changes.")]),
    }
}

fn questions() -> Value {
    json!({ "questions": [{
        "question": "What would you like to see next?",
        "header": "Next",
        "options": [
            { "label": "Files", "description": "Look around this project" },
            { "label": "A plan", "description": "See a todo list at work" },
            { "label": "Nothing", "description": "I have seen enough" },
        ],
        "multiple": false,
    }] })
}

fn say(text: &str) -> Action {
    Action::Text(ScriptedText { text: text.to_owned(), words: 1, delay_ms: WORD_MS, repeat: 1 })
}

fn think(text: &str) -> Action {
    Action::Reasoning(ScriptedText { text: text.to_owned(), words: 1, delay_ms: WORD_MS, repeat: 1 })
}

fn call(name: &str, input: Value) -> Action {
    Action::Tool { name: name.to_owned(), input: Some(input), raw: None }
}

fn stop(actions: impl IntoIterator<Item = Action>) -> Vec<Action> {
    finish(actions, Finish::Stop)
}

fn go_on(actions: impl IntoIterator<Item = Action>) -> Vec<Action> {
    finish(actions, Finish::ToolCalls)
}

fn finish(actions: impl IntoIterator<Item = Action>, reason: Finish) -> Vec<Action> {
    actions.into_iter().chain([Action::Finish { reason, usage: None }]).collect()
}
