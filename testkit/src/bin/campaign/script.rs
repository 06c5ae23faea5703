//! The scripted model's behaviour for each kind of prompt.
//!
//! A prompt names its script in a tag, `[[ID SCRIPT]]`. The model keeps no state: the number of answers after the
//! newest tag in a call determines the step, as it would for a real model.

use serde_json::{Value, json};
use testkit::dice::Dice;

/// The file in the project to which every `bash` call of a script adds its prompt's id.
pub(crate) const EFFECTS: &str = "ran.txt";

/// The behaviour of the model for a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// One short answer.
    Plain,
    /// An answer that takes a while.
    Slow,
    /// A command, then an answer.
    Bash,
    /// A file is written and edited.
    Edit,
    /// A command that needs a permission.
    Ask,
    /// A question to the user.
    Question,
    /// A subagent that runs a command.
    Child,
    /// A todo list that is left open once, so that the turn continues.
    Todo,
    /// A very long answer in small pieces.
    Flood,
}

impl Script {
    const MIX: [(Self, u64); 8] = [
        (Self::Plain, 20),
        (Self::Slow, 15),
        (Self::Bash, 25),
        (Self::Edit, 8),
        (Self::Ask, 10),
        (Self::Question, 6),
        (Self::Child, 8),
        (Self::Todo, 8),
    ];

    /// Picks a script of the mixed load.
    pub(crate) fn pick(dice: &mut Dice) -> Self {
        let mut left = dice.roll(Self::MIX.iter().map(|(_, weight)| weight).sum());
        for (script, weight) in Self::MIX {
            if left < weight {
                return script;
            }
            left -= weight;
        }
        Self::Plain
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Slow => "slow",
            Self::Bash => "bash",
            Self::Edit => "edit",
            Self::Ask => "ask",
            Self::Question => "question",
            Self::Child => "child",
            Self::Todo => "todo",
            Self::Flood => "flood",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let known = [Self::Flood].into_iter().chain(Self::MIX.into_iter().map(|(script, _)| script));
        known.into_iter().find(|script| script.name() == name)
    }

    /// Returns true if a turn of the script waits for the user, so that its prompt may be resumed after a restart.
    pub(crate) fn waits_for_user(self) -> bool {
        matches!(self, Self::Ask | Self::Question)
    }
}

/// A prompt's tag in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) id: String,
    pub(crate) script: Script,
}

impl Tag {
    pub(crate) fn write(id: &str, script: Script) -> String {
        format!("[[{id} {}]]", script.name())
    }

    /// The last tag in a text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let inside = text.rsplit_once("[[")?.1.split_once("]]")?.0;
        let (id, script) = inside.split_once(' ')?;
        Some(Self { id: id.to_owned(), script: Script::parse(script)? })
    }
}

/// One answer of the model.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Step {
    /// Number of pieces of text that come first.
    pub(crate) words: usize,
    /// Minimum length of a piece.
    pub(crate) width: usize,
    /// The pause before each piece, in milliseconds.
    pub(crate) pause: u64,
    /// The tool call that follows, with its input.
    pub(crate) call: Option<(&'static str, Value)>,
}

impl Step {
    pub(crate) fn say(words: usize, pause: u64) -> Self {
        Self { words, width: 0, pause, call: None }
    }

    fn call(tool: &'static str, input: Value) -> Self {
        Self { words: 2, width: 0, pause: 0, call: Some((tool, input)) }
    }

    /// Step `number` of a prompt.
    pub(crate) fn of(tag: &Tag, number: usize) -> Self {
        let id = &tag.id;
        match (tag.script, number) {
            (Script::Slow, 0) => Self::say(40, 10),
            (Script::Flood, 0) => Self { words: 2_500, width: 2_000, ..Self::default() },
            (Script::Bash, 0) => Self::call(
                "bash",
                json!({ "command": format!("echo {id} >> {EFFECTS}"), "description": "Adds a line" }),
            ),
            (Script::Ask, 0) => {
                let command = format!("printf '%s\\n' {id} >> {EFFECTS}");
                Self::call("bash", json!({ "command": command, "description": "Adds a line" }))
            }
            (Script::Edit, 0) => {
                Self::call("write", json!({ "filePath": format!("{id}.txt"), "content": "one\ntwo\n" }))
            }
            (Script::Edit, 1) => {
                let input =
                    json!({ "filePath": format!("{id}.txt"), "oldString": "two", "newString": "three" });
                Self::call("edit", input)
            }
            (Script::Question, 0) => {
                let options = json!([{ "label": "Red", "description": "Warm" }, { "label": "Blue", "description": "Cool" }]);
                let question = json!({ "question": "Which colour?", "header": "Colour", "options": options });
                Self::call("question", json!({ "questions": [question] }))
            }
            (Script::Child, 0) => {
                let prompt = Tag::write(&format!("{id}.child"), Script::Bash);
                let input =
                    json!({ "description": "Adds a line", "prompt": prompt, "subagent_type": "general" });
                Self::call("task", input)
            }
            (Script::Todo, 0) => Self::call("todowrite", todos("in_progress")),
            (Script::Todo, 2) => Self::call("todowrite", todos("completed")),
            _ => Self::say(3, 0),
        }
    }
}

fn todos(status: &str) -> Value {
    json!({ "todos": [{ "content": "The only thing", "status": status, "priority": "high" }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_the_text_around_them() {
        for (script, _) in Script::MIX {
            let text = format!("before [[x plain]] {} after", Tag::write("msg_1", script));
            assert_eq!(Tag::read(&text), Some(Tag { id: "msg_1".into(), script }));
        }
        assert_eq!(Tag::read("nothing"), None);
        assert_eq!(Tag::read("[[one]]"), None);
    }

    #[test]
    fn every_script_ends_with_an_answer() {
        for (script, _) in Script::MIX {
            let tag = Tag { id: "msg_1".into(), script };
            assert!((0..5).any(|number| Step::of(&tag, number).call.is_none()), "{script:?}");
        }
    }
}
