//! Provider hooks of plugins, calls through them, and logins.

use std::collections::BTreeMap;

use protocol::login::{AuthorizationMethod, Login, LoginKind};

use super::*;
use crate::host::{Fetch, FetchError, FetchResponse, LoginError};

const ABLE: &str = r#"load:*) answer '{"hooks":["auth","provider"],"models":["acme"],"loaders":["acme"],
    "methods":{"acme":[{"type":"oauth","label":"Browser"},{"type":"api","label":"Key"}]}}';;"#;

fn peer(cases: &str) -> Harness {
    Harness::new(&format!("{}\n{cases}", ABLE.replace('\n', "")))
}

fn acme() -> Value {
    json!({ "id": "acme", "models": { "one": { "id": "one" } } })
}

async fn fetch(host: &Host) -> Fetch {
    host.load(&acme(), PATIENCE).await.remove(0).fetch.unwrap()
}

async fn called(fetch: &Fetch) -> Result<FetchResponse, FetchError> {
    let headers = BTreeMap::from([("x-key".to_owned(), "k".to_owned())]);
    timeout(PATIENCE, fetch.call("https://acme.test/v1", &headers, "{}")).await.unwrap()
}

/// Waits for the process with this number, counted from 1.
async fn reborn(host: &Host, life: u64) {
    let mut state = host.0.shared.state.subscribe();
    let born = state.wait_for(|state| matches!(state, State::Running(running) if running.life == life));
    timeout(PATIENCE, born).await.unwrap().unwrap();
}

async fn read(mut answer: FetchResponse) -> Result<String, FetchError> {
    let mut text = String::new();
    while let Some(piece) = timeout(PATIENCE, answer.body.next()).await.unwrap() {
        text.push_str(&String::from_utf8(piece?).unwrap());
    }
    Ok(text)
}

#[tokio::test]
async fn models_go_through_every_plugin_that_lists_them() {
    let harness = peer(
        r#"provider.models:0:*) answer '{"two":{}}';;
           provider.models:1:*) fail 'no list';;
           provider.models:2:*) case "$line" in *two*) answer '{"two":{},"three":{}}';; esac;;"#,
    );
    let host = harness.started(harness.settings(3)).await;
    assert!(host.listed().contains("acme") && host.loadable().contains("acme"));
    let login = json!({ "type": "api", "key": "sk-1" });
    let models = host.models(acme(), Some(&login), PATIENCE).await;
    assert_eq!(models, Some(json!({ "two": {}, "three": {} })));
    assert_eq!(harness.heard("provider.models")[0]["login"], login);
    assert_eq!(harness.reports(), ["the plugin file:///1.ts failed in its hook provider.models: no list"]);
    assert_eq!(host.models(json!({ "id": "other" }), None, PATIENCE).await, None);
}

#[tokio::test]
async fn a_login_is_read_when_it_is_requested() {
    let harness = peer(
        r#"auth.loader:*) held=$id; say '{"id":9,"method":"auth.get","params":{"provider":"acme"}}';;
           *) case "$line" in
             *'token of acme'*) id=$held; answer '{"options":{"apiKey":"sk-secret-1"},"costs":{"one":{"input":0}}}';;
             *) answer 1;; esac;;"#,
    );
    let host = harness.started(harness.settings(1)).await;
    let loaded = timeout(PATIENCE, host.load(&acme(), PATIENCE)).await.unwrap().remove(0);
    assert_eq!(loaded.options, json!({ "apiKey": "sk-secret-1" }));
    assert_eq!(loaded.costs["one"], json!({ "input": 0 }));
    assert!(loaded.fetch.is_none() && !format!("{loaded:?}").contains("sk-secret-1"));
}

#[tokio::test]
async fn a_provider_hook_that_fails_has_no_effect_and_is_reported_once() {
    for (cases, why) in [
        ("auth.loader:*) fail 'no way';;", "no way"),
        ("auth.loader:*) answer 7;;", "its result has the wrong shape"),
        ("auth.loader:*) ;;", "it takes longer than 0.3 s"),
    ] {
        let harness = peer(cases);
        let host = harness.started(harness.settings(1)).await;
        for _ in 0..2 {
            assert!(host.load(&acme(), Duration::from_millis(300)).await.is_empty());
        }
        let [report] = harness.reports().try_into().unwrap();
        assert!(
            report.starts_with(&format!("the plugin file:///0.ts failed in its hook auth.loader: {why}")),
            "{report}"
        );
    }
}

