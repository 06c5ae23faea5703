//! The providers of a directory: keys, order, and the reason why one cannot be used.

use protocol::{config::Secret, login::Login};
use serde_json::{Value, json};
use server::Instances;

use super::harness::Harness;

const KEY: &str = "sk-0123456789";

fn api_key(key: &str) -> Login {
    serde_json::from_value(json!({ "type": "api", "key": Secret::new(key).reveal() })).unwrap()
}

/// A provider that needs no key, because its server is on this machine.
fn local() -> Value {
    json!({
        "npm": "@ai-sdk/openai-compatible", "options": { "baseURL": "http://127.0.0.1:9/v1" }, "models": { "m": {} },
    })
}

#[tokio::test]
async fn a_provider_is_usable_by_configuration_login_or_key_in_this_order() {
    let harness = Harness::with_variables(&[("ANTHROPIC_API_KEY", KEY)]);
    let plain = harness.project("plain", &json!({}));
    assert_eq!(harness.provider_ids(&plain).await, ["anthropic", "demo"]);
    harness.directories.log_in("openai", Some(api_key("sk-openai"))).await.unwrap();
    assert_eq!(harness.provider_ids(&plain).await, ["openai", "anthropic", "demo"]);
    harness.configure_user(&json!({ "provider": { "near": local() } }));
    assert_eq!(harness.provider_ids(&plain).await, ["near", "openai", "anthropic", "demo"]);
    assert_eq!(harness.resolve(&plain, None).await.unwrap().model.provider_id, "near");

    let disabled = harness.project("disabled", &json!({ "disabled_providers": ["near", "openai"] }));
    assert_eq!(harness.provider_ids(&disabled).await, ["anthropic", "demo"]);
    let enabled = harness.project("enabled", &json!({ "enabled_providers": ["openai"] }));
    assert_eq!(harness.provider_ids(&enabled).await, ["openai", "demo"]);

    harness.directories.log_in("openai", None).await.unwrap();
    assert_eq!(harness.provider_ids(&plain).await, ["near", "anthropic", "demo"]);
}

#[tokio::test]
async fn keys_are_neither_listed_nor_inherited() {
    let harness = Harness::with_variables(&[("ANTHROPIC_API_KEY", KEY), ("HARMLESS", "yes")]);
    let directory = harness.project("p", &json!({}));
    let instance = harness.instance(&directory).await;
    let hides = |name: &str| instance.hidden.iter().any(|hidden| hidden == name);
    assert!(hides("ANTHROPIC_API_KEY") && hides("BATON_PASSWORD") && !hides("HARMLESS"));
    let listed = serde_json::to_string(&instance.providers).unwrap();
    assert!(!listed.contains(KEY) && !instance.config.to_string().contains(KEY));
}

#[tokio::test]
async fn a_model_that_cannot_be_used_is_refused_with_the_remedy() {
    let harness = Harness::new();
    harness.configure_user(&json!({ "provider": { "far": { "npm": "unheard-of" } } }));
    let directory = harness.project("p", &json!({ "disabled_providers": ["mistral"] }));
    for (model, words) in [
        ("openai/gpt-5", vec!["OPENAI_API_KEY", "PUT /auth/openai"]),
        ("mistral/large", vec!["switched off", "disabled_providers"]),
        ("far/m", vec!["far is configured", "missing"]),
        ("codex/default", vec!["not installed", "baton agents"]),
        ("unknown/m", vec!["no provider \"unknown\""]),
        ("demo/no-such-scenario", vec!["demo has no such model"]),
    ] {
        let refused = harness.resolve(&directory, Some(model)).await.unwrap_err().to_string();
        assert!(words.iter().all(|word| refused.contains(word)), "{model}: {refused}");
    }
}

#[tokio::test]
async fn ollama_is_usable_without_configuration_unless_it_is_switched_off() {
    let harness = Harness::new();
    let (on, off) = (
        harness.project("on", &json!({})),
        harness.project("off", &json!({ "disabled_providers": ["ollama"] })),
    );
    assert!(harness.resolve(&on, Some("ollama/qwen3")).await.is_ok());
    assert!(harness.resolve(&off, Some("ollama/qwen3")).await.is_err());
}

#[tokio::test]
async fn a_configured_model_that_cannot_be_used_is_refused_and_not_replaced() {
    let harness = Harness::with_variables(&[("ANTHROPIC_API_KEY", KEY)]);
    for (model, word) in [
        ("openai/gpt-5", "has no key"),
        ("anthropic/no-such-model", "has no such model"),
        ("claude", "provider/model"),
    ] {
        let directory = harness.project(&model.replace('/', "-"), &json!({ "model": model }));
        let refused = harness.resolve(&directory, None).await.unwrap_err().to_string();
        assert!(refused.contains(model) && refused.contains(word), "{model}: {refused}");
    }
}

#[tokio::test]
async fn providers_without_a_key_are_listed_apart_from_usable_ones() {
    let harness = Harness::with_variables(&[("ANTHROPIC_API_KEY", KEY)]);
    let directory = harness.project("p", &json!({ "disabled_providers": ["mistral"] }));
    let others = harness.directories.others(&directory).await.unwrap();
    let count = |id: &str| others.iter().filter(|other| other.id == id).count();
    assert_eq!([count("openai"), count("anthropic"), count("mistral")], [1, 0, 0]);
}
