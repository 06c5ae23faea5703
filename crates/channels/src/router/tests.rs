//! Tests of workers with a scripted server, a chat service in memory and a user who writes.

mod asking;
mod chat;
mod commanding;
mod failing;
mod harness;
mod queueing;
mod server;
mod talking;
mod waiting;
mod watching;
