//! Bytes that survive: the engine's log and tables in SQLite, and where files are kept.

pub mod files;
pub mod sqlite;

#[cfg(test)]
mod contract;
