//! Positions of keys in the user's own files.

use super::World;
use crate::files::{load_user, locate};

fn described(world: &World, pointer: &str, message: &str) -> String {
    let loaded = load_user(&world.environment).unwrap();
    let problem = locate(&world.environment, &loaded, pointer, message);
    problem.to_string().replace(&*world.root.path().to_string_lossy(), "§")
}

#[test]
fn a_key_is_found_in_the_last_file_that_has_it() {
    let own = "{\n  \"channels\": {\n    \"telegram\": { \"allow\": [\"1\", 2] }\n  }\n}";
    let world = World::new().with(&[
        ("me/.config/opencode/opencode.json", "{\n  \"channels\": { \"listen\": \"x\" }\n}"),
        ("me/.config/opencode/baton.json", own),
    ]);
    assert_eq!(
        described(&world, "/channels/telegram/allow/1", "write the id in quotes"),
        "§/me/.config/opencode/baton.json:3:34: `channels.telegram.allow[1]`: write the id in quotes"
    );
    let listen = described(&world, "/channels/listen", "wrong");
    assert!(listen.starts_with("§/me/.config/opencode/opencode.json:2:27:"), "{listen}");
    let missing = described(&world, "/channels/telegram/token", "missing");
    assert!(missing.starts_with("§/me/.config/opencode/baton.json:3:17:"), "{missing}");
}

#[test]
fn an_unset_variable_is_named() {
    let text = "{\n  \"channels\": {\n    \"telegram\": { \"token\": \"{env:NO_TOKEN}\" }\n  }\n}";
    let world = World::new().with(&[("me/.config/opencode/baton.json", text)]);
    let described = described(&world, "/channels/telegram/token", "it is empty");
    let expected = ":3:28: `channels.telegram.token`: it is empty: the variable NO_TOKEN is not set";
    assert!(described.contains(expected), "{described}");
}
