//! `todowrite`: replaces the agent's todo list.

use protocol::{AgentEvent, Extra, Todo};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{BuiltIn, Call, Output, ToolFailure, object};

#[derive(Deserialize)]
pub(super) struct Input {
    todos: Vec<Todo>,
}

pub(super) struct TodoWrite;

impl BuiltIn for TodoWrite {
    const NAME: &'static str = "todowrite";

    type Input = Input;

    fn description(&self) -> String {
        "Replaces your todo list, which the user can see. Use it for work of several steps: write the \
         whole list each time, keep exactly one entry in_progress, and complete entries as soon as they are done. An \
         entry that cannot be done without the user is blocked."
            .to_owned()
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "description": "The whole list",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": { "type": "string", "description": "What is to be done" },
                            "status": { "type": "string", "enum": ["pending", "in_progress", "completed", "cancelled", "blocked"] },
                            "priority": { "type": "string", "enum": ["high", "medium", "low"] },
                        },
                        "required": ["content", "status", "priority"],
                    },
                },
            },
            "required": ["todos"],
            "additionalProperties": false,
        })
    }

    async fn run(&self, call: &Call<'_>, Input { todos }: Input) -> Result<Output, ToolFailure> {
        call.require(Self::NAME, "*", Extra::new()).await?;
        let open = todos.iter().filter(|todo| todo.status != "completed").count();
        let output = serde_json::to_string_pretty(&todos).unwrap_or_default();
        let metadata = object(json!({ "todos": todos, "truncated": false }));
        call.turn.emit(AgentEvent::Todos(todos)).await;
        Ok(Output::new(format!("{open} todos"), output, metadata))
    }
}
