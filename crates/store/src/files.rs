//! Files that people write and Baton reads: configuration, agents, commands, skills, instructions and keys;
//! and where Baton keeps its own.
//!
//! One of the two places that read the environment, and only [`Environment::capture`] does: everything else
//! is a function of the value it returns and of what is on disk. None of it writes into a person's files; the
//! one file that is written is Baton's own `auth.json`.
//!
//! - [`layers`] reads the configuration: which files in which order, and what they amount to.
//! - [`instructions`] finds `AGENTS.md` and its like.
//! - [`skills`] finds skills.
//! - [`auth`] keeps keys and logins.
//! - [`permission`] turns what is written about permissions into rules.
//! - [`Trace`] tells whether any of it was changed since.
//! - [`redacted`] is a configuration as clients may see it.

pub mod auth;
mod document;
mod entries;
mod environment;
pub mod instructions;
pub mod layers;
mod markdown;
mod merge;
mod normal;
pub mod permission;
mod places;
mod plugin;
mod problem;
mod redact;
mod schema;
pub mod skills;
mod spelling;
mod substitute;
mod trace;
mod walk;

#[cfg(test)]
mod tests;

pub use self::{
    entries::commands,
    environment::Environment,
    layers::{Loaded, Site, load},
    places::{DATABASE, Homeless, Places, data_dir},
    problem::{Invalid, Position, Problem, Source},
    redact::redacted,
    trace::Trace,
};
