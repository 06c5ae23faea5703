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
    assert_eq!(harness.provider_ids(&plain).await, ["anthropic"]);
    harness.directories.log_in("openai", Some(api_key("sk-openai"))).await.unwrap();
    assert_eq!(harness.provider_ids(&plain).await, ["openai", "anthropic"]);
    harness.configure_user(&json!({ "provider": { "near": local() } }));
    assert_eq!(harness.provider_ids(&plain).await, ["near", "openai", "anthropic"]);
    assert_eq!(harness.resolve(&plain, None).await.unwrap().model.provider_id, "near");

    let disabled = harness.project("disabled", &json!({ "disabled_providers": ["near", "openai"] }));
    assert_eq!(harness.provider_ids(&disabled).await, ["anthropic"]);
    let enabled = harness.project("enabled", &json!({ "enabled_providers": ["openai"] }));
    assert_eq!(harness.provider_ids(&enabled).await, ["openai"]);

    harness.directories.log_in("openai", None).await.unwrap();
    assert_eq!(harness.provider_ids(&plain).await, ["near", "anthropic"]);
}

/// Returns the provider, the model and the `default` with which a client that takes the first provider begins.
async fn first_choice(harness: &Harness, directory: &str) -> (String, Option<String>, Vec<String>) {
    let instance = harness.instance(directory).await;
    let first = instance.providers[0].id.clone();
    let model = instance.default_models.get(&first).cloned();
    (first, model, instance.default_models.keys().cloned().collect())
}

#[tokio::test]
async fn clients_begin_with_the_default_model_and_not_with_an_external_agent() {
    let harness = Harness::new();
    let agent = json!({ "acp": { "mine": { "command": ["/bin/sh"], "models": ["large"] } } });
    harness.configure_user(&agent);
    let plain = harness.project("plain", &json!({}));
    assert_eq!(harness.provider_ids(&plain).await, ["demo", "acp:mine"]);
    assert_eq!(
        first_choice(&harness, &plain).await,
        ("demo".into(), Some("baton".into()), vec!["demo".into()])
    );
    let resolved = harness.resolve(&plain, None).await.unwrap().model;
    assert_eq!((resolved.provider_id.as_str(), resolved.model_id.as_str()), ("demo", "baton"));

    let chosen = harness.project("chosen", &json!({ "model": "acp:mine/large" }));
    assert_eq!(harness.provider_ids(&chosen).await, ["acp:mine", "demo"]);
    assert_eq!(first_choice(&harness, &chosen).await.1.as_deref(), Some("large"));
    harness.directories.close().await;
}

#[tokio::test]
async fn the_provider_of_the_configured_model_comes_first() {
    let harness = Harness::with_variables(&[("ANTHROPIC_API_KEY", KEY), ("GITHUB_TOKEN", "ghp_1")]);
    harness.configure_user(&json!({ "provider": { "near": local() } }));
    let directory = harness.project("p", &json!({ "model": "anthropic/claude-sonnet-4-5" }));
    let (provider, model, _) = first_choice(&harness, &directory).await;
    assert_eq!((provider.as_str(), model.as_deref()), ("anthropic", Some("claude-sonnet-4-5")));
}

#[tokio::test]
async fn a_key_with_another_purpose_is_not_the_first_choice_of_a_client() {
    let harness = Harness::with_variables(&[("GITHUB_TOKEN", "ghp_1")]);
    let directory = harness.project("p", &json!({}));
    let default = harness.resolve(&directory, None).await.unwrap().model;
    assert_eq!(first_choice(&harness, &directory).await.0, default.provider_id);
}

#[tokio::test]
async fn only_the_tour_of_the_demo_is_listed_and_only_without_a_provider() {
    let harness = Harness::new();
    let models = async |directory: &str| -> Vec<String> {
        let instance = harness.instance(directory).await;
        let demo = instance.providers.iter().find(|provider| provider.id == "demo");
        demo.into_iter().flat_map(|demo| demo.models.keys().cloned()).collect()
    };
    let plain = harness.project("plain", &json!({}));
    assert_eq!(models(&plain).await, ["baton"]);
    assert!(harness.resolve(&plain, Some("demo/retry_429")).await.is_ok(), "usable by name");
    let named = harness.project(
        "named",
        &json!({ "model": "demo/slow:2@1", "provider": { "demo": { "models": { "simple": {}, "none": {} } } } }),
    );
    assert_eq!(models(&named).await, ["baton", "simple", "slow:2@1"]);
    assert_eq!(first_choice(&harness, &named).await.1.as_deref(), Some("slow:2@1"));

    harness.configure_user(&json!({ "provider": { "near": local() } }));
    assert_eq!(models(&plain).await, [""; 0]);
    assert_eq!(models(&named).await, ["simple", "slow:2@1"]);
    assert!(harness.resolve(&plain, Some("demo/simple")).await.is_ok());
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
