//! Persistent data: the engine's log and tables in SQLite, and the configuration and key files.

pub mod files;
pub mod sqlite;

#[cfg(test)]
mod contract;
