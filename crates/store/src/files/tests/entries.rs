//! Agents, modes, commands, plugins and tools of configuration directories.

use std::fs;

use serde_json::json;

use super::{super::commands, Harness};

#[test]
fn agents_are_read_from_markdown() {
    let harness = Harness::new().with(&[
        (
            "me/.config/opencode/agent/review.md",
            "---\ndescription: Reviews\nmode: subagent\ntemperature: 0.5\ntools:\n  bash: false\n  write: false\n\
             permission:\n  webfetch: ask\neffort: high\n---\nYou review.\n",
        ),
        ("me/.config/opencode/agents/team/lead.md", "You lead."),
        ("project/.opencode/agents/review.md", "---\ntemperature: 1\npermission: deny\n---\nYou review well."),
        ("project/.opencode/agent/odd.md", "---\nname: Other\nmaxSteps: 3\n---\n"),
        ("project/.opencode/agent/notes.txt", "no"),
        ("project/.opencode/mode/brief.md", "---\nmode: subagent\n---\nBe brief."),
        ("project/.opencode/modes/deep/no.md", "---\n---\nToo deep."),
    ]);
    assert_eq!(
        harness.config()["agent"],
        json!({
            "review": {
                "description": "Reviews", "mode": "subagent", "temperature": 1, "prompt": "You review well.",
                "permission": { "bash": "deny", "edit": "deny", "webfetch": "ask", "*": "deny" },
                "options": { "effort": "high" },
            },
            "team/lead": { "prompt": "You lead." },
            "Other": { "prompt": "", "steps": 3 },
            "brief": { "prompt": "Be brief.", "mode": "primary" },
        })
    );
}

#[test]
fn commands_are_read_from_markdown() {
    let harness = Harness::new().with(&[
        (
            "project/.opencode/command/git/push.md",
            "---\ndescription: Pushes\nagent: build\nsubtask: true\n---\nPush $1 to $2.",
        ),
        ("project/.opencode/commands/plain.md", "Do $ARGUMENTS."),
        ("project/opencode.json", r#"{ "command": { "plain": { "template": "no", "model": "a/b" } } }"#),
    ]);
    let commands = commands(&harness.load().unwrap().config);
    assert_eq!(
        serde_json::to_value(commands).unwrap(),
        json!([
            {
                "name": "git/push", "description": "Pushes", "agent": "build", "source": "command",
                "template": "Push $1 to $2.", "subtask": true, "hints": ["$1", "$2"],
            },
            {
                "name": "plain", "model": "a/b", "source": "command", "template": "Do $ARGUMENTS.",
                "hints": ["$ARGUMENTS"],
            },
        ])
    );
}

#[test]
fn plugins_and_tools_are_found() {
    let harness = Harness::new().with(&[
        ("me/.config/opencode/plugin/a.ts", ""),
        ("project/.opencode/plugins/b.js", ""),
        ("project/.opencode/plugins/c.md", ""),
        ("project/.opencode/plugins/deep/d.ts", ""),
        ("project/.opencode/tool/t.ts", ""),
        ("project/opencode.json", r#"{ "plugin": ["one"] }"#),
    ]);
    let loaded = harness.load().unwrap();
    let plugins: Vec<String> =
        loaded.config.plugin.iter().map(|plugin| harness.plain(&plugin.spec)).collect();
    assert_eq!(
        plugins,
        ["one", "file://@/me/.config/opencode/plugin/a.ts", "file://@/project/.opencode/plugins/b.js"]
    );
    assert_eq!(harness.relative(&loaded.tools), ["project/.opencode/tool/t.ts"]);
}

#[test]
fn plugins_of_the_project_are_distinguished_from_the_users() {
    let harness = Harness::new()
        .with(&[
            ("me/.config/opencode/opencode.json", r#"{ "plugin": ["one@1", ["two", { "a": 1 }]] }"#),
            ("me/.opencode/plugin/mine.ts", ""),
            ("project/opencode.json", r#"{ "plugin": ["two@evil", "three", "./four.ts"] }"#),
            ("project/.opencode/plugin/five.ts", ""),
            ("chosen/plugin/six.ts", ""),
        ])
        .set(&[
            ("OPENCODE_CONFIG_DIR", "§/chosen"),
            ("OPENCODE_CONFIG_CONTENT", r#"{ "plugin": ["seven"] }"#),
        ]);
    let specs = |plugins: &[protocol::config::Plugin]| -> Vec<String> {
        plugins.iter().map(|plugin| harness.plain(&plugin.spec)).collect()
    };
    let own = harness.load_untrusted().config.plugin;
    let expected =
        ["one@1", "two", "file://@/me/.opencode/plugin/mine.ts", "file://@/chosen/plugin/six.ts", "seven"];
    assert_eq!(specs(&own), expected);
    assert!(own[1].options.is_some(), "the project's entry does not count");
    let all = specs(&harness.load().unwrap().config.plugin);
    assert!(
        ["two@evil", "three", "file://@/project/four.ts", "seven"]
            .iter()
            .all(|spec| all.contains(&(*spec).to_owned()))
    );
}

#[test]
fn links_are_followed() {
    let harness =
        Harness::new().with(&[("shared/a.md", "From elsewhere."), ("project/.opencode/agent/b.md", "B")]);
    std::os::unix::fs::symlink(harness.at("shared"), harness.at("project/.opencode/agent/linked")).unwrap();
    std::os::unix::fs::symlink(harness.at("project"), harness.at("project/.opencode/agent/circle")).unwrap();
    fs::create_dir(harness.at("project/.opencode/agent/empty")).unwrap();
    let agents = harness.config()["agent"].clone();
    assert_eq!(agents["linked/a"], json!({ "prompt": "From elsewhere." }));
}
