//! The table of routes, one file per group of OpenCode's.

mod api;
mod channel;
mod commands;
mod config;
mod control;
mod document;
mod event;
mod everywhere;
mod experimental;
mod file;
mod find;
mod global;
mod instance;
mod mcp;
mod message;
mod nodes;
mod page;
mod permission;
mod project;
mod prompt;
mod provider;
mod pty;
mod question;
mod queue;
mod session;
mod sync;
mod trust;
mod tui;
mod unbuilt;
mod vcs;
mod web;
mod worktree;

use crate::openapi::Route;

/// Every route, in the order of the document.
pub(crate) fn table() -> Vec<Route> {
    [
        global::routes(),
        event::routes(),
        session::routes(),
        message::routes(),
        prompt::routes(),
        queue::routes(),
        commands::routes(),
        unbuilt::routes(),
        permission::routes(),
        question::routes(),
        config::routes(),
        trust::routes(),
        channel::routes(),
        nodes::routes(),
        provider::routes(),
        instance::routes(),
        mcp::routes(),
        project::routes(),
        file::routes(),
        find::routes(),
        vcs::routes(),
        experimental::routes(),
        everywhere::routes(),
        worktree::routes(),
        sync::routes(),
        tui::routes(),
        pty::routes(),
        control::routes(),
        web::routes(),
        api::routes(),
        document::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
