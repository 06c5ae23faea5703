//! OpenCode as an agent, without OpenCode: a server that does what a script says, and recordings of the real one.

mod ending;
pub(crate) mod fake;
mod matrix;
mod processes;
mod replay;
mod requests;
mod rules;
pub(crate) mod scene;
mod script;
