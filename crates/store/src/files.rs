//! Files that users write and Baton reads: configuration, agents, commands, skills, instructions and keys; and the
//! locations of Baton's own files.
//!
//! This is one of two places that read the environment, and only [`Environment::capture`] does: everything else
//! depends on the value it returns and on the files on disk. Of the user's files, only configuration files are
//! written, and only when a client asks for it. Of Baton's own, only `auth.json`, `trusted.json` and
//! `browsers.json` (by `cli`, with [`replace_private`]) are.
//!
//! - [`layers`] reads and merges the configuration files.
//! - [`change`](mod@change) changes a configuration file; [`amend`](mod@amend) applies the changes of plugins.
//! - [`instructions`] finds `AGENTS.md` and similar files.
//! - [`skills`] finds skills.
//! - [`auth`] stores keys and logins, [`trust`] the directories that the user trusts; [`TrustPolicy`] applies that trust.
//! - [`permission`] turns configured permissions into rules.
//! - [`Trace`] detects whether any of these files has changed since it was read.
//! - [`locate`](mod@locate) finds the position of a key that another room refuses.
//! - [`redacted`] is a configuration without secrets, for clients.

mod amend;
pub mod auth;
mod change;
mod document;
mod entries;
mod environment;
mod guard;
pub mod instructions;
pub mod layers;
mod locate;
mod markdown;
mod merge;
mod newer;
mod normal;
pub mod permission;
mod places;
mod plugin;
mod problem;
mod redact;
mod replace;
mod schema;
pub mod skills;
pub mod spelling;
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
    guard::TrustPolicy,
    layers::{Loaded, Site, load, load_user},
    locate::locate,
    places::{DATABASE, NoDataDirectory, Places, data_dir},
    problem::{Invalid, Position, Problem, Source},
    redact::redacted,
    replace::replace_private,
    trace::Trace,
};
