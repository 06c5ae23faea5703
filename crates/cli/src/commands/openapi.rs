//! `baton openapi`: prints the OpenAPI document of the server.

use crate::{
    exit::{Exit, Failure},
    terminal,
};

/// Prints the document.
pub(crate) fn openapi() -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(&server::openapi::document());
    let text = text.map_err(|error| Failure::error(format!("cannot encode the document: {error}")))?;
    terminal::line(&text).map_err(|error| Failure::error(format!("cannot print the document: {error}")))?;
    Ok(Exit::Completed)
}
