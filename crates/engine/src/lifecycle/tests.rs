//! Exactly one idle, proven: every reachable state to a stated size, and random walks beyond it.

mod explore;
mod monitor;
mod planted;
mod walk;
