//! Configuration of providers and models.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::catalogue::Status;
use crate::{Deadlines, Secret};

#[test]
fn an_unlisted_provider_can_be_configured() {
    let acme = configured(
        Provider::named("acme"),
        &json!({
            "name": "Acme", "npm": "@ai-sdk/openai-compatible", "env": ["ACME_KEY"],
            "options": {
                "baseURL": "https://acme.test/v1", "apiKey": "sk-acme-0001", "headers": { "X-Team": "blue" },
                "timeout": false, "headerTimeout": 1000, "chunkTimeout": 2000, "setCacheKey": true,
                "queryParams": { "api-version": "7" }, "organization": "org",
            },
            "models": { "large": {
                "id": "large-1", "name": "Large", "family": "acme", "release_date": "2026-01-01",
                "attachment": true, "reasoning": true, "temperature": true, "tool_call": false,
                "cost": { "input": 1, "output": 2, "cache_read": 0.1, "context_over_200k": { "input": 3 } },
                "limit": { "context": 1000, "input": 900, "output": 100 },
                "modalities": { "input": ["text", "image"], "output": ["text"] },
                "interleaved": { "field": "reasoning_content" }, "status": "beta",
                "options": { "x": 1 }, "headers": { "x-model": "yes" },
                "provider": { "npm": "@ai-sdk/anthropic", "api": "https://acme.test/anthropic" },
                "variants": { "deep": { "reasoningEffort": "high" }, "low": { "disabled": true } },
            } },
        }),
    );
    assert_eq!(acme.name, "Acme");
    assert_eq!(acme.key, Some(Secret::new("sk-acme-0001")));
    assert_eq!(acme.headers.get("x-team"), Some("blue"));
    assert_eq!(acme.headers.get("openai-organization"), Some("org"));
    assert_eq!(acme.deadlines.headers, Duration::from_secs(1));
    assert_eq!(acme.deadlines.next_chunk, Duration::from_secs(2));
    assert_eq!(acme.deadlines.total, Duration::from_hours(24), "no limit is a day");
    assert!(acme.names_conversations);
    let large = &acme.models["large"];
    assert_eq!((large.api_id.as_str(), large.npm.as_deref()), ("large-1", Some("@ai-sdk/anthropic")));
    assert_eq!((large.limit.context, large.limit.input, large.limit.output), (1000, Some(900), 100));
    assert!(large.abilities.input.image && !large.abilities.input.pdf && !large.abilities.tools);
    assert_eq!(large.status, Status::Beta);
    assert_eq!(large.reasoning_field.as_deref(), Some("reasoning_content"));
    assert_eq!(large.prices.at(100).input.to_string(), "1");
    assert_eq!(large.prices.at(200_001).input.to_string(), "3");
    assert_eq!(large.prices.at(200_001).output.to_string(), "2", "the rest of a price stays");
    let variants = acme.variants(large);
    assert!(variants.contains_key("deep") && !variants.contains_key("low"));
}

#[test]
fn a_known_provider_keeps_unmentioned_values() {
    let before = provider("anthropic");
    let after = configured(
        before.clone(),
        &json!({
            "options": { "baseURL": "https://proxy.test/v1" },
            "models": {
                "claude-haiku-4-5": { "limit": { "context": 1 }, "options": { "effort": "low" } },
                "claude-next": { "name": "Next" },
            },
        }),
    );
    let (old, new) = (&before.models["claude-haiku-4-5"], &after.models["claude-haiku-4-5"]);
    assert_eq!((new.limit.context, new.limit.output), (1, old.limit.output));
    assert_eq!(new.prices, old.prices);
    assert_eq!(new.options["effort"], "low");
    assert_eq!(after.models.len(), before.models.len() + 1);
    assert_eq!(after.deadlines, Deadlines::default());
    let aim = after.with_key(Secret::new("k")).aim(&request("claude-next")).unwrap();
    assert_eq!(aim.endpoint.url, "https://proxy.test/v1");
}

#[test]
fn whitelist_and_blacklist_select_the_models() {
    let only =
        configured(provider("anthropic"), &json!({ "whitelist": ["claude-haiku-4-5", "claude-opus-5"] }));
    assert_eq!(only.models.len(), 2);
    let without = configured(only, &json!({ "blacklist": ["claude-opus-5"] }));
    assert_eq!(without.models.keys().collect::<Vec<_>>(), ["claude-haiku-4-5"]);
    assert!(!without.knows("claude-opus-5"));
}

#[test]
fn invalid_keys_are_named() {
    let mistake = |entry: Value| Provider::named("acme").configured(&entry).unwrap_err().to_string();
    assert_eq!(mistake(json!(7)), "`` should be an object");
    assert_eq!(mistake(json!({ "env": "KEY" })), "`env` should be a list of texts");
    assert_eq!(
        mistake(json!({ "options": { "timeout": "soon" } })),
        "`options.timeout` should be a number of milliseconds, or false"
    );
    assert_eq!(
        mistake(json!({ "models": { "a": { "limit": { "context": "much" } } } })),
        "`models.a.limit.context` should be a number of tokens"
    );
    assert_eq!(
        mistake(json!({ "models": { "a": { "variants": { "b": 1 } } } })),
        "`models.a.variants.b` should be an object"
    );
    let unknown = json!({ "future": { "key": 1 }, "name": null });
    assert_eq!(configured(Provider::named("acme"), &unknown), Provider::named("acme"));
}

#[test]
fn keys_come_from_the_environment_unless_configured() {
    let only = |wanted: &'static str| move |name: &str| (name == wanted).then(|| " k-123 ".to_owned());
    let google = provider("google");
    assert!(!google.is_usable());
    let found = google.clone().with_environment(&only("GEMINI_API_KEY"));
    assert_eq!(found.key, Some(Secret::new("k-123")));
    assert!(found.is_usable());
    let kept = google.with_key(Secret::new("mine")).with_environment(&only("GEMINI_API_KEY"));
    assert_eq!(kept.key, Some(Secret::new("mine")));
    let azure = provider("azure").with_environment(&only("AZURE_RESOURCE_NAME"));
    assert_eq!(azure.key, None, "a name is not a key");
    let bedrock = provider("amazon-bedrock").with_environment(&only("AWS_ACCESS_KEY_ID"));
    assert_eq!(bedrock.key, None, "half a key is not a key");
    assert_eq!(provider("anthropic").with_environment(&|_| Some("  ".to_owned())).key, None);
}

#[test]
fn debug_output_shows_no_secret() {
    let entry = json!({ "options": {
        "apiKey": "sk-secret-1", "authToken": "sk-secret-2", "baseURL": "https://u:sk-secret-3@x.test",
        "headers": { "authorization": "sk-secret-4" } } });
    let provider = configured(Provider::named("acme"), &entry);
    let aim = provider.aim(&request("any")).unwrap();
    let shown = format!("{provider:?} {aim:?}");
    assert!(!shown.contains("sk-secret"), "{shown}");
}