#[tokio::test]
async fn a_hook_that_ends_the_process_twice_is_not_called_again() {
    let harness = peer("auth.loader:*) exit 3;;");
    let host = harness.started(harness.settings(1)).await;
    for life in 1..3 {
        reborn(&host, life).await;
        assert!(host.load(&acme(), PATIENCE).await.is_empty());
    }
    reborn(&host, 3).await;
    assert!(host.load(&acme(), PATIENCE).await.is_empty());
    assert_eq!(harness.heard("auth.loader").len(), 2);
    assert!(host.life().is_some(), "it lives");
}

const FETCH: &str = r#"auth.loader:*) answer '{"options":{},"costs":{},"fetch":'"$((life + 1))"'}';;"#;

#[tokio::test]
async fn a_call_is_made_by_the_plugin_and_its_answer_comes_in_pieces() {
    let harness = peer(&format!(
        r#"{FETCH}
        fetch:*) answer '{{"status":201,"headers":{{"x-a":"b"}},"answer":5}}';;
        read:*) case $((reads += 1)) in 1) answer '"SGVsbG8="';; 2) answer '"IQ=="';; *) answer null;; esac;;"#
    ));
    let host = harness.started(harness.settings(1)).await;
    let fetch = fetch(&host).await;
    let answer = called(&fetch).await.unwrap();
    assert_eq!((answer.status, answer.headers["x-a"].as_str()), (201, "b"));
    assert_eq!(read(answer).await.unwrap(), "Hello!");
    let call = harness.heard("fetch").remove(0);
    assert_eq!(
        call,
        json!({ "fetch": 1, "url": "https://acme.test/v1", "headers": { "x-key": "k" }, "body": "{}" })
    );
    assert_eq!(harness.heard("close").len(), 0, "it was read to its end");
}

#[tokio::test]
async fn a_dropped_answer_or_call_aborts_it_in_the_plugin() {
    let told = |method: &str| {
        format!(
            r#"{method}:*) say '{{"method":"report","params":{{"where":"{method}","message":"heard"}}}}';;"#
        )
    };
    let harness = peer(&format!(
        r#"{FETCH}
        fetch:*) answer '{{"status":200,"headers":{{}},"answer":5}}';;
        {} {}"#,
        told("close"),
        told("release"),
    ));
    let host = harness.started(harness.settings(1)).await;
    let fetch = fetch(&host).await;
    drop(called(&fetch).await.unwrap());
    harness.reported("failed in close: heard").await;
    drop(fetch);
    harness.reported("failed in release: heard").await;
    assert_eq!(harness.heard("release"), [json!({ "fetch": 1 })]);
}

