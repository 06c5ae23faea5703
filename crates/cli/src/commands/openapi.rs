//! `baton openapi`: the document of everything the server answers.

use crate::{
    exit::{Exit, Failure},
    terminal,
};

/// Prints it.
pub(crate) fn openapi() -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(&server::openapi::document());
    let text = text.map_err(|error| Failure::error(format!("the document cannot be written: {error}")))?;
    terminal::line(&text)
        .map_err(|error| Failure::error(format!("the document cannot be printed: {error}")))?;
    Ok(Exit::Completed)
}
