//! Keys and logins: where they are read, how they are written, and who may read them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use protocol::{config::Secret, login::Login};
use serde_json::{Value, json};

use super::{
    super::{
        Source,
        auth::{AuthFile, Error},
    },
    Harness,
};

fn file(harness: &Harness) -> AuthFile {
    AuthFile::new(&harness.environment, &harness.at("data"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn close(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

const OPENCODES: &str = "me/.local/share/opencode/auth.json";

#[test]
fn logins_are_read_back_and_only_the_owner_can_read_the_file() {
    let harness = Harness::new();
    let file = file(&harness);
    assert_eq!(file.read().unwrap().source, None);
    let login = Login::Oauth {
        refresh: Secret::new("sk-r"),
        access: Secret::new("sk-a"),
        expires: 5,
        account_id: Some("ada".into()),
        enterprise_url: None,
    };
    let site = Login::WellKnown { key: "TOKEN".into(), token: Secret::new("sk-t") };
    file.set("acme", &Login::api("sk-1")).unwrap();
    file.set("other", &login).unwrap();
    file.set("https://site.test/", &site).unwrap();
    file.set("acme", &Login::api("sk-2")).unwrap();
    let auth = file.read().unwrap();
    assert_eq!(auth.entries["acme"], Login::api("sk-2"));
    assert_eq!(auth.entries["other"], login);
    assert_eq!(auth.entries["https://site.test"], site);
    assert_eq!(auth.source, Some(Source::File(harness.at("data/auth.json"))));
    assert_eq!(auth.warnings, []);
    assert!(!format!("{auth:?}{file:?}").contains("sk-"), "{auth:?}");
    assert_eq!((mode(file.path()), mode(&harness.at("data"))), (0o600, 0o700));
    assert!(!harness.at("data/.auth.json.new").exists());
    file.remove("other").unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&fs::read_to_string(file.path()).unwrap()).unwrap(),
        json!({
            "https://site.test": { "type": "wellknown", "key": "TOKEN", "token": "sk-t" },
            "acme": { "type": "api", "key": "sk-2" },
        })
    );
}

#[test]
fn opencodes_file_is_read_as_long_as_there_is_no_other_and_never_written() {
    let text = r#"{ "acme": { "type": "api", "key": "sk-1", "metadata": { "region": "eu" } }, "new": { "type": "magic" } }"#;
    let harness = Harness::new().with(&[(OPENCODES, text)]);
    fs::set_permissions(harness.at(OPENCODES), fs::Permissions::from_mode(0o644)).unwrap();
    let file = file(&harness);
    let auth = file.read().unwrap();
    assert_eq!(auth.entries.keys().collect::<Vec<_>>(), ["acme"]);
    assert_eq!(
        harness.told(&auth.warnings),
        format!(
            "@/{OPENCODES}: other users can read this file (its mode is 644); it belongs to OpenCode, so Baton does not change it\n\
             @/{OPENCODES}: the entry of `new` is not a valid login; ignoring it"
        )
    );
    assert_eq!(mode(&harness.at(OPENCODES)), 0o644);
    // A change copies all entries, also those that are not valid.
    file.set("other", &Login::api("sk-2")).unwrap();
    assert_eq!(fs::read_to_string(harness.at(OPENCODES)).unwrap(), text);
    let own: Value = serde_json::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap();
    assert_eq!(own["acme"], json!({ "type": "api", "key": "sk-1", "metadata": { "region": "eu" } }));
    assert_eq!(own["new"], json!({ "type": "magic" }));
    assert_eq!(file.read().unwrap().source, Some(Source::File(file.path().to_owned())));
}

#[test]
fn a_file_that_others_can_read_is_closed() {
    let harness = Harness::new().with(&[("data/auth.json", "{}")]);
    let file = file(&harness);
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        harness.told(&file.read().unwrap().warnings),
        "@/data/auth.json: other users could read this file (its mode was 640); now only its owner can"
    );
    assert_eq!(mode(file.path()), 0o600);
    assert_eq!(file.read().unwrap().warnings, []);
}

#[test]
fn the_environment_goes_before_the_files() {
    let harness = Harness::new()
        .with(&[("data/auth.json", r#"{ "acme": { "type": "api", "key": "sk-1" } }"#)])
        .set(&[("OPENCODE_AUTH_CONTENT", r#"{ "acme": { "type": "api", "key": "sk-2" } }"#)]);
    close(&harness.at("data/auth.json"));
    let auth = file(&harness).read().unwrap();
    assert_eq!(auth.entries["acme"], Login::api("sk-2"));
    assert_eq!(auth.source, Some(Source::Variable("OPENCODE_AUTH_CONTENT")));
    let harness = harness.set(&[("OPENCODE_AUTH_CONTENT", "sk-3")]);
    let auth = file(&harness).read().unwrap();
    assert_eq!(auth.entries["acme"], Login::api("sk-1"));
    assert_eq!(
        harness.told(&auth.warnings),
        "OPENCODE_AUTH_CONTENT: the text is not a JSON map; ignoring it"
    );
}

#[test]
fn a_broken_file_is_an_error_and_stays_unchanged() {
    let harness = Harness::new().with(&[("data/auth.json", "{ \"acme\": \"sk-1\",\n oops }")]);
    let file = file(&harness);
    for error in [file.read().unwrap_err(), file.set("acme", &Login::api("sk-2")).unwrap_err()] {
        assert_eq!(harness.plain(&error.to_string()), "@/data/auth.json:2:2: the text is not a JSON map");
    }
    assert!(fs::read_to_string(file.path()).unwrap().contains("oops"));
}

#[test]
fn a_broken_file_of_opencode_is_only_a_warning() {
    let harness = Harness::new().with(&[(OPENCODES, "sk-1")]);
    let file = file(&harness);
    assert_eq!(
        harness.told(&file.read().unwrap().warnings),
        format!("@/{OPENCODES}: ignoring OpenCode's keys: @/{OPENCODES}:1:1: the text is not a JSON map")
    );
    file.set("acme", &Login::api("sk-2")).unwrap();
    assert_eq!(file.read().unwrap().warnings, []);
}

#[test]
fn a_crash_while_writing_leaves_the_old_file() {
    let harness = Harness::new().with(&[
        ("data/auth.json", r#"{ "a": { "type": "api", "key": "1" } }"#),
        ("data/.auth.json.new", "{ half"),
    ]);
    let file = file(&harness);
    assert_eq!(file.read().unwrap().entries.len(), 1);
    file.set("b", &Login::api("2")).unwrap();
    assert_eq!(file.read().unwrap().entries.len(), 2);
}

#[test]
fn two_processes_do_not_write_at_once() {
    let harness = Harness::new();
    let file = file(&harness);
    file.set("a", &Login::api("1")).unwrap();
    let lock = fs::File::open(harness.at("data/auth.lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(file.set("b", &Login::api("2")), Err(Error::Busy(_))));
    drop(lock);
    file.set("b", &Login::api("2")).unwrap();
}
