//! The list itself. These tests report parts of a refreshed list that are not supported yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::*;
use crate::dialect::Dialect;

/// Unsupported packages, with the reason.
const FOREIGN: [&str; 9] = [
    "@ai-sdk/amazon-bedrock",                 // signatures and binary frames of its own
    "@ai-sdk/google-vertex/anthropic",        // accounts of Google's cloud
    "@jerome-benoit/sap-ai-provider-v2",      // a protocol of its own
    "@qvac/ai-sdk-provider",                  // no public address
    "@saladtechnologies-oss/ai-sdk-provider", // no public address
    "ai-gateway-provider",                    // Cloudflare's wrapper around others
    "gitlab-ai-provider",                     // a protocol of its own
    "merge-gateway-ai-sdk-provider",          // a protocol of its own
    "watsonx-ai-provider",                    // tokens that have to be exchanged
];

#[test]
fn the_whole_list_can_be_unpacked_and_nothing_is_lost() {
    let source: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../../../data/models.json")).unwrap();
    let catalogue = Catalogue::built_in().unwrap();
    assert_eq!(catalogue.entries().count(), source.len());
    let mut models = 0;
    for entry in catalogue.entries() {
        let provider = entry.unpack().unwrap();
        let listed = source[&entry.id]["models"].as_object().unwrap();
        assert_eq!(provider.models.len(), listed.len(), "{}", entry.id);
        assert!(!provider.env.is_empty(), "{}", entry.id);
        models += listed.len();
    }
    assert!(models > 8_000, "{models}");
}

#[test]
fn every_package_is_known_or_known_to_be_foreign() {
    let mut unknown = BTreeSet::new();
    let mut known: HashMap<Dialect, usize> = HashMap::new();
    for entry in Catalogue::built_in().unwrap().entries() {
        let provider = entry.unpack().unwrap();
        for model in provider.models.values() {
            match provider.dialect(model) {
                Some(dialect) => *known.entry(dialect).or_default() += 1,
                None => {
                    unknown.insert(model.npm.clone().unwrap_or_else(|| provider.npm.clone()));
                }
            }
        }
    }
    let unexpected: Vec<_> = unknown.iter().filter(|name| !FOREIGN.contains(&name.as_str())).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    let spoken: usize = known.values().sum();
    assert!(spoken > 7_500, "{known:?}");
    assert_eq!(known.len(), 4, "{known:?}");
}

#[test]
fn every_supported_model_has_an_address() {
    for entry in Catalogue::built_in().unwrap().entries() {
        let provider =
            entry.unpack().unwrap().with_environment(&everything).with_key(crate::Secret::new("k"));
        for model in provider.models.values().filter(|model| provider.dialect(model).is_some()) {
            match provider.aim(&request(&model.id)) {
                Ok(aim) => assert!(
                    reqwest::Url::parse(&aim.endpoint.url).is_ok() || aim.endpoint.url.starts_with("neon"),
                    "{}/{}: {}",
                    provider.id,
                    model.id,
                    aim.endpoint.url
                ),
                // Cloudflare's gateway has a separate address for each customer.
                Err(error) => assert_eq!(provider.id, "cloudflare-ai-gateway", "{error}"),
            }
        }
    }
}

#[test]
fn listed_properties_of_a_model_are_read() {
    let anthropic = provider("anthropic");
    assert_eq!(
        (anthropic.name.as_str(), anthropic.env.as_slice()),
        ("Anthropic", &["ANTHROPIC_API_KEY".into()][..])
    );
    let haiku = &anthropic.models["claude-haiku-4-5"];
    assert_eq!(haiku.limit.context, 200_000);
    assert_eq!(haiku.limit.output, 64_000);
    assert!(haiku.abilities.tools && haiku.abilities.reasoning && haiku.abilities.input.pdf);
    assert!(!haiku.abilities.input.video && haiku.abilities.output.text);
    assert_eq!(haiku.released, "2025-10-15");
    let fast = &anthropic.models["claude-opus-5-fast"];
    assert_eq!(fast.api_id, "claude-opus-5");
    let tiered = &provider("302ai").models["gpt-5.4"];
    assert_eq!(tiered.limit.input, Some(922_000));
    let tiers: Vec<u64> = tiered.prices.tiers().map(|(above, _)| above).collect();
    assert_eq!(tiers, [272_000]);
}

#[test]
fn a_step_of_a_real_model_has_its_price() {
    let model = &provider("302ai").models["claude-opus-4-7"];
    let usage = |input| crate::Usage { input, output: 1_000, cache_read: 100_000, ..crate::Usage::default() };
    // 50,000 at 5, 100,000 cached at 0.5, 1,000 at 25, per million each.
    assert_eq!(model.prices.cost(&usage(150_000)).to_string(), "0.325");
    // The same plus 100,000, at the prices of long prompts.
    assert_eq!(model.prices.cost(&usage(250_000)).to_string(), "1.6375");
}

#[test]
fn an_unknown_provider_is_not_found() {
    assert_eq!(Catalogue::built_in().unwrap().provider("unknown").unwrap(), None);
}
