//! The runtime of one project directory: its configuration and everything that is built from it.
//!
//! [`Directories`] is the way in. It implements the two ports through which the rest of the program asks about a
//! directory: [`engine::ports::Runners`] chooses agent, model and runner for a prompt, and [`server::Instances`] answers
//! the routes about configuration, providers, tools, logins and trust. Both work on a `Project`, which is built when a
//! directory is first used, cached, and built again when a file that it was read from has changed.
//!
//! A configuration value passes through these modules, in this order:
//!
//! | module | step |
//! |---|---|
//! | [`settings`] | reads the configuration files, logins, skills and the trust in the directory |
//! | `resolved` | applies the defaults of limits and switches, once |
//! | `plugins`, `patches` | let plugins change the configuration, the models of a provider and the way it is called |
//! | `providers`, [`external`] | find the providers that have a key and the agents that are installed |
//! | `agents`, `options` | build the list of agents and the options of the native loop |
//! | `project` | puts these parts together |
//! | `directories` | caches one project per directory and answers the ports |
//!
//! The caller brings everything that the directories share as [`services::Options`]: environment, places, clock,
//! randomness, bus. Nothing here reads the process's own environment, so a test needs a temporary directory and no
//! process.

mod agents;
mod announcer;
mod cached;
mod closed;
mod diagnostics;
mod directories;
pub mod external;
pub mod hidden;
mod hooks;
mod instructions;
mod lease;
mod listing;
mod logins;
mod mcp;
mod offer;
mod options;
mod patches;
mod plugins;
mod project;
mod providers;
mod resolved;
mod revealed;
mod roster;
pub mod services;
pub mod settings;
pub mod trust;
mod wakes;

pub use directories::Directories;
pub use plugins::install as install_plugins;
pub use resolved::ResolvedConfig;
pub use services::{Services, WORKTREES};
pub use wakes::Wakes;
