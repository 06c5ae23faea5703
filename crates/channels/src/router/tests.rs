//! Lanes at work: a person who writes, a chat that remembers what was said, and a server that does what a test says.

mod asking;
mod chat;
mod commanding;
mod failing;
mod queueing;
mod server;
mod talking;
mod waiting;
mod watching;
mod world;
