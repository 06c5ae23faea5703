//! The commands of the program, one module each.

pub(crate) mod agents;
pub(crate) mod channels;
pub(crate) mod check;
pub(crate) mod completions;
mod host;
pub(crate) mod migrate;
pub(crate) mod models;
pub(crate) mod nodes;
pub(crate) mod openapi;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod trust;
