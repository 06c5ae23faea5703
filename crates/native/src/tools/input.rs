//! Parses the input of a call, with some tolerance: models write numbers as text and whole numbers as fractions.

use protocol::Extra;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Parses an input. The error describes the fault.
pub(crate) fn parse<T: DeserializeOwned>(input: &Extra) -> Result<T, String> {
    serde_json::from_value(Value::Object(input.clone())).map_err(|error| error.to_string())
}

/// Parses a whole number that is not negative, or nothing. For use with
/// `#[serde(default, deserialize_with = ...)]`.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    let number = match &value {
        None => return Ok(None),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(_) => String::new(),
    };
    let number = number.strip_suffix(".0").unwrap_or(&number);
    number.parse().map(Some).map_err(|_| D::Error::custom("expected a whole number of at least 0"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Input {
        #[serde(default, deserialize_with = "whole")]
        limit: Option<u64>,
    }

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        let read = |value: Value| {
            parse::<Input>(&Extra::from_iter([("limit".to_owned(), value)])).map(|input| input.limit)
        };
        for value in [json!(5), json!(5.0), json!("5"), json!(" 5 ")] {
            assert_eq!(read(value.clone()), Ok(Some(5)), "{value}");
        }
        assert_eq!(read(Value::Null), Ok(None));
        assert_eq!(parse::<Input>(&Extra::new()).unwrap().limit, None);
        for value in [json!(-1), json!(1.5), json!("many"), json!([5])] {
            assert!(read(value.clone()).is_err(), "{value}");
        }
    }
}
