//! Tests which parts of a layer need trust.

use super::*;

/// Keys that need no trust: they start nothing, call nothing and read nothing outside the project.
const HARMLESS: [&str; 34] = [
    "$schema",
    "model",
    "small_model",
    "enabled_providers",
    "disabled_providers",
    "default_agent",
    "subagent_depth",
    // Counts only in the user's own configuration.
    "permission_final",
    // Listed for clients; nothing is fetched.
    "references",
    "reference",
    "compaction",
    "tool_output",
    "attachment",
    "snapshot",
    // This program shares nothing.
    "share",
    "autoshare",
    // Addresses and ports come from the command line only.
    "server",
    "watcher",
    "username",
    "logLevel",
    "autoupdate",
    "layout",
    "experimental",
    "budget",
    "continuation",
    "sandbox",
    "webfetch",
    "limits",
    // These two are read from the user's own configuration only.
    "webhook",
    "channels",
    "sessions",
    // The terminal's own keys are dropped.
    "theme",
    "keybinds",
    "tui",
];

const GUARDED: [&str; 17] = [
    "permission",
    "tools",
    "agent",
    "mode",
    "plugin",
    "instructions",
    "mcp",
    "provider",
    "command",
    "agents",
    "acp",
    "formatter",
    "lsp",
    "shell",
    "auto_commit",
    "enterprise",
    "skills",
];

fn split(mut layer: Value) -> (Value, Vec<String>) {
    let guard = TrustPolicy {
        logins: BTreeSet::from(["logged-in".to_owned()]),
        known: BTreeSet::from(["anthropic".to_owned()]),
        ..TrustPolicy::default()
    };
    let own = BTreeSet::from(["configured".to_owned()]);
    let parts = withhold(layer.as_object_mut().unwrap(), &[], &guard, &own);
    let told = parts.iter().map(|part| format!("{} ({:?})", part.key, part.kind));
    (layer, told.collect())
}

#[test]
fn every_key_of_the_schema_is_judged() {
    let schema = protocol::config::schema();
    for key in schema["properties"].as_object().unwrap().keys() {
        let judged = HARMLESS.contains(&key.as_str()) || GUARDED.contains(&key.as_str());
        assert!(judged, "`{key}` is new: decide whether it needs trust");
    }
}

