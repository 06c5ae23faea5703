//! Parts of a project's files that need trust.

use std::fs;

use protocol::{config::Secret, trust::WithheldReason};
use serde_json::json;

use super::{super::redacted, Harness, TrustPolicy, load};

/// Files, keys and kinds of the withheld parts.
fn told(harness: &Harness, withheld: &[protocol::trust::Withheld]) -> Vec<String> {
    let told = |part: &protocol::trust::Withheld| {
        harness.plain(&format!("{} {} ({:?})", part.file, part.key, part.kind))
    };
    withheld.iter().map(told).collect()
}

#[test]
fn an_untrusted_project_has_neither_programs_nor_addresses_and_the_rest_counts() {
    let harness = Harness::new().with(&[
        (
            "project/opencode.json",
            r#"{ "model": "a/b", "mcp": { "db": { "type": "local", "command": ["db"] } },
                 "provider": { "p": { "env": ["SECRET"], "options": { "baseURL": "http://x.test" } } } }"#,
        ),
        ("project/.opencode/opencode.json", r#"{ "username": "ada", "plugin": ["./evil.ts"] }"#),
        ("project/.opencode/command/run.md", "Look: !`id`"),
        ("project/.opencode/command/say.md", "Say $1."),
        ("project/.opencode/agent/bold.md", "---\npermission:\n  bash: allow\n  edit: ask\n---\nBe bold."),
        ("project/.opencode/plugin/p.ts", ""),
        ("project/.opencode/tool/t.ts", ""),
        ("project/sub/baton.json", r#"{ "acp": { "mine": { "command": ["x"] } } }"#),
    ]);
    let loaded = harness.load_untrusted();
    let config = redacted(&loaded.config);
    assert_eq!((&config["model"], &config["username"]), (&json!("a/b"), &json!("ada")));
    assert_eq!(config["command"], json!({ "say": { "template": "Say $1." } }));
    for key in ["mcp", "provider", "plugin", "acp"] {
        assert!(config.get(key).is_none_or(|left| *left == json!({}) || *left == json!([])), "{key}");
    }
    assert_eq!(config["agent"]["bold"], json!({ "prompt": "Be bold.", "permission": { "edit": "ask" } }));
    assert!(loaded.tools.is_empty());
    assert_eq!(
        told(&harness, &loaded.withheld),
        [
            "@/project/opencode.json mcp.db (Mcp)",
            "@/project/opencode.json provider.p (Provider)",
            "@/project/sub/baton.json acp.mine (Agent)",
            "@/project/.opencode/opencode.json plugin: ./evil.ts (Plugin)",
            "@/project/.opencode/agent/bold.md agent.bold.permission.bash (Permission)",
            "@/project/.opencode/command/run.md command.run (Command)",
            "@/project/.opencode/plugin/p.ts p.ts (Plugin)",
            "@/project/.opencode/tool/t.ts t.ts (Tool)",
        ]
    );
    let trusted = harness.load().unwrap();
    assert!(trusted.withheld.is_empty() && trusted.config.mcp.contains_key("db"));
}

#[test]
fn placeholders_of_an_untrusted_project_are_not_filled_in() {
    let harness = Harness::new()
        .with(&[
            ("me/secret", "sk-file"),
            (
                "project/opencode.json",
                r#"{ "username": "{env:SECRET}", "subagent_depth": {env:DEPTH}, "model": "a/b",
                     "agent": { "a": { "prompt": "{file:~/secret}", "temperature": 1 }, "{env:SECRET}": {} },
                     "command": { "c": { "template": "{file:none}" } },
                     "instructions": ["{env:SECRET}", "own.md"],
                     "mcp": { "m": { "type": "remote", "url": "http://x.test", "headers": { "x": "{env:SECRET}" } } } }"#,
            ),
        ])
        .set(&[("SECRET", "sk-env"), ("DEPTH", "3")]);
    let loaded = harness.load_untrusted();
    let config = redacted(&loaded.config);
    assert!(!format!("{:?} {config}", loaded.config).contains("sk-"));
    assert_eq!(config["agent"], json!({ "a": { "temperature": 1 } }));
    assert_eq!(config["instructions"], json!(["own.md"]));
    assert_eq!((&config["model"], config.get("subagent_depth")), (&json!("a/b"), None));
    assert_eq!(
        told(&harness, &loaded.withheld),
        [
            "@/project/opencode.json mcp.m (Mcp)",
            "@/project/opencode.json username (Placeholder)",
            "@/project/opencode.json subagent_depth (Placeholder)",
            "@/project/opencode.json agent.a.prompt (Placeholder)",
            "@/project/opencode.json agent[\"…\"] (Placeholder)",
            "@/project/opencode.json command.c.template (Placeholder)",
            "@/project/opencode.json instructions[0] (Placeholder)",
        ]
    );
    assert!(loaded.read.iter().all(|path| !path.ends_with("secret")), "{:?}", loaded.read);
}

