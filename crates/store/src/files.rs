//! Files that people write and Baton reads: configuration, agents, commands, skills, instructions and keys;
//! and where Baton keeps its own.
//!
//! One of the two places that read the environment, and only [`Environment::capture`] does: everything else
//! is a function of the value it returns and of what is on disk. Of a person's files only those with the
//! configuration are written, and only when a client asks for it; of Baton's own it is `auth.json`.
//!
//! - [`layers`] reads the configuration: which files in which order, and what they amount to.
//! - [`change`] changes it; [`amend`] is what plugins make of it.
//! - [`instructions`] finds `AGENTS.md` and its like.
//! - [`skills`] finds skills.
//! - [`auth`] keeps keys and logins; [`trust`] keeps the directories that the user trusts, and [`Guard`] applies it.
//! - [`permission`] turns what is written about permissions into rules.
//! - [`Trace`] tells whether any of it was changed since.
//! - [`redacted`] is a configuration as clients may see it.

mod amend;
pub mod auth;
mod change;
mod document;
mod entries;
mod environment;
mod guard;
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
mod replace;
mod schema;
pub mod skills;
mod spelling;
mod substitute;
mod tighten;
mod trace;
pub mod trust;
mod walk;
mod withhold;

#[cfg(test)]
mod tests;

pub use self::{
    amend::{Raw, amend, shown},
    change::{Unchanged, change},
    entries::commands,
    environment::Environment,
    guard::Guard,
    layers::{Loaded, Site, load, load_user},
    places::{DATABASE, Homeless, Places, data_dir},
    problem::{Invalid, Position, Problem, Source},
    redact::redacted,
    trace::Trace,
};
