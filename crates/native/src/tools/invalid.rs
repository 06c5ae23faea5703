//! `invalid`: receives calls that cannot be made, so that the model reads what was wrong with them.
//!
//! It is never offered to a model. Its input is the error that [`super::Toolset`] found.

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde::Deserialize;
use serde_json::{Value, json};

use super::input::parse;
use super::{Call, Output, Tool, ToolFailure, object};

pub(super) const NAME: &str = "invalid";

#[derive(Deserialize)]
struct Input {
    error: String,
}

pub(super) struct Invalid;

impl Tool for Invalid {
    fn name(&self) -> &'static str {
        NAME
    }

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

    fn check(&self, input: &Extra) -> Result<(), String> {
        parse::<Input>(input).map(drop)
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, ToolFailure>> {
        async move {
            let Input { error } = parse(call.input).map_err(ToolFailure::Error)?;
            Ok(Output::new(
                "Invalid Tool",
                format!("The arguments provided to the tool are invalid: {error}"),
                object(json!({ "truncated": false })),
            ))
        }
        .boxed()
    }
}
