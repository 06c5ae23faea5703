//! Positions of keys in the user's own files.

use super::Harness;
use crate::files::{load_user, locate};

fn described(harness: &Harness, pointer: &str, message: &str) -> String {
    let loaded = load_user(&harness.environment).unwrap();
    let problem = locate(&harness.environment, &loaded, pointer, message);
    problem.to_string().replace(&*harness.root.path().to_string_lossy(), "§")
}

#[test]
fn a_key_is_found_in_the_last_file_that_has_it() {
    let own = "{\n  \"channels\": {\n    \"telegram\": { \"allow\": [\"1\", 2] }\n  }\n}";
    let harness = Harness::new().with(&[
        ("me/.config/opencode/opencode.json", "{\n  \"channels\": { \"listen\": \"x\" }\n}"),
        ("me/.config/opencode/baton.json", own),
    ]);
    assert_eq!(
        described(&harness, "/channels/telegram/allow/1", "write the id in quotes"),
        "§/me/.config/opencode/baton.json:3:34: `channels.telegram.allow[1]`: write the id in quotes"
    );
    let listen = described(&harness, "/channels/listen", "wrong");
    assert!(listen.starts_with("§/me/.config/opencode/opencode.json:2:27:"), "{listen}");
    let missing = described(&harness, "/channels/telegram/token", "missing");
    assert!(missing.starts_with("§/me/.config/opencode/baton.json:3:17:"), "{missing}");
}

#[test]
fn an_unset_variable_is_named() {
    let text = "{\n  \"channels\": {\n    \"telegram\": { \"token\": \"{env:NO_TOKEN}\" }\n  }\n}";
    let harness = Harness::new().with(&[("me/.config/opencode/baton.json", text)]);
    let described = described(&harness, "/channels/telegram/token", "it is empty");
    let expected = ":3:28: `channels.telegram.token`: it is empty: the variable NO_TOKEN is not set";
    assert!(described.contains(expected), "{described}");
}
