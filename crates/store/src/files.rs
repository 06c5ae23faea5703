//! Files that people write and Baton reads: configuration, agents, commands, skills, instructions and keys;
//! and where Baton keeps its own.
//!
//! One of the two places that read the environment, and only [`Environment::capture`] does: everything else
//! is a function of the value it returns and of what is on disk.

#[cfg(test)]
mod document;
mod environment;
mod places;
#[cfg(test)]
mod problem;
#[cfg(test)]
mod substitute;

pub use self::{
    environment::Environment,
    places::{DATABASE, Homeless, Places, data_dir},
};
