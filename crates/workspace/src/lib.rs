//! Hands on a directory: files, searches, patches, processes, git and snapshots, for tools and for the routes that
//! show a project.
//!
//! This crate knows nothing about sessions, models or HTTP and depends on no other crate of the workspace.
//! What it starts it can also end, what it reads it reads within limits, and where it may write is checked
//! after symbolic links were followed.

pub mod diff;
pub mod files;
pub mod git;
pub mod output;
pub mod patch;
pub mod process;
pub mod pty;
pub mod search;
pub mod snapshot;
