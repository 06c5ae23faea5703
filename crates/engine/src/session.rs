//! The session actor: one inbox, one select loop, the only owner of a session's status.

mod actor;
pub(crate) mod back;
mod boot;
mod command;
mod continuing;
mod effects;
mod history;
mod history_cache;
mod hooked;
mod orphans;
mod queue;
mod record;
mod requests;
mod revert;
mod run;
mod submit;
mod tally;
mod turn;
mod write;

pub(crate) use actor::spawn;
pub(crate) use command::{Command, Edit, Held, Prompt, Requeue};
pub(crate) use history_cache::HistoryCache;
pub(crate) use submit::stored;
pub use tally::{Tally, Used};
pub use turn::{Child, Turn};