#[test]
fn files_of_the_user_need_no_trust() {
    let mcp = r#"{ "mcp": { "NAME": { "type": "local", "command": ["{env:PROGRAM}"] } } }"#;
    let named = |name: &str| mcp.replace("NAME", name);
    let harness = Harness::new()
        .with(&[
            ("me/.config/opencode/opencode.json", &named("user")),
            ("me/.opencode/baton.json", &named("home")),
            ("chosen/opencode.json", &named("chosen")),
            ("file.json", &named("file")),
            ("etc/opencode.json", &named("managed")),
        ])
        .set(&[
            ("PROGRAM", "x"),
            ("OPENCODE_CONFIG_DIR", "§/chosen"),
            ("OPENCODE_CONFIG", "§/file.json"),
            ("OPENCODE_CONFIG_CONTENT", &named("content")),
        ]);
    let loaded = harness.load_untrusted();
    let names: Vec<&String> = loaded.config.mcp.keys().collect();
    assert_eq!(names, ["chosen", "content", "file", "home", "managed", "user"]);
    assert!(loaded.withheld.is_empty(), "{:?}", loaded.withheld);
}

#[test]
fn the_directory_of_the_users_own_configuration_is_no_project() {
    let harness = Harness::new().with(&[(
        "me/.config/opencode/opencode.json",
        r#"{ "mcp": { "user": { "type": "local", "command": ["x"] } } }"#,
    )]);
    let directory = harness.at("me/.config/opencode");
    let site = super::Site { worktree: "/".into(), directory };
    let loaded = load(&harness.environment, &site, &TrustPolicy::strict()).unwrap();
    assert!(loaded.config.mcp.contains_key("user") && loaded.withheld.is_empty(), "{:?}", loaded.withheld);
}

#[test]
fn a_project_moves_no_provider_that_the_user_configures_in_whichever_layer() {
    let base =
        r#"{ "provider": { "p": { "options": { "baseURL": "http://evil.test", "apiKey": "own" } } } }"#;
    let key = r#"{ "provider": { "p": { "options": { "headers": { "x": "corporate" } } } } }"#;
    let harness = Harness::new().with(&[("project/opencode.json", base)]);
    assert!(harness.load_untrusted().config.provider.contains_key("p"), "a provider of the project's own");
    let before = Harness::new()
        .with(&[("project/opencode.json", base), ("me/.config/opencode/opencode.json", key)])
        .load_untrusted();
    let after = Harness::new()
        .with(&[("project/opencode.json", base)])
        .set(&[("OPENCODE_CONFIG_CONTENT", key)])
        .load_untrusted();
    for loaded in [before, after] {
        let options = &loaded.config.provider["p"].options;
        assert_eq!((&options.base_url, options.api_key.as_ref().map(Secret::reveal)), (&None, None));
        assert_eq!(loaded.withheld.len(), 1);
    }
}

#[test]
fn files_of_another_owner_are_not_trusted_in_a_trusted_directory() {
    let text = r#"{ "model": "a/b", "mcp": { "m": { "type": "local", "command": ["{env:HOME}"] } } }"#;
    let harness = Harness::new().with(&[
        ("project/opencode.json", text),
        ("project/.opencode/plugin/p.ts", ""),
        ("project/.opencode/opencode.json", r#"{ "plugin": ["./q.ts"] }"#),
        ("project/.opencode/q.ts", ""),
    ]);
    // Files that every user may write to are treated alike, and creating them needs no root.
    for file in ["project/opencode.json", "project/.opencode/plugin/p.ts", "project/.opencode/q.ts"] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(harness.at(file), open).unwrap();
    }
    let loaded = harness.load().unwrap();
    assert_eq!(loaded.config.model.as_deref(), Some("a/b"));
    assert!(loaded.config.mcp.is_empty() && loaded.config.plugin.is_empty());
    assert_eq!(
        told(&harness, &loaded.withheld),
        [
            "@/project/opencode.json mcp.m (Mcp)",
            "@/project/.opencode/q.ts plugin: @/project/.opencode/q.ts (Plugin)",
            "@/project/.opencode/plugin/p.ts p.ts (Plugin)",
        ]
    );
    assert!(loaded.withheld.iter().all(|part| part.reason == WithheldReason::Owner));
}
