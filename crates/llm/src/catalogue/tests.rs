//! Tests of the catalogue, and of the configuration and environment applied to it.

mod aiming;
mod configuring;
mod described;
mod listing;
mod tuning;

use serde_json::Value;

use super::{Catalogue, Provider};
use crate::{ModelRef, Request};

fn provider(id: &str) -> Provider {
    Catalogue::built_in().unwrap().provider(id).unwrap().expect("a known provider")
}

fn configured(provider: Provider, entry: &Value) -> Provider {
    provider.configured(entry).unwrap()
}

fn request(model: &str) -> Request {
    Request::new(ModelRef::new("any", model))
}

/// An environment in which every variable is set to a value derived from its name.
#[expect(clippy::unnecessary_wraps, reason = "the shape of an environment")]
fn everything(name: &str) -> Option<String> {
    Some(format!("{}-value", name.to_lowercase().replace('_', "-")))
}
