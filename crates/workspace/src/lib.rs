//! Operations on a directory: files, searches, patches, processes, terminals, git and snapshots, for tools and
//! for the routes that show a project.
//!
//! This crate knows nothing about sessions, models or HTTP and depends on no other crate of the workspace. It
//! can end every process it starts, bounds everything it reads, and checks paths for writing after resolving
//! symbolic links.

pub mod diff;
pub mod files;
pub mod git;
pub mod output;
pub mod patch;
pub mod process;
pub mod pty;
pub mod search;
pub mod snapshot;
