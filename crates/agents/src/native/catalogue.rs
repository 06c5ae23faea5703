//! What is known about models: how much fits, and what it costs.

use std::collections::BTreeMap;

use llm::Usage;
use protocol::message::ModelRef;
use protocol::number::Number;
use protocol::provider::{CacheCost, Model, ModelCost, ModelLimit, Provider};

/// Prompts of more tokens than this have a price of their own at some providers.
const LARGE_PROMPT: u64 = 200_000;

/// Prices are for so many tokens.
const MILLION: f64 = 1e6;

/// Where the loop looks up models. Asked for every step, so that what it knows may change.
pub trait Catalogue: Send + Sync {
    /// What is known about a model; nothing if it is not listed.
    fn facts(&self, model: &ModelRef) -> Option<Facts>;
}

/// What is known about a model. The default is what is known about one that is not listed: nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// How much fits.
    pub limit: ModelLimit,
    /// What it costs.
    pub cost: ModelCost,
}

impl From<&Model> for Facts {
    fn from(model: &Model) -> Self {
        Self { limit: model.limit.clone(), cost: model.cost.clone() }
    }
}

/// Providers by id, as clients list them.
impl Catalogue for BTreeMap<String, Provider> {
    fn facts(&self, model: &ModelRef) -> Option<Facts> {
        self.get(&model.provider_id)?.models.get(&model.model_id).map(Facts::from)
    }
}

/// What a step costs. Reasoning is paid like any other output.
pub(super) fn cost(prices: &ModelCost, usage: Usage) -> Number {
    let (input, output, cache) = row(prices, usage.input);
    let tokens = usage.exclusive();
    let mut sum = Number(0.0);
    for (count, price) in [
        (tokens.input, input),
        (tokens.output.saturating_add(tokens.reasoning), output),
        (tokens.cache_read, cache.read),
        (tokens.cache_write, cache.write),
    ] {
        sum += Number(f64::from(u32::try_from(count).unwrap_or(u32::MAX)) * price.0 / MILLION);
    }
    sum
}

/// The prices that hold for a prompt of this size: those of the highest tier below it, else those for large
/// prompts, else the usual ones.
fn row(prices: &ModelCost, prompt: u64) -> (Number, Number, &CacheCost) {
    let size = f64::from(u32::try_from(prompt).unwrap_or(u32::MAX));
    let tiers = prices.tiers.iter().flatten().filter(|tier| tier.tier.size.0 < size);
    if let Some(tier) = tiers.max_by(|left, right| left.tier.size.0.total_cmp(&right.tier.size.0)) {
        return (tier.input, tier.output, &tier.cache);
    }
    match &prices.over_200k {
        Some(large) if prompt > LARGE_PROMPT => (large.input, large.output, &large.cache),
        _ => (prices.input, prices.output, &prices.cache),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prices() -> ModelCost {
        serde_json::from_value(json!({
            "input": 3, "output": 15, "cache": { "read": 0.3, "write": 3.75 },
            "tiers": [
                { "input": 6, "output": 22.5, "cache": { "read": 0.6, "write": 7.5 },
                  "tier": { "type": "context", "size": 100_000 } },
                { "input": 12, "output": 45, "cache": { "read": 1.2, "write": 15 },
                  "tier": { "type": "context", "size": 500_000 } },
            ],
        }))
        .unwrap()
    }

    fn paid(prices: &ModelCost, input: u64) -> f64 {
        cost(prices, Usage { input, ..Usage::default() }).0
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let usage = Usage {
            input: 1000,
            output: 500,
            reasoning: 200,
            cache_read: 300,
            cache_write: 100,
            total: None,
        };
        // 600 fresh, 500 written (200 of them thinking), 300 from the cache, 100 into it.
        assert_eq!(cost(&prices(), usage), Number(0.001_8 + 0.007_5 + 0.000_09 + 0.000_375));
    }

    #[test]
    fn large_prompts_have_the_prices_of_their_tier() {
        let each = |prompt: u64| Number(paid(&prices(), prompt));
        assert_eq!(each(100_000), Number(0.3));
        assert_eq!(each(100_001), Number(0.600_006));
        assert_eq!(each(600_000), Number(7.2));
        let mut untiered = ModelCost { tiers: None, ..prices() };
        untiered.over_200k = Some(Box::new(ModelCost { input: Number(9.0), ..ModelCost::default() }));
        assert_eq!(Number(paid(&untiered, 200_000)), Number(0.6));
        assert_eq!(Number(paid(&untiered, 400_000)), Number(3.6));
    }

    #[test]
    fn a_model_that_is_not_listed_costs_nothing() {
        let nobody = BTreeMap::<String, Provider>::new();
        assert_eq!(nobody.facts(&ModelRef::new("demo", "simple")), None);
        assert_eq!(Number(paid(&Facts::default().cost, 1_000_000)), Number(0.0));
    }
}
