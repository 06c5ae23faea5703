//! The subject of a permission request: a command, files, a URL or another tool.

use agent_client_protocol_schema::v1::ToolKind;
use protocol::Extra;

use super::tool::Tool;

/// The subject of a permission request. It selects the permission and the rules that apply.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PermissionSubject {
    Command {
        line: String,
    },
    Files {
        /// `read` or `edit`.
        permission: &'static str,
        /// The files, as the agent names them.
        files: Vec<String>,
        /// The proposed change as a unified diff; empty for reading.
        diff: String,
    },
    Address {
        url: String,
    },
    /// A tool of another kind, which is asked about by its name.
    Other {
        tool: String,
        title: String,
        input: Extra,
    },
}

impl PermissionSubject {
    /// Classifies a tool call by its kind and input.
    pub(super) fn of(tool: &Tool) -> Self {
        let files = tool.files();
        match tool.kind() {
            Some(ToolKind::Execute) => {
                // An agent that does not send the command line may put it into the title.
                let line = tool.command().or_else(|| tool.title().map(str::to_owned));
                if let Some(line) = line {
                    return Self::Command { line };
                }
            }
            Some(
                kind @ (ToolKind::Edit
                | ToolKind::Delete
                | ToolKind::Move
                | ToolKind::Read
                | ToolKind::Search),
            ) if !files.is_empty() => {
                let looks = matches!(kind, ToolKind::Read | ToolKind::Search);
                let diff = tool.diffs().map(|diff| diff.patch).collect::<Vec<_>>().join("\n");
                return Self::Files { permission: if looks { "read" } else { "edit" }, files, diff };
            }
            Some(ToolKind::Fetch) => {
                if let Some(url) = tool.url() {
                    return Self::Address { url: url.to_owned() };
                }
            }
            _ => {}
        }
        let title = tool.title().unwrap_or_default().to_owned();
        Self::Other { tool: tool.tool(), title, input: tool.input() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn subject(mut call: Value) -> PermissionSubject {
        call["toolCallId"] = "1".into();
        let mut tool = Tool::new("1");
        tool.amend(serde_json::from_value(call).unwrap());
        PermissionSubject::of(&tool)
    }

    #[test]
    fn the_kind_of_a_call_selects_the_permission() {
        let line = |line: &str| PermissionSubject::Command { line: line.to_owned() };
        assert_eq!(
            subject(json!({ "kind": "execute", "rawInput": { "command": "make" }, "title": "x" })),
            line("make")
        );
        assert_eq!(subject(json!({ "kind": "execute", "title": "make all" })), line("make all"));
        let edit = subject(json!({
            "kind": "edit", "locations": [{ "path": "/p/b" }],
            "content": [{ "type": "diff", "path": "/p/a", "oldText": "1\n", "newText": "2\n" }],
        }));
        let PermissionSubject::Files { permission: "edit", files, diff } = edit else { panic!("{edit:?}") };
        assert_eq!(files, ["/p/a", "/p/b"]);
        assert!(diff.contains("-1\n+2\n"), "{diff}");
        let read = subject(json!({ "kind": "read", "rawInput": { "file_path": "/p/a" } }));
        assert!(matches!(read, PermissionSubject::Files { permission: "read", .. }), "{read:?}");
        let fetch = subject(json!({ "kind": "fetch", "rawInput": { "url": "https://example.com" } }));
        assert_eq!(fetch, PermissionSubject::Address { url: "https://example.com".to_owned() });
    }

    #[test]
    fn a_call_of_another_kind_is_asked_about_by_tool_name() {
        for call in [
            json!({ "kind": "switch_mode", "title": "Ready?" }),
            json!({ "kind": "edit", "title": "Ready?" }),
        ] {
            assert!(matches!(subject(call.clone()), PermissionSubject::Other { .. }), "{call}");
        }
        let named = subject(
            json!({ "kind": "other", "name": "deploy", "title": "Deploy it", "rawInput": { "to": "moon" } }),
        );
        let input = Extra::from_iter([("to".to_owned(), "moon".into())]);
        assert_eq!(
            named,
            PermissionSubject::Other { tool: "deploy".to_owned(), title: "Deploy it".to_owned(), input }
        );
    }
}
