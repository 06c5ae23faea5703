//! The runtime of project directories, without a process, a store or a server.

mod cache;
mod harness;
mod providers;
mod trusted;
mod turns;
mod warnings;
