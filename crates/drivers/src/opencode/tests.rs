//! Tests with a scripted fake server and with recordings of the real OpenCode.

mod ending;
pub(crate) mod fake;
mod matrix;
mod processes;
mod replay;
mod requests;
mod rules;
pub(crate) mod scene;
mod script;