#[test]
fn programs_and_addresses_are_withheld_and_the_rest_stays() {
    let (kept, told) = split(json!({
        "model": "a/b",
        "plugin": ["./p.ts", ["two", { "secret": 1 }]],
        "instructions": ["docs/*.md", "https://x.test/a?key=1", "~/.ssh/id", "/etc/passwd", "../up.md"],
        "mcp": {
            "here": { "type": "local", "command": ["x"] },
            "there": { "type": "remote", "url": "https://x.test", "enabled": false },
            "off": { "enabled": false },
            "on": { "enabled": true },
        },
        "command": { "run": { "template": "a !`b`" }, "say": { "template": "a `b`" } },
        "agents": { "codex": { "enabled": false }, "claude-code": { "permission_mode": "bypass" } },
        "acp": { "mine": { "command": ["x"] }, "gemini": { "enabled": true } },
        "formatter": { "a": { "command": ["x"] }, "b": { "disabled": true } },
        "lsp": true,
        "shell": "/bin/evil",
        "auto_commit": true,
        "enterprise": { "url": "https://x.test" },
        "skills": { "urls": ["https://x.test"], "paths": ["skills"] },
        "permission": { "bash": "allow", "edit": "ask" },
        "agent": { "a": { "prompt": "p", "permission": "allow" }, "b": { "tools": { "bash": true } } },
    }));
    assert_eq!(
        kept,
        json!({
            "model": "a/b",
            "plugin": [],
            "instructions": ["docs/*.md"],
            "mcp": { "off": { "enabled": false } },
            "command": { "say": { "template": "a `b`" } },
            "agents": { "codex": { "enabled": false } },
            "acp": {},
            "formatter": { "b": { "disabled": true } },
            "skills": { "paths": ["skills"] },
            "permission": { "edit": "ask" },
            "agent": { "a": { "prompt": "p" }, "b": { "tools": {} } },
        })
    );
    let expected = [
        "plugin: ./p.ts (Plugin)",
        "plugin: two (Plugin)",
        "instructions: https://x.test/a (Address)",
        "instructions: ~/.ssh/id (File)",
        "instructions: /etc/passwd (File)",
        "instructions: ../up.md (File)",
        "mcp.here (Mcp)",
        "mcp.there (Mcp)",
        "mcp.on (Mcp)",
        "command.run (Command)",
        "agents.claude-code (Agent)",
        "acp.mine (Agent)",
        "acp.gemini (Agent)",
        "formatter.a (Program)",
        "lsp (Program)",
        "shell (Program)",
        "auto_commit (Program)",
        "enterprise (Address)",
        "skills.urls (Address)",
        "permission.bash (Permission)",
        "agent.a.permission (Permission)",
        "agent.b.tools.bash (Permission)",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_provider_counts_unless_a_key_of_the_users_could_be_sent_elsewhere() {
    let base = |more: Value| {
        let mut options = json!({ "baseURL": "http://x.test" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "options": options })
    };
    let cases = [
        (
            "anthropic",
            json!({ "name": "A", "models": { "m": { "limit": { "context": 1, "output": 1 } } } }),
            true,
        ),
        ("anthropic", json!({ "options": { "timeout": 5, "setCacheKey": true } }), true),
        ("anthropic", base(json!({})), false),
        ("anthropic", base(json!({ "apiKey": " " })), false),
        ("anthropic", base(json!({ "apiKey": "the project's" })), true),
        ("anthropic", json!({ "api": "http://x.test" }), false),
        ("anthropic", json!({ "npm": "evil" }), false),
        ("anthropic", json!({ "options": { "headers": { "x-to": "y" } } }), false),
        ("anthropic", json!({ "options": { "resourceName": "evil" } }), false),
        ("anthropic", json!({ "models": { "m": { "headers": { "a": "b" } } } }), false),
        ("anthropic", json!({ "models": { "m": { "provider": { "api": "http://x.test" } } } }), false),
        ("configured", base(json!({ "apiKey": "the project's" })), false),
        ("logged-in", base(json!({ "apiKey": "the project's" })), false),
        ("new", base(json!({})), true),
        (
            "new",
            json!({ "env": ["AWS_SECRET_ACCESS_KEY"], "options": { "baseURL": "http://x.test" } }),
            false,
        ),
        ("new", json!({ "id": "anthropic", "options": { "baseURL": "http://x.test" } }), false),
        ("new", json!({ "options": { "baseURL": "http://x.test/${ANTHROPIC_API_KEY}" } }), false),
    ];
    for (id, entry, counts) in cases {
        let (kept, told) = split(json!({ "provider": { id: entry.clone() } }));
        assert_eq!(kept["provider"].get(id).is_some(), counts, "{id}: {entry}");
        assert_eq!(told.is_empty(), counts, "{id}: {entry}");
    }
}

#[test]
fn parts_that_are_invalid_without_a_placeholder_are_removed() {
    let mut layer = json!({
        "model": "a/b",
        "command": { "a": { "description": "no template" }, "b": { "template": "x" } },
        "provider": { "p": { "models": { "m": { "limit": { "context": 1 } } } } },
    });
    let held = ["command.a.template".to_owned(), "provider.p.models.m.limit.output".to_owned()];
    complete(layer.as_object_mut().unwrap(), &held);
    assert_eq!(layer, json!({ "model": "a/b" }));
    let mut whole = json!({ "command": { "a": {}, "b": { "template": "x" } } });
    complete(whole.as_object_mut().unwrap(), &held[..1]);
    assert_eq!(whole, json!({ "command": { "b": { "template": "x" } } }));
}

#[test]
fn a_key_is_within_itself_and_its_parents() {
    for (key, above, within) in [
        ("mcp.a.url", "mcp.a", true),
        ("mcp.a", "mcp.a", true),
        ("mcp.ab", "mcp.a", false),
        ("mcp[\"a b\"]", "mcp", true),
    ] {
        assert_eq!(is_within(key, above), within, "{key} {above}");
    }
}
