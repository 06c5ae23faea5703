//! The external agents: their descriptions, the programs that Baton looks for, and their supervision.
//!
//! Runners of external agents implement [`External`], and [`Watched`] wraps each of them. [`known`] lists the programs
//! that Baton looks for.

mod external;
mod handover;
pub mod known;
#[cfg(test)]
pub(crate) mod tests;
mod unenforced;
mod watched;

pub use external::{ABILITIES, About, DEFAULT_MODEL, External, IDLE, Program};
pub use unenforced::unenforced;
pub use watched::Watched;
