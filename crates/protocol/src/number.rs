//! Numbers in JavaScript's notation: integers have no fraction, and `NaN` does not occur.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A JSON number, usually a cost. `0.0` is written as `0`, as OpenCode's clients expect.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, JsonSchema)]
#[serde(transparent)]
pub struct Number(pub f64);

/// The largest integer that a double represents exactly. Larger values are written with a fraction.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() <= MAX_SAFE {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
            serializer.serialize_i64(self.0 as i64)
        } else if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_i64(0)
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self)
    }
}

/// Rounds a sum to 12 decimal places, so that sums of costs show no binary rounding errors.
impl std::ops::AddAssign for Number {
    fn add_assign(&mut self, other: Self) {
        const TRILLION: f64 = 1e12;
        let sum = (self.0 + other.0) * TRILLION;
        // A double has no spare precision to round beyond this range.
        self.0 = if sum.abs() <= MAX_SAFE { sum.round() / TRILLION } else { self.0 + other.0 };
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact() {
        let mut sum = Number(0.0);
        for _ in 0..1000 {
            sum += Number(0.1);
        }
        assert_eq!(sum, Number(100.0));
        let mut large = Number(1e9);
        large += Number(0.5);
        assert_eq!(large, Number(1e9 + 0.5));
    }

    #[test]
    fn a_number_prints_as_in_javascript() {
        let shown =
            [0.0, 3.0, 0.008, -1.5, f64::NAN].map(|value| serde_json::to_string(&Number(value)).unwrap());
        assert_eq!(shown, ["0", "3", "0.008", "-1.5", "0"]);
    }
}
