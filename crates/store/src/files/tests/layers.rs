//! The order and the result of merging layers.

use serde_json::{Value, json};

use super::Harness;

/// Every place of a configuration, the weakest first, and the value that is set there.
const LADDER: [&str; 19] = [
    "me/.config/opencode/config.json",
    "me/.config/opencode/opencode.json",
    "me/.config/opencode/opencode.jsonc",
    "me/.config/opencode/baton.json",
    "me/.config/opencode/baton.jsonc",
    "chosen.json",
    "project/opencode.json",
    "project/opencode.jsonc",
    "project/baton.json",
    "project/sub/opencode.json",
    "project/sub/baton.jsonc",
    "project/sub/.opencode/opencode.json",
    "project/sub/.opencode/baton.json",
    "project/.opencode/opencode.jsonc",
    "me/.opencode/opencode.json",
    "directory/opencode.json",
    "OPENCODE_CONFIG_CONTENT",
    "etc/opencode.json",
    "etc/baton.json",
];

fn ladder(rungs: &[&str]) -> Harness {
    let mut harness =
        Harness::new().set(&[("OPENCODE_CONFIG", "§/chosen.json"), ("OPENCODE_CONFIG_DIR", "§/directory")]);
    for rung in rungs {
        let text =
            json!({ "model": format!("m/{rung}"), "username": "ada", "agent": { *rung: {} } }).to_string();
        harness = if rung.starts_with("OPENCODE") {
            harness.set(&[(rung, &text)])
        } else {
            harness.with(&[(rung, &text)])
        };
    }
    harness
}

#[test]
fn each_layer_overrides_those_before_it() {
    for top in 1..=LADDER.len() {
        let rungs = &LADDER[..top];
        let config = ladder(rungs).config();
        assert_eq!(config["model"], format!("m/{}", rungs[top - 1]));
        // Nothing of the other layers is lost.
        assert_eq!(config["agent"].as_object().unwrap().len(), top);
    }
}

#[test]
fn files_that_were_read_are_listed_in_order() {
    let harness = ladder(&LADDER);
    let loaded = harness.load().unwrap();
    let files: Vec<&str> = LADDER.into_iter().filter(|rung| !rung.starts_with("OPENCODE")).collect();
    assert_eq!(harness.relative(&loaded.read), files);
    assert_eq!(
        harness.relative(&loaded.directories),
        ["me/.config/opencode", "project/sub/.opencode", "project/.opencode", "me/.opencode", "directory"]
    );
}

