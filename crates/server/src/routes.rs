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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::{Class, Method};

    /// Nodes answer a route or pass it on by its class, so a changed line changes where a call is answered.
    #[test]
    fn every_route_has_a_class() {
        let line = |route: &Route| {
            let (method, stream) = (route.method().name(), if route.is_stream() { " (stream)" } else { "" });
            format!("{:?}{stream}: {method} {}", route.class(), route.path())
        };
        let mut lines: Vec<_> = table().iter().map(line).collect();
        lines.sort_unstable();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn only_reading_is_answered_from_the_record() {
        for route in table().iter().filter(|route| route.path().contains("/session/{sessionID}")) {
            let expected = if route.method() == Method::Get { Class::Record } else { Class::Session };
            // Routes that are refused on every node.
            if route.class() != Class::Node {
                assert_eq!(route.class(), expected, "{:?} {}", route.method(), route.path());
            }
        }
    }
}
