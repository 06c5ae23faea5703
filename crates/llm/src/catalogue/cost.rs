//! Cost of a step.

use crate::Usage;

/// Prompts longer than this have a higher price at some providers.
const LONG_PROMPT: u64 = 200_000;

/// Prices are integers in this fraction of a dollar, so that sums are exact.
const UNITS: f64 = 1e10;

/// Dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Price {
    /// Uncached prompt tokens.
    pub input: f64,
    /// Answer tokens, including reasoning.
    pub output: f64,
    /// Tokens read from the cache.
    pub cache_read: f64,
    /// Tokens written to the cache.
    pub cache_write: f64,
}

/// A price for larger prompts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tier {
    pub(super) above: u64,
    pub(super) price: Price,
}

/// Prices of a model by prompt size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    pub base: Price,
    /// For prompts of more than 200,000 tokens, where no tier applies.
    pub over_200k: Option<Price>,
    /// In ascending order.
    pub(super) tiers: Vec<Tier>,
}

impl Prices {
    /// Prices for larger prompts, each with its threshold in tokens.
    pub fn tiers(&self) -> impl Iterator<Item = (u64, Price)> {
        self.tiers.iter().map(|tier| (tier.above, tier.price))
    }

    /// The price of a prompt with this many tokens, including cached ones.
    pub fn at(&self, input: u64) -> Price {
        let tier = self.tiers.iter().rev().find(|tier| tier.above < input).map(|tier| tier.price);
        tier.or_else(|| self.over_200k.filter(|_| input > LONG_PROMPT)).unwrap_or(self.base)
    }

    /// Cost of a step in dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let price = self.at(usage.input);
        let tokens = usage.exclusive();
        let sum = [
            (tokens.input, price.input),
            (tokens.output, price.output),
            (tokens.reasoning, price.output),
            (tokens.cache_read, price.cache_read),
            (tokens.cache_write, price.cache_write),
        ]
        .into_iter()
        .map(|(tokens, price)| u128::from(tokens) * units(price))
        .fold(0, u128::saturating_add);
        #[expect(clippy::cast_precision_loss, reason = "the only rounding")]
        let cost = sum as f64 / (UNITS * 1e6);
        cost
    }
}

/// Converts a price to an integer. Invalid prices count as zero.
fn units(price: f64) -> u128 {
    let units = (price * UNITS).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked, and casts saturate"
    )]
    if units.is_finite() && units > 0.0 { u128::from(units as u64) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: f64) -> Price {
        Price { input, output: 0.0, cache_read: 0.0, cache_write: 0.0 }
    }

    #[test]
    fn a_step_costs_its_parts_and_reasoning_costs_as_output() {
        let prices = Prices {
            base: Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 },
            ..Prices::default()
        };
        let usage = Usage {
            input: 1_000_000,
            output: 200_000,
            reasoning: 50_000,
            cache_read: 400_000,
            cache_write: 100_000,
            total: None,
        };
        // 0.5 * 3 + 0.15 * 15 + 0.05 * 15 + 0.4 * 0.3 + 0.1 * 3.75
        assert!((prices.cost(&usage) - 4.995).abs() < f64::EPSILON, "{}", prices.cost(&usage));
        assert!(prices.cost(&Usage::default()).abs() < f64::EPSILON);
    }

    #[test]
    fn sums_are_exact_where_binary_fractions_are_not() {
        let prices = Prices { base: price(0.1), ..Prices::default() };
        let usage = Usage { input: 3, ..Usage::default() };
        // 3 * 0.1 / 1e6 in binary fractions is 3.0000000000000004e-7.
        assert_eq!(prices.cost(&usage).to_string(), "0.0000003");
    }

    #[test]
    fn the_highest_tier_below_the_prompt_applies() {
        let mut prices = Prices { base: price(1.0), over_200k: Some(price(2.0)), tiers: Vec::new() };
        let at = |prices: &Prices, input| prices.at(input).input.to_string();
        assert_eq!([200_000, 200_001].map(|input| at(&prices, input)), ["1", "2"]);
        prices.tiers =
            vec![Tier { above: 128_000, price: price(3.0) }, Tier { above: 272_000, price: price(4.0) }];
        assert_eq!(
            [128_000, 128_001, 272_000, 272_001].map(|input| at(&prices, input)),
            ["1", "3", "3", "4"]
        );
    }

    #[test]
    fn invalid_prices_cost_nothing() {
        for nonsense in [f64::NAN, f64::INFINITY, -1.0] {
            let prices = Prices { base: price(nonsense), ..Prices::default() };
            assert!(prices.cost(&Usage { input: u64::MAX, ..Usage::default() }).abs() < f64::EPSILON);
        }
    }
}
