//! The JSON inside a message: parsed, or as the text it arrived in.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// Parameters and results of one connection. [`Value`] is parsed; `Box<RawValue>` spares large messages the parsing
/// when they are only forwarded. The default is null.
pub trait Payload: Serialize + DeserializeOwned + Default + fmt::Debug + Send + Sync + 'static {
    /// Encodes a value as a payload.
    fn encode(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error>;

    /// A null payload is left out of a request.
    fn is_null(&self) -> bool;
}

impl Payload for Value {
    fn encode(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::to_value(value)
    }

    fn is_null(&self) -> bool {
        Value::is_null(self)
    }
}

impl Payload for Box<RawValue> {
    fn encode(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value)
    }

    fn is_null(&self) -> bool {
        self.get() == "null"
    }
}
