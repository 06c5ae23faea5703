//! Error messages about files that cannot be used.

use std::fs;

use proptest::prelude::*;

use super::Harness;

fn problems(files: &[(&str, &str)]) -> String {
    let harness = Harness::new().with(files);
    harness.told(&harness.load().unwrap_err().problems)
}

#[test]
fn all_errors_of_all_files_are_reported_together() {
    let harness = Harness::new()
        .with(&[
            (
                "me/.config/opencode/opencode.json",
                "{\n  \"modle\": \"a/b\",\n  \"share\": \"sometimes\"\n}\n",
            ),
            (
                "project/opencode.jsonc",
                "{\n  // A comma is missing.\n  \"model\": \"a/b\"\n  \"share\": \"auto\"\n}\n",
            ),
            ("project/baton.json", "{ \"budget\": { \"cost\": { \"turn\": -1 } }, \"sandbox\": \"none\" }"),
            ("project/sub/opencode.json", "[1, 2]"),
            (
                "project/.opencode/opencode.json",
                "{ \"agent\": { \"a\": { \"prompt\": \"{file:gone.txt}\", \"mode\": \"boss\" } } }",
            ),
            ("project/.opencode/agent/team/b.md", "---\ndescription: B\nmode: boss\nsteps: many\n---\nHello"),
            ("project/.opencode/agent/c.md", "---\ndescription: [C\n---\nHello"),
            ("project/.opencode/command/d.md", "---\nsubtask: perhaps\n---\nHello"),
        ])
        .set(&[
            ("OPENCODE_CONFIG_CONTENT", r#"{ "mcp": { "x": { "type": "remote" } } }"#),
            ("OPENCODE_PERMISSION", r#"{ "bash": "perhaps" }"#),
        ]);
    let invalid = harness.load().unwrap_err();
    insta::assert_snapshot!(harness.plain(&invalid.to_string()));
    let mode = invalid.problems.iter().find(|problem| problem.key == "agent.a.mode").unwrap();
    assert_eq!(mode.allowed, ["primary", "subagent", "all"]);
}

#[test]
fn positions_are_those_of_the_file_before_substitution() {
    let harness = Harness::new()
        .with(&[(
            "project/opencode.json",
            "{ \"username\": \"{env:LONG}\", \"model\": 1,\n  \"shell\": \"{env:LONG}\", \"snapshot\": 2 }",
        )])
        .set(&[("LONG", "line\nafter line\nafter \"line\"")]);
    assert_eq!(
        harness.told(&harness.load().unwrap_err().problems),
        "@/project/opencode.json:1:38: `model` must be text, not a number\n\
         @/project/opencode.json:2:38: `snapshot` must be true or false, not a number"
    );
}

#[test]
fn values_are_never_repeated() {
    let told = problems(&[(
        "project/opencode.json",
        r#"{ "provider": { "a": { "options": { "apiKey": 12345 } } }, "share": "sk-12345", "sk": ["sk-12345"] }"#,
    )]);
    assert!(!told.contains("12345"), "{told}");
}

#[test]
fn files_that_cannot_be_read_are_reported() {
    let harness = Harness::new().with(&[("project/opencode.json", "x")]);
    fs::write(harness.at("project/opencode.json"), [b'{', 0xff, b'}']).unwrap();
    fs::create_dir(harness.at("project/baton.json")).unwrap();
    fs::write(harness.at("project/sub/opencode.json"), vec![b' '; 1024 * 1024 + 1]).unwrap();
    assert_eq!(
        harness.told(&harness.load().unwrap_err().problems),
        "@/project/opencode.json: the file cannot be read: it is not valid UTF-8\n\
         @/project/baton.json: the file cannot be read: it is not a file\n\
         @/project/sub/opencode.json: the file cannot be read: it has more than 1048576 bytes"
    );
}

#[test]
fn an_empty_file_is_fine() {
    let harness =
        Harness::new().with(&[("project/opencode.json", ""), ("project/baton.json", " // nothing yet\n")]);
    assert_eq!(harness.config(), serde_json::json!({}));
}

#[test]
fn unknown_keys_are_warned_about() {
    let harness = Harness::new().with(&[
        ("project/opencode.json", r#"{ "compaction": { "autoo": true }, "theme": "dark", "keybinds": {} }"#),
        ("project/sub/opencode.json", r#"{ "modle": "a/b", "later": { "x": 1 } }"#),
        ("project/.opencode/command/a.md", "---\nallowed-tools: Bash\n---\nHello"),
    ]);
    assert_eq!(
        harness.told(&harness.load().unwrap().warnings),
        "@/project/opencode.json:1:19: `compaction.autoo` is not a known key; did you mean `auto`?\n\
         @/project/sub/opencode.json:1:3: `modle` is not a known key; did you mean `model`?\n\
         @/project/sub/opencode.json:1:19: `later` is not a known key\n\
         @/project/.opencode/command/a.md:2:1: `allowed-tools` is not a known key; the keys are template, \
         description, agent, model, variant, subtask"
    );
}

#[test]
fn the_format_of_opencode_2_is_refused_with_one_sentence() {
    let told = problems(&[(
        "project/opencode.json",
        r#"{ "providers": {}, "permissions": [], "commands": {}, "mcp": { "servers": {} }, "skills": [1] }"#,
    )]);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("OpenCode 2") && told.contains("`permission`"), "{told}");
}

#[test]
fn deep_nesting_is_survived_or_refused() {
    for depth in [200, 100_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let map = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let text = format!(
            r#"{{ "provider": {{ "a": {{ "options": {{ "x": {deep} }} }} }}, "plugin": [["p", {{ "x": {map} }}]],
                "agent": {{ "a": {{ "x": {map} }} }}, "lsp": {{ "a": {{ "initialization": {{ "x": {deep} }} }} }} }}"#
        );
        let harness = Harness::new().with(&[("project/opencode.json", &text)]);
        assert_eq!(harness.load().is_ok(), depth == 200);
        let harness = Harness::new()
            .with(&[("project/opencode.json", &format!(r#"{{ "permission": {map}, "mcp": {deep} }}"#))]);
        assert!(harness.load().is_err());
    }
}

/// Texts that resemble configurations, or nothing.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(":"),
        Just(","),
        Just("\""),
        Just("\\"),
        Just("\n"),
        Just("// x\n"),
        Just("/*"),
        Just("*/"),
        Just("\"permission\""),
        Just("\"agent\""),
        Just("\"plugin\""),
        Just("\"mcp\""),
        Just("\"type\""),
        Just("\"instructions\""),
        Just("\"tools\""),
        Just("\"mode\""),
        Just("\"*\""),
        Just("\"ask\""),
        Just("\"./a\""),
        Just("1"),
        Just("-0.5e3"),
        Just("1e999"),
        Just("true"),
        Just("null"),
        Just("{env:HOME}"),
        Just("{env:"),
        Just("{file:~/x}"),
        Just("{file:"),
        Just("ü"),
        Just(" "),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// JSON maps with known key names.
fn document() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        prop_oneof![Just("ask"), Just("local"), Just("./a"), Just("a/b"), Just("{env:HOME}")]
            .prop_map(Into::into),
    ];
    let name = prop::sample::select(vec![
        "permission",
        "agent",
        "mode",
        "plugin",
        "mcp",
        "type",
        "command",
        "instructions",
        "tools",
        "bash",
        "*",
        "provider",
        "options",
        "models",
        "apiKey",
        "reference",
        "references",
        "formatter",
        "lsp",
        "autoshare",
        "budget",
        "cost",
        "turn",
        "sandbox",
        "compaction",
        "maxSteps",
        "name",
        "share",
        "skills",
        "paths",
    ]);
    leaf.prop_recursive(4, 30, 4, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from);
        let map = prop::collection::vec((name.clone(), inner), 0..4);
        let map =
            map.prop_map(|pairs| pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        prop_oneof![1 => list, 3 => map.prop_map(serde_json::Value::Object)]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_text_is_too_much(below in text(), above in text()) {
        let harness = Harness::new().set(&[("OPENCODE_CONFIG_CONTENT", &below), ("OPENCODE_PERMISSION", &above)]);
        let _ = harness.load();
    }

    #[test]
    fn a_document_is_used_or_refused_with_reasons(below in document(), above in document()) {
        let harness = Harness::new()
            .with(&[("project/opencode.json", &below.to_string())])
            .set(&[("OPENCODE_CONFIG_CONTENT", &above.to_string())]);
        if let Err(invalid) = harness.load() {
            prop_assert!(!invalid.problems.is_empty());
            // Validated layers merge to something that the types accept.
            let told = harness.told(&invalid.problems);
            prop_assert!(!told.contains("the merged configuration"), "{}", told);
        }
    }
}
