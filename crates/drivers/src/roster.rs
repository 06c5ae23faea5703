//! The external agents: their descriptions, the programs that Baton looks for, and their supervision.
//!
//! Runners of external agents implement [`External`], and [`SupervisedAgent`] runs their turns. [`known`] lists the programs
//! that Baton looks for.

mod external;
mod handover;
pub mod known;
mod supervised;
#[cfg(test)]
pub(crate) mod tests;
mod unenforced;

pub use external::{ABILITIES, About, DEFAULT_MODEL, External, IDLE, Program};
pub use supervised::SupervisedAgent;
pub use unenforced::unenforced;