#[test]
fn files_outside_the_worktree_are_not_the_projects() {
    let harness =
        Harness::new().with(&[("opencode.json", r#"{ "model": "a/b" }"#), (".opencode/opencode.json", "[]")]);
    assert_eq!(harness.config(), json!({}));
}

#[test]
fn without_a_repository_everything_up_to_the_root_counts() {
    let harness = Harness::new().with(&[("opencode.json", r#"{ "model": "a/b" }"#)]);
    let mut site = harness.site();
    site.worktree = "/".into();
    let loaded = super::load(&harness.environment, &site, &super::TrustPolicy::trusting()).unwrap();
    assert_eq!(loaded.config.model.as_deref(), Some("a/b"));
}

#[test]
fn the_projects_files_can_be_switched_off() {
    let harness = ladder(&LADDER[..14]).set(&[("OPENCODE_DISABLE_PROJECT_CONFIG", "1")]);
    assert_eq!(harness.config()["model"], "m/chosen.json");
    assert_eq!(harness.relative(&harness.load().unwrap().directories), ["me/.config/opencode", "directory"]);
}

#[test]
fn no_files_are_a_valid_configuration_and_none_is_written() {
    let harness = Harness::new();
    let loaded = harness.load().unwrap();
    assert_eq!((loaded.config, loaded.read.len()), (protocol::config::Config::default(), 0));
    assert!(!harness.at("me/.config").exists());
}

#[test]
fn without_a_home_only_the_rest_is_read() {
    let mut harness = Harness::new().with(&[("project/opencode.json", r#"{ "model": "a/b" }"#)]);
    harness.environment.variables.clear();
    assert_eq!(harness.config(), json!({ "model": "a/b" }));
}

#[test]
fn the_users_directory_can_be_elsewhere() {
    let harness = Harness::new()
        .with(&[("xdg/opencode/opencode.json", r#"{ "model": "a/b" }"#)])
        .set(&[("XDG_CONFIG_HOME", "§/xdg")]);
    assert_eq!(harness.config(), json!({ "model": "a/b" }));
}

#[test]
fn a_missing_chosen_file_causes_a_warning() {
    let harness = Harness::new().set(&[("OPENCODE_CONFIG", "no.json")]);
    assert_eq!(
        harness.told(&harness.load().unwrap().warnings),
        "OPENCODE_CONFIG: there is no file @/project/sub/no.json"
    );
}

#[test]
fn layers_are_merged_by_the_rules() {
    let harness = Harness::new().with(&[
        (
            "me/.config/opencode/opencode.jsonc",
            r#"{
                // The user's.
                "permission": "ask",
                "instructions": ["a.md", "b.md"],
                "plugin": ["one@1", "two", "./three.ts"],
                "disabled_providers": ["x", "y"],
                "agent": { "build": { "temperature": 1, "effort": "low", "tools": { "bash": false } } },
                "mcp": { "db": { "type": "local", "command": ["db"] } },
                "share": "disabled",
            }"#,
        ),
        (
            "project/opencode.json",
            r#"{
                "permission": { "edit": "allow", "*": "deny" },
                "instructions": ["c.md", "a.md"],
                "plugin": [["one@2", { "level": 3 }], "./three.ts"],
                "disabled_providers": ["z"],
                "agent": { "build": { "top_p": 0.5, "effort": "high", "permission": { "bash": "ask" }, "maxSteps": 7 } },
                "mcp": { "db": { "enabled": false } },
                "autoshare": true,
                "tools": { "webfetch": false, "edit": false }
            }"#,
        ),
    ]);
    insta::assert_json_snapshot!(
        serde_json::from_str::<Value>(&harness.plain(&harness.config().to_string())).unwrap()
    );
}

#[test]
fn permissions_of_the_environment_override_all_others() {
    let harness = Harness::new()
        .with(&[("project/opencode.json", r#"{ "permission": { "bash": "ask", "edit": "deny" } }"#)])
        .set(&[("OPENCODE_PERMISSION", r#"{ "bash": "allow", "read": { "*.env": "deny" } }"#)]);
    assert_eq!(
        harness.config()["permission"].to_string(),
        r#"{"bash":"allow","edit":"deny","read":{"*.env":"deny"}}"#
    );
    let harness = harness.set(&[("OPENCODE_PERMISSION", r#""deny""#)]);
    assert_eq!(harness.config()["permission"].to_string(), r#"{"bash":"ask","edit":"deny","*":"deny"}"#);
}

#[test]
fn switches_of_the_environment_are_applied() {
    let harness = Harness::new()
        .with(&[("project/opencode.json", r#"{ "compaction": { "auto": true, "tail_turns": 2 } }"#)])
        .set(&[("OPENCODE_DISABLE_AUTOCOMPACT", "true"), ("OPENCODE_DISABLE_PRUNE", "1"), ("USER", "ada")]);
    assert_eq!(
        harness.config(),
        json!({ "compaction": { "auto": false, "prune": false, "tail_turns": 2 }, "username": "ada" })
    );
}

#[test]
fn variables_and_files_are_substituted_where_placeholders_are() {
    let harness = Harness::new()
        .with(&[
            (
                "project/opencode.json",
                r#"{
                    "model": "{env:MODEL}",
                    "server": { "port": {env:PORT} },
                    "agent": { "a": { "prompt": "{file:prompts/a.txt}" }, "b": { "prompt": "{file:~/b.txt}" } },
                    "username": "{env:NOBODY}"
                    // {file:not/there}
                }"#,
            ),
            ("project/prompts/a.txt", "  Say \"hello\".\nTwice.\n"),
            ("me/b.txt", "B"),
        ])
        .set(&[("MODEL", "a/b"), ("PORT", "4096")]);
    assert_eq!(
        harness.config(),
        json!({
            "model": "a/b", "server": { "port": 4096 }, "username": "",
            "agent": { "a": { "prompt": "Say \"hello\".\nTwice." }, "b": { "prompt": "B" } },
        })
    );
    let loaded = harness.load().unwrap();
    assert_eq!(
        harness.relative(&loaded.read),
        ["project/opencode.json", "project/prompts/a.txt", "me/b.txt"]
    );
    assert_eq!(
        harness.told(&loaded.warnings),
        "@/project/opencode.json:5:34: the variable NOBODY is not set; it is replaced by an empty text"
    );
}

#[test]
fn inline_content_takes_its_files_from_the_directory() {
    let harness = Harness::new()
        .with(&[("project/sub/name.txt", "ada\n")])
        .set(&[("OPENCODE_CONFIG_CONTENT", r#"{ "username": "{file:name.txt}", "plugin": ["./p.ts"] }"#)]);
    let config = harness.config();
    assert_eq!(config["username"], "ada");
    assert_eq!(harness.plain(config["plugin"][0].as_str().unwrap()), "file://@/project/sub/p.ts");
}

#[test]
fn keys_of_our_own_are_known_everywhere_but_belong_into_our_file() {
    let own =
        r#"{ "budget": { "cost": { "turn": 1 } }, "sandbox": "read-only", "limits": { "retries": 2 } }"#;
    let harness = Harness::new().with(&[("project/baton.jsonc", own)]);
    assert_eq!(harness.config(), serde_json::from_str::<Value>(own).unwrap());
    assert_eq!(harness.load().unwrap().warnings, []);
    let harness = Harness::new().with(&[("project/opencode.json", r#"{ "sandbox": "off" }"#)]);
    assert_eq!(
        harness.told(&harness.load().unwrap().warnings),
        "@/project/opencode.json:1:3: move `sandbox` to baton.json: OpenCode refuses a file that contains it"
    );
}

#[test]
fn no_file_of_a_project_loosens_the_settings_of_others() {
    let user = r#"{ "sandbox": { "mode": "workspace-write", "network": false }, "permission_final": { "bash": "ask" } }"#;
    let project = r#"{ "sandbox": { "mode": "off", "network": true }, "webfetch": { "private_addresses": true },
        "permission_final": "allow" }"#;
    let expected = serde_json::from_str::<Value>(user).unwrap();
    // The order of the user's and the project's layers makes no difference.
    for set in ["me/.config/opencode/baton.json", "me/.opencode/baton.json", "etc/baton.json"] {
        for loosens in ["project/baton.json", "project/sub/baton.jsonc", "project/.opencode/opencode.json"] {
            let harness = Harness::new().with(&[(set, user), (loosens, project)]);
            assert_eq!(harness.config(), expected, "{set} {loosens}");
            let warnings = harness.load().unwrap().warnings;
            let about: Vec<&str> = warnings
                .iter()
                .filter(|problem| problem.message.ends_with("has no effect here"))
                .map(|problem| problem.key.as_str())
                .collect();
            let keys = ["sandbox.mode", "sandbox.network", "webfetch.private_addresses", "permission_final"];
            assert_eq!(about, keys, "{set} {loosens}");
            assert!(
                harness.told(&warnings).contains(&format!("@/{loosens}:1:3: `sandbox.mode` would loosen"))
            );
        }
    }
}

#[test]
fn a_project_tightens_the_users_settings() {
    let harness = Harness::new().with(&[
        (
            "me/.config/opencode/baton.json",
            r#"{ "sandbox": "workspace-write", "webfetch": { "private_addresses": true } }"#,
        ),
        ("project/baton.json", r#"{ "sandbox": "read-only", "webfetch": { "private_addresses": false } }"#),
    ]);
    let expected = json!({
        "sandbox": { "mode": "read-only", "network": true }, "webfetch": { "private_addresses": false },
    });
    assert_eq!(harness.config(), expected);
    assert_eq!(harness.load().unwrap().warnings, []);
}

#[test]
fn final_rules_of_the_user_and_the_administrator_are_merged() {
    let harness = Harness::new().with(&[
        ("me/.config/opencode/baton.json", r#"{ "permission_final": "ask" }"#),
        ("etc/baton.json", r#"{ "permission_final": { "bash": "deny" } }"#),
    ]);
    assert_eq!(harness.config()["permission_final"].to_string(), r#"{"*":"ask","bash":"deny"}"#);
}

#[test]
fn an_mcp_server_can_change_its_kind_between_layers() {
    let harness = Harness::new().with(&[
        ("project/opencode.json", r#"{ "mcp": { "a": { "type": "local", "command": ["a"] } } }"#),
        ("project/sub/opencode.json", r#"{ "mcp": { "a": { "type": "remote", "url": "https://a.test" } } }"#),
    ]);
    assert_eq!(harness.config()["mcp"], json!({ "a": { "type": "remote", "url": "https://a.test" } }));
}

#[test]
fn secrets_can_be_revealed_explicitly() {
    let harness = Harness::new()
        .with(&[(
            "project/opencode.json",
            r#"{ "provider": { "acme": { "options": { "apiKey": "{env:ACME}" } } } }"#,
        )])
        .set(&[("ACME", "sk-1")]);
    let loaded = harness.load().unwrap();
    let key = loaded.config.provider["acme"].options.api_key.as_ref().unwrap();
    assert_eq!(key.reveal(), "sk-1");
    assert!(!format!("{loaded:?}{}", harness.config()).contains("sk-1"));
}

#[test]
fn a_created_or_changed_file_makes_a_configuration_stale() {
    let more = [
        "project/.opencode/agent/deep/er/a.md",
        "project/.opencode/commands/c.md",
        "project/sub/.opencode/mode/m.md",
        "me/.config/opencode/plugin/p.js",
        "project/.opencode/tools/t.ts",
        "included.txt",
    ];
    let mut harness = ladder(&["chosen.json"]).with(&[
        ("included.txt", "ada"),
        ("project/opencode.jsonc", r#"{ "username": "{file:§/included.txt}" }"#),
        ("project/.opencode/agent/known.md", "Hello"),
    ]);
    let layers = LADDER.into_iter().filter(|rung| !rung.starts_with("OPENCODE"));
    for file in more.into_iter().chain(layers) {
        let trace = harness.load().unwrap().trace;
        assert!(!trace.is_stale(), "before {file}");
        // A comment is empty in JSON, and as good as any other text elsewhere.
        harness = harness.with(&[(file, if file.contains(".json") { "{ // hm\n}" } else { "// hm" })]);
        assert!(trace.is_stale(), "{file}");
    }
}