#[tokio::test]
async fn failures_of_the_plugin_and_of_the_network_differ() {
    for (failed, expected) in [
        (r#"{"failed":"fetch failed","isNetwork":true}"#, FetchError::Network("fetch failed".to_owned())),
        (r#"{"failed":"no token","isNetwork":false}"#, FetchError::Refused("no token".to_owned())),
    ] {
        let harness = peer(&format!("{FETCH}\nfetch:*) answer '{failed}';;"));
        let host = harness.started(harness.settings(1)).await;
        assert_eq!(called(&fetch(&host).await).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_ends_the_answer_and_the_next_one_makes_the_next_call() {
    let harness = peer(&format!(
        r#"{FETCH}
        fetch:*) answer '{{"status":200,"headers":{{}},"answer":5}}';;
        read:*:0) exit 4;;
        read:*) answer null;;"#
    ));
    let host = harness.started(harness.settings(1)).await;
    let fetch = fetch(&host).await;
    assert_eq!(read(called(&fetch).await.unwrap()).await.unwrap_err(), FetchError::Gone);
    reborn(&host, 2).await;
    assert_eq!(read(called(&fetch).await.unwrap()).await.unwrap(), "");
    assert_eq!(harness.heard("fetch")[1]["fetch"], 2, "the plugin was asked again how it calls");
}

#[tokio::test]
async fn a_login_is_begun_and_completed() {
    let harness = peer(
        r#"auth.authorize:*) case "$line" in
             *'"method":1'*) answer '{}';;
             *bad*) answer '{"invalid":{"field":"team","message":"no such team"}}';;
             *) answer '{"begun":{"url":"https://acme.test/in","method":"code","instructions":"go"}}';; esac;;
           auth.callback:*) case "$line" in
             *wrong*) answer '{"state":"failed"}';;
             *'"code":"'*) answer '{"state":"success","login":{"type":"oauth","refresh":"r","access":"a","expires":7}}';;
             *acme*) answer '{"state":"codeless"}';;
             *) answer '{"state":"missing"}';; esac;;"#,
    );
    let host = harness.started(harness.settings(1)).await;
    let kinds: Vec<_> = host.methods()["acme"].iter().map(|method| method.r#type).collect();
    assert_eq!(kinds, [LoginKind::Oauth, LoginKind::Api]);
    let begun = host.authorize("acme", 0, None).await.unwrap().unwrap();
    assert_eq!((begun.method, begun.url.as_str()), (AuthorizationMethod::Code, "https://acme.test/in"));
    assert_eq!(host.authorize("acme", 1, None).await, Ok(None));
    let inputs = BTreeMap::from([("team".to_owned(), "bad".to_owned())]);
    let invalid = LoginError::Invalid { field: "team".to_owned(), message: "no such team".to_owned() };
    assert_eq!(host.authorize("acme", 0, Some(&inputs)).await, Err(invalid));
    for (provider, method) in [("acme", 2), ("other", 0)] {
        assert_eq!(host.authorize(provider, method, None).await, Err(LoginError::Unknown));
    }
    assert_eq!(host.complete("other", None).await, Err(LoginError::Missing));
    assert_eq!(host.complete("acme", None).await, Err(LoginError::CodeMissing));
    assert!(matches!(host.complete("acme", Some("wrong")).await, Err(LoginError::Failed(_))));
    let login = host.complete("acme", Some("right")).await.unwrap().unwrap();
    assert!(matches!(login, Login::Oauth { expires: 7, .. }), "{login:?}");
}

#[tokio::test]
async fn every_failure_of_a_login_is_an_immediate_answer() {
    for (cases, why) in [
        ("auth.authorize:*) fail 'nobody home';; auth.callback:*) fail 'nobody home';;", "nobody home"),
        ("auth.authorize:*) ;; auth.callback:*) ;;", "0"),
        (
            r#"auth.authorize:*) answer 7;;
               auth.callback:*) answer '{"state":"success","login":{"type":"api","key":7}}';;"#,
            "shape",
        ),
    ] {
        let harness = peer(cases);
        let mut settings = harness.settings(1);
        let short = Duration::from_millis(300);
        (settings.limits.authorize, settings.limits.login) = (short, short);
        let host = harness.started(settings).await;
        let Err(LoginError::Unusable(begun)) = host.authorize("acme", 0, None).await else {
            panic!("{cases}")
        };
        let Err(LoginError::Failed(completed)) = host.complete("acme", Some("c")).await else {
            panic!("{cases}")
        };
        assert!(begun.contains(why) && completed.contains(why), "{begun} {completed}");
        assert!(!harness.reports().is_empty());
    }
}

#[tokio::test]
async fn a_login_whose_process_dies_has_to_be_begun_again() {
    let harness =
        peer("auth.authorize:*:0) exit 1;; auth.callback:*:1) exit 1;; auth.authorize:*) answer '{}';;");
    let host = harness.started(harness.settings(1)).await;
    assert!(matches!(host.authorize("acme", 0, None).await, Err(LoginError::Unusable(_))));
    reborn(&host, 2).await;
    assert_eq!(host.complete("acme", Some("c")).await, Err(LoginError::Missing));
    reborn(&host, 3).await;
    assert_eq!(host.authorize("acme", 0, None).await, Ok(None));
}
