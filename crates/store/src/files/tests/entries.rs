//! Agents, modes, commands, plugins and tools of configuration directories.

use std::fs;

use serde_json::json;

use super::{super::commands, World};

#[test]
fn agents_are_read_from_markdown() {
    let world = World::new().with(&[
        (
            "me/.config/opencode/agent/review.md",
            "---\ndescription: Reviews\nmode: subagent\ntemperature: 0.5\ntools:\n  bash: false\n  write: false\n\
             permission:\n  webfetch: ask\neffort: high\n---\nYou review.\n",
        ),
        ("me/.config/opencode/agents/team/lead.md", "You lead."),
        ("work/.opencode/agents/review.md", "---\ntemperature: 1\npermission: deny\n---\nYou review well."),
        ("work/.opencode/agent/odd.md", "---\nname: Other\nmaxSteps: 3\n---\n"),
        ("work/.opencode/agent/notes.txt", "no"),
        ("work/.opencode/mode/brief.md", "---\nmode: subagent\n---\nBe brief."),
        ("work/.opencode/modes/deep/no.md", "---\n---\nToo deep."),
    ]);
    assert_eq!(
        world.config()["agent"],
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
    let world = World::new().with(&[
        (
            "work/.opencode/command/git/push.md",
            "---\ndescription: Pushes\nagent: build\nsubtask: true\n---\nPush $1 to $2.",
        ),
        ("work/.opencode/commands/plain.md", "Do $ARGUMENTS."),
        ("work/opencode.json", r#"{ "command": { "plain": { "template": "no", "model": "a/b" } } }"#),
    ]);
    let commands = commands(&world.load().unwrap().config);
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
    let world = World::new().with(&[
        ("me/.config/opencode/plugin/a.ts", ""),
        ("work/.opencode/plugins/b.js", ""),
        ("work/.opencode/plugins/c.md", ""),
        ("work/.opencode/plugins/deep/d.ts", ""),
        ("work/.opencode/tool/t.ts", ""),
        ("work/opencode.json", r#"{ "plugin": ["one"] }"#),
    ]);
    let loaded = world.load().unwrap();
    let plugins: Vec<String> = loaded.config.plugin.iter().map(|plugin| world.plain(&plugin.spec)).collect();
    assert_eq!(
        plugins,
        ["one", "file://@/me/.config/opencode/plugin/a.ts", "file://@/work/.opencode/plugins/b.js"]
    );
    assert_eq!(world.relative(&loaded.tools), ["work/.opencode/tool/t.ts"]);
}

#[test]
fn links_are_followed() {
    let world = World::new().with(&[("shared/a.md", "From elsewhere."), ("work/.opencode/agent/b.md", "B")]);
    std::os::unix::fs::symlink(world.at("shared"), world.at("work/.opencode/agent/linked")).unwrap();
    std::os::unix::fs::symlink(world.at("work"), world.at("work/.opencode/agent/circle")).unwrap();
    fs::create_dir(world.at("work/.opencode/agent/empty")).unwrap();
    let agents = world.config()["agent"].clone();
    assert_eq!(agents["linked/a"], json!({ "prompt": "From elsewhere." }));
}
