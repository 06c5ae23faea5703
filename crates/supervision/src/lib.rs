//! The supervision of agents: the rules that decide what an agent may do, and the records of what it has done.
//!
//! The native loop and the drivers of external agents both use this room, so that a rule, a budget or a snapshot means the
//! same for every agent. It does not know which agents exist.
//!
//! - [`Supervisor`]: the budget and the file changes of one run, of the native loop or of an external agent.
//! - [`permission`]: permission rules, the user's approvals, and requests where neither decides. [`gate`] builds the checks
//!   for files and command lines, [`protected`] knows the files that decide what an agent may do.
//! - [`sandbox`]: the sandbox of permitted commands. [`sealed`] is the one of commands that need no permission.
//! - [`budget`]: limits of cost, tokens, steps and time, and the meter that compares usage with them.
//! - [`snapshots`]: file changes of sessions, recorded so that they can be reverted.
//! - [`mcp`]: connections to MCP servers, whose tools, resources and prompts agents use.

pub mod budget;
mod failure;
pub mod gate;
pub mod limits;
pub mod mcp;
pub mod permission;
pub mod protected;
pub mod sandbox;
pub mod sealed;
pub mod snapshots;
mod supervisor;

pub use failure::{ToolFailure, blocking};
pub use gate::{Access, Gate, Target, edit_check, external_directory_check, root};
pub use protected::has_wildcard;
pub use sandbox::{SandboxOptions, restored};
pub use snapshots::Snapshots;
pub use supervisor::Supervisor;

use protocol::Extra;
use serde_json::Value;

/// Converts a [`serde_json::json!`] literal to an object.
pub fn object(value: Value) -> Extra {
    match value {
        Value::Object(object) => object,
        _ => Extra::new(),
    }
}
