//! Changes of configuration files, on disk.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use super::*;
use crate::files::{Unchanged, change, load_user};

impl Harness {
    /// Changes the project's configuration, or the user's.
    fn change(&self, of_user: bool, body: &Value) -> Result<Value, Unchanged> {
        let site = (!of_user).then(|| self.site());
        let guard = TrustPolicy::trusting();
        let site = site.as_ref().map(|site| (site, &guard));
        let loaded = change(&self.environment, site, body.as_object().unwrap())?;
        Ok(redacted(&loaded.config))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn the_nearest_file_is_changed_and_says_so_when_it_is_read() {
    let harness = Harness::new().with(&[
        ("project/opencode.json", r#"{ "model": "a/outer" }"#),
        ("project/opencode.jsonc", "{\n  // mine\n  \"model\": \"a/b\"\n}\n"),
    ]);
    let shown = harness.change(false, &json!({ "model": "c/d" })).unwrap();
    assert_eq!(shown["model"], "c/d");
    assert_eq!(harness.config(), shown);
    assert_eq!(harness.text("project/opencode.jsonc"), "{\n  // mine\n  \"model\": \"c/d\"\n}\n");
    assert_eq!(harness.text("project/opencode.json"), r#"{ "model": "a/outer" }"#);
    let harness = harness.with(&[("project/sub/opencode.json", "{}")]);
    harness.change(false, &json!({ "model": "e/f" })).unwrap();
    assert_eq!(
        (harness.config()["model"].as_str(), harness.text("project/opencode.json").len()),
        (Some("e/f"), 22)
    );
}

#[test]
fn without_a_file_one_is_created_for_its_owner_only() {
    let harness = Harness::new();
    let secret = json!({ "provider": { "acme": { "options": { "apiKey": "sk-1" } } } });
    let shown = harness.change(false, &secret).unwrap();
    assert!(!shown.to_string().contains("sk-1"), "{shown}");
    assert!(harness.text("project/sub/opencode.json").contains("sk-1"), "it is kept all the same");
    assert_eq!(harness.mode("project/sub/opencode.json"), 0o600);
    harness.change(true, &json!({ "username": "ada" })).unwrap();
    assert_eq!(harness.mode("me/.config/opencode/opencode.json"), 0o600);
    assert_eq!(harness.config()["username"], "ada");
    let user = redacted(&load_user(&harness.environment).unwrap().config);
    assert_eq!((&user["username"], &user["provider"]), (&json!("ada"), &Value::Null), "of the user only");
}

#[test]
fn links_and_modes_are_kept() {
    let harness = Harness::new().with(&[("me/dotfiles/real.json", "{}")]);
    fs::set_permissions(harness.at("me/dotfiles/real.json"), fs::Permissions::from_mode(0o664)).unwrap();
    fs::create_dir_all(harness.at("me/.config/opencode")).unwrap();
    symlink(harness.at("me/dotfiles/real.json"), harness.at("me/.config/opencode/opencode.json")).unwrap();
    harness.change(true, &json!({ "username": "ada" })).unwrap();
    assert!(harness.at("me/.config/opencode/opencode.json").is_symlink());
    assert!(harness.text("me/dotfiles/real.json").contains("ada"));
    assert_eq!(harness.mode("me/dotfiles/real.json"), 0o664);
    assert_eq!(fs::read_dir(harness.at("me/dotfiles")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn an_invalid_result_is_not_written() {
    let text = "{\n  // mine\n  \"model\": \"a/b\"\n}\n";
    let harness = Harness::new().with(&[("project/opencode.json", text)]);
    let refused = [
        json!({ "modle": "a/b" }),
        json!({ "agent": { "poet": { "mode": "sometimes" } } }),
        json!({ "username": 7 }),
        json!({ "sandbox": "off" }),
        json!({ "webfetch": { "private_addresses": true } }),
        json!({ "permission_final": { "bash": "allow" } }),
        json!({ "username": "x".repeat(2 * 1024 * 1024) }),
    ]
    .map(|body| harness.plain(&harness.change(false, &body).unwrap_err().to_string()));
    insta::assert_snapshot!(refused.join("\n\n"));
    assert_eq!(harness.text("project/opencode.json"), text);
    let broken = Harness::new().with(&[("project/opencode.json", "{ \"model\": }")]);
    let told = broken.plain(&broken.change(false, &json!({ "model": "a/b" })).unwrap_err().to_string());
    assert!(told.contains("@/project/opencode.json:1:"), "{told}");
    assert_eq!(broken.text("project/opencode.json"), "{ \"model\": }");
    let off = Harness::new().set(&[("OPENCODE_DISABLE_PROJECT_CONFIG", "1")]);
    assert!(
        off.change(false, &json!({})).unwrap_err().to_string().contains("OPENCODE_DISABLE_PROJECT_CONFIG")
    );
}

#[test]
fn an_empty_change_writes_nothing() {
    let harness = Harness::new();
    harness.change(false, &json!({})).unwrap();
    harness.change(true, &json!({})).unwrap();
    assert!(!harness.at("project/sub/opencode.json").exists() && !harness.at("me/.config").exists());
}
