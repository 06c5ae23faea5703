//! Messages about documents that do not match the schema.

use super::{super::document, *};

fn problems(text: &str) -> Vec<String> {
    let lines = document::Lines::of(text);
    let node = document::parse(text, &|offset| lines.position(offset)).unwrap().unwrap();
    let findings = check(&node, &CONFIGURATION, &Source::Variable("X"));
    let odd = findings.odd.iter().map(|problem| format!("odd: {problem}"));
    findings.wrong.iter().map(ToString::to_string).chain(odd).collect()
}

fn only(text: &str) -> String {
    let problems = problems(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.into_iter().next().unwrap()
}

const MCP_NEEDS_TYPE: &str = "X:1:17: `mcp.a` needs `type`, which is one of local, remote";

#[test]
fn every_kind_of_mistake_has_its_sentence() {
    let cases = [
        (r"[]", "X:1:1: the configuration must be a map, not a list"),
        (r#"{ "modle": "x" }"#, "odd: X:1:3: `modle` is not a known key; did you mean `model`?"),
        (r#"{ "color": 1 }"#, "odd: X:1:3: `color` is not a known key"),
        (r#"{ "model": 1 }"#, "X:1:12: `model` must be text, not a number"),
        (r#"{ "model": null }"#, "X:1:12: `model` must be text, not null"),
        (r#"{ "share": "yes" }"#, "X:1:12: `share` must be one of manual, auto, disabled"),
        (r#"{ "subagent_depth": 1.5 }"#, "X:1:21: `subagent_depth` must be a whole number, not a number"),
        (r#"{ "subagent_depth": -1 }"#, "X:1:21: `subagent_depth` must be at least 0"),
        (r#"{ "server": { "port": 70000 } }"#, "X:1:23: `server.port` must be at most 65535"),
        (r#"{ "agent": { "a": { "steps": 0 } } }"#, "X:1:30: `agent.a.steps` must be at least 1"),
        (
            r#"{ "agent": { "a": { "steps": 5000000000 } } }"#,
            "X:1:30: `agent.a.steps` must be at most 4294967295",
        ),
        (r#"{ "budget": { "cost": { "turn": 0 } } }"#, "X:1:33: `budget.cost.turn` must be more than 0"),
        (
            r#"{ "budget": { "cost": 1 } }"#,
            "X:1:23: `budget.cost` must be a map with the keys `turn`, `session`, not a number",
        ),
        (
            r#"{ "budget": 1 }"#,
            "X:1:13: `budget` must be a map with the keys `cost`, `tokens`, `steps`, `minutes`, not a number",
        ),
        (
            r#"{ "budget": { "euros": {} } }"#,
            "odd: X:1:15: `budget.euros` is not a known key; the keys are cost, tokens, steps, minutes",
        ),
        (r#"{ "autoupdate": "yes" }"#, "X:1:17: `autoupdate` must be true or false, or `notify`"),
        (r#"{ "permission": "no" }"#, "X:1:17: `permission` must be one of allow, deny, ask, or a map"),
        (r#"{ "mcp": { "a": { "command": ["x"] } } }"#, MCP_NEEDS_TYPE),
        (r#"{ "mcp": { "a": { "enabled": true, "command": ["x"] } } }"#, MCP_NEEDS_TYPE),
        (r#"{ "mcp": { "a": {} } }"#, MCP_NEEDS_TYPE),
        (
            r#"{ "mcp": { "a": { "type": "stdio", "command": "x" } } }"#,
            "X:1:27: `mcp.a.type` must be one of local, remote",
        ),
        (r#"{ "command": { "a b": {} } }"#, r#"X:1:23: `command["a b"]` needs `template`"#),
        (r#"{ "instructions": ["a", 2] }"#, "X:1:25: `instructions[1]` must be text, not a number"),
        (r#"{ "plugin": [["a"]] }"#, "X:1:14: `plugin[0]` must have 2 elements, not 1"),
        (r#"{ "plugin": [1] }"#, "X:1:14: `plugin[0]` must be text, or a list, not a number"),
        (
            r#"{ "permission": { "bash": { "rm *": "no" } } }"#,
            r#"X:1:37: `permission.bash["rm *"]` must be one of allow, deny, ask"#,
        ),
        (
            r#"{ "permission": 1 }"#,
            "X:1:17: `permission` must be one of allow, deny, ask, or a map, not a number",
        ),
        (r#"{ "mcp": { "a": { "type": "local" } } }"#, "X:1:17: `mcp.a` needs `command`"),
        (
            r#"{ "mcp": { "a": { "type": "lokal", "command": [] } } }"#,
            "X:1:27: `mcp.a.type` must be one of local, remote",
        ),
        (
            r#"{ "provider": { "a": { "options": { "timeout": true } } } }"#,
            "X:1:48: `provider.a.options.timeout` must be `false`, or a whole number",
        ),
        (
            r#"{ "agent": { "a": { "color": "red" } } }"#,
            "X:1:30: `agent.a.color` must be one of primary, secondary, accent, success, warning, error, \
             info, or a colour like `#ff5733`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(only(text), expected, "{text}");
    }
}

#[test]
fn an_unknown_key_deeper_down_is_only_odd() {
    let text = r#"{ "compaction": { "autp": true }, "mcp": { "a": { "enabled": true, "x": 1 } } }"#;
    assert_eq!(
        problems(text),
        [
            "odd: X:1:19: `compaction.autp` is not a known key; did you mean `auto`?",
            "odd: X:1:68: `mcp.a.x` is not a known key",
        ]
    );
}

#[test]
fn allowed_values_are_listed() {
    let text = r#"{ "share": 1 }"#;
    let node = document::parse(text, &|_| Position { line: 1, column: 1 }).unwrap().unwrap();
    let findings = check(&node, &CONFIGURATION, &Source::Merged);
    assert_eq!(findings.wrong[0].allowed, ["manual", "auto", "disabled"]);
    assert_eq!(findings.wrong[0].key, "share");
}

#[test]
fn all_errors_are_reported_at_once() {
    assert_eq!(problems(r#"{ "budget": 1, "model": 1, "share": 1, "mcp": [] }"#).len(), 4);
}
