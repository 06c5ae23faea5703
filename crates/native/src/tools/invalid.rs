//! `invalid`: receives calls that cannot be made, so that the model reads what was wrong with them.
//!
//! It is never offered to a model. Its input is the error that [`super::Toolset`] found.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{BuiltIn, Call, Output, ToolFailure, object};

pub(super) const NAME: &str = "invalid";

#[derive(Deserialize)]
pub(super) struct Input {
    error: String,
}

pub(super) struct Invalid;

impl BuiltIn for Invalid {
    const NAME: &'static str = NAME;

    type Input = Input;

    fn description(&self) -> String {
        "Do not use".to_owned()
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": { "tool": { "type": "string" }, "error": { "type": "string" } },
            "required": ["tool", "error"],
        })
    }

    async fn run(&self, _call: &Call<'_>, Input { error }: Input) -> Result<Output, ToolFailure> {
        Ok(Output::new(
            "Invalid Tool",
            format!("The arguments provided to the tool are invalid: {error}"),
            object(json!({ "truncated": false })),
        ))
    }
}
