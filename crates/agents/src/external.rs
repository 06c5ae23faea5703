//! What every runner needs that drives somebody else's program over its standard input and output.
//!
//! - [`child`]: one program that is talked to in lines of JSON. [`Child::start`] it from a [`Launch`]; say something
//!   with [`Child::say`] or, from elsewhere, through its [`Input`]; and call [`Child::next`] in a loop, which is safe
//!   to drop at any await. It yields [`Heard`] until there is nothing more to hear, which is a [`Failure`]: a value
//!   that says for people what happened, with the last words of the program. Dropping a child kills the whole tree of
//!   processes, [`Child::stop`] asks first, and a server that dies takes its children with it.
//! - [`keeper`]: what is kept between the turns of a session. A turn begins with [`Keeper::take`] and, if there is
//!   nothing, with a start after [`Keeper::pause`]; it ends with [`Keeper::keep`], or with [`Keeper::failed`]. What is
//!   kept is watched ([`Kept::rest`]), stopped when nobody has wanted it for a while, and all of it when the server
//!   goes down ([`Keeper::close`]).
//! - [`family`]: subagents as child sessions. The turn that hears an agent has a [`Family`]; runs of parents and
//!   children meet in a [`Nursery`].
//! - [`permission`]: what rules say to what an agent wants, before people are asked.
//!
//! A turn that is aborted is escalated: the agent is told to interrupt in its own words and given
//! [`Patience::interrupt`]; then its tree gets `SIGTERM` and, after `workspace::process::GRACE`, `SIGKILL`.

pub mod child;
pub mod family;
pub mod keeper;
mod lines;
pub mod nursery;
pub mod permission;
#[cfg(test)]
pub(crate) mod world;

pub use child::{Bounds, Child, Failure, Heard, Input, Launch};
pub use family::{Birth, Family};
pub use keeper::{Keeper, Keeping, Kept, Rested};
pub use nursery::Nursery;

use std::time::Duration;

/// How long an agent is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Until it answers the first thing it is told after its start.
    pub start: Duration,
    /// Until it stops by itself after it was interrupted. Less than the grace that the engine gives a runner, so
    /// that there is time left to end it.
    pub interrupt: Duration,
    /// Until it is really done after it said that it was, or was refused something that ends the turn.
    pub settle: Duration,
    /// The longest silence while it works; the only bound on an agent that hangs and says nothing.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            start: Duration::from_mins(1),
            interrupt: Duration::from_millis(350),
            settle: Duration::from_secs(5),
            silence: Duration::from_mins(30),
        }
    }
}
