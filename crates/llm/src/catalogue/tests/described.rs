//! Models listed by a plugin.

use serde_json::json;

use super::*;
use crate::catalogue::{Price, Status};

#[test]
fn the_list_replaces_all_models_and_unmentioned_values_stay() {
    let before = provider("anthropic");
    let (id, known) = before.models.iter().next().map(|(id, model)| (id.clone(), model.clone())).unwrap();
    let listed = json!({
        id.clone(): { "name": "Renamed", "cost": { "input": 0, "output": 1, "cache": { "read": 0.5, "write": 0 } } },
        "new": {
            "api": { "id": "new-1", "npm": "@ai-sdk/openai-compatible", "url": "https://acme.test" },
            "capabilities": {
                "toolcall": true, "reasoning": true, "input": { "text": true, "image": true },
                "interleaved": { "field": "reasoning_content" },
            },
            "limit": { "context": 1000, "output": 100 }, "status": "beta", "release_date": "2026-01-01",
            "headers": { "x-model": "new" }, "options": { "x": 1 }, "variants": { "deep": { "effort": "high" } },
            "cost": { "input": 1, "output": 2, "tiers": [{ "input": 3, "output": 4, "tier": { "size": 500 } }] },
        },
    });
    let after = before.listing(&listed).unwrap();
    assert_eq!(after.models.len(), 2);
    let renamed = &after.models[&id];
    assert_eq!((renamed.name.as_str(), renamed.limit), ("Renamed", known.limit));
    let price = Price { input: 0.0, output: 1.0, cache_read: 0.5, cache_write: 0.0 };
    assert_eq!(renamed.prices.base, price);
    let new = &after.models["new"];
    assert_eq!((new.api_id.as_str(), new.status, new.limit.context), ("new-1", Status::Beta, 1000));
    assert!(new.abilities.input.image && new.abilities.reasoning && !new.abilities.attachment);
    assert_eq!(new.reasoning_field.as_deref(), Some("reasoning_content"));
    assert_eq!(new.prices.at(501).input.to_string(), "3");
    assert_eq!(after.variants(new).into_keys().collect::<Vec<_>>(), ["deep"]);
    assert!(!after.knows("any other"));
}

#[test]
fn an_empty_list_of_variants_means_none() {
    let before = provider("anthropic");
    let id =
        before.models.keys().find(|id| !before.variants(&before.models[*id]).is_empty()).unwrap().clone();
    let after = before.listing(&json!({ id.clone(): { "variants": {} } })).unwrap();
    assert!(after.variants(&after.models[&id]).is_empty());
}

#[test]
fn prices_change_for_existing_models() {
    let before = provider("anthropic");
    let id = before.models.keys().next().unwrap().clone();
    let after = before.priced(&json!({ id.clone(): { "input": 7 }, "nobody": { "input": 1 } })).unwrap();
    assert_eq!(after.models[&id].prices.base.input.to_string(), "7");
    assert!(!after.models.contains_key("nobody"));
}

#[test]
fn invalid_values_are_named() {
    let wrong = |models| provider("anthropic").listing(&models).unwrap_err().to_string();
    assert_eq!(
        wrong(json!({ "a": { "limit": { "context": "many" } } })),
        "`a.limit.context` should be a number of tokens"
    );
    assert_eq!(wrong(json!({ "a": 1 })), "`a` should be an object");
}

#[test]
fn a_vouched_provider_needs_no_key() {
    let mut anthropic = provider("anthropic");
    assert!(!anthropic.is_usable());
    anthropic.vouched = true;
    assert!(anthropic.is_usable());
}
