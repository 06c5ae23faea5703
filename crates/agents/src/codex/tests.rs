//! Tests of the runner: with recordings of Codex, and with programs that behave like it or not at all.

mod goals;
mod harness;
mod mapping;
mod matrix;
mod replay;
mod scripts;
mod threads;
mod turns;
