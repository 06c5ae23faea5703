//! The traits through which the engine reaches storage, agents, files, time and randomness. All of the engine's
//! traits are declared here.

mod fleet;
pub mod hooks;
mod log;
mod outbox;
mod reads;
mod runner;
mod system;
mod tools;
mod undo;

pub use fleet::{
    Alone, Fleet, HomeNode, NodeRecord, Owner, Peer, Rows, Standing, Transaction, own_workspace,
};
pub use hooks::{HookPoint, Hooks, NoHooks};
pub use log::{Appended, Commit, Encoded, Error, Fence, Log, Logged, Observer, StoreFailure};
pub use outbox::{Notice, Outbox};
pub use reads::{
    Cursor, Direction, Found, Listing, OpenPrompt, Page, PartRecord, Reads, Record, Search, Span, Stored,
    Stretch,
};
pub use runner::{
    ChildEnd, ChildSpec, Draft, Prepared, Resolved, Runner, Runners, Supervision, Unresolved, Wanted,
};
pub use system::{Clock, Random, Stopwatch, SystemClock, SystemRandom};
pub use tools::{ToolCall, ToolCaller, ToolInfo, ToolOutput, ToolPermission, Tools};
pub use undo::{NoUndo, Origins, Undo, Undoing};

use futures::future::BoxFuture;

/// Return type of asynchronous store methods.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, Error>>;
