//! Persistent data: the engine's log and tables in SQLite or Postgres, and the configuration and key files.

mod change;
pub mod files;
pub mod migrate;
pub mod postgres;
pub mod sqlite;
pub mod stats;
mod work;

#[cfg(test)]
mod contract;
