//! Tests of the runner, with recordings of Codex and with scripts that play Codex well or badly.

mod goals;
mod harness;
mod mapping;
mod matrix;
mod replay;
mod scripts;
mod threads;
mod turns;
