//! The engine as an edge sees it: sessions on an in-memory log, with runners that the test plays.

mod abort;
mod children;
mod faults;
mod harness;
mod prompts;
mod recovery;
mod requests;
mod streams;
