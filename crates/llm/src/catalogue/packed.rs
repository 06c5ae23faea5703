//! The list of models compiled into the program.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;

use flate2::read::ZlibDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Map;

use super::cost::{Price, Prices, Tier};
use super::{Limit, Model, Provider, Status};
use crate::dialect::{Abilities, Modalities};
use crate::{CallHeaders, Error};

/// Positions of the providers in [`PACKED`].
static INDEX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/models.index"));

/// Compressed models of all providers, one after the other.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/models.packed"));

/// The known providers, about 50 kilobytes. The models of a provider are unpacked on request.
#[derive(Debug, Clone)]
pub struct Catalogue {
    entries: Vec<Entry>,
}

/// Properties of a provider that are available without unpacking its models.
#[derive(Debug, Clone)]
pub struct Entry {
    pub id: String,
    /// Name for display to the user.
    pub name: String,
    /// Environment variables with its key and other settings.
    pub env: Vec<String>,
    npm: String,
    url: Option<String>,
    place: Range<usize>,
}

#[derive(Deserialize)]
struct PackedEntry {
    id: String,
    name: String,
    env: Vec<String>,
    sdk: String,
    url: String,
    from: usize,
    to: usize,
}

#[derive(Deserialize)]
struct PackedModel {
    name: String,
    caps: Vec<String>,
    #[serde(rename = "in")]
    input: Vec<String>,
    #[serde(rename = "out")]
    output_kinds: Vec<String>,
    context: u64,
    input_limit: Option<u64>,
    output: u64,
    cost: (f64, f64, f64, f64),
    cost_over_200k: Option<PackedPrice>,
    #[serde(default)]
    cost_tiers: Vec<PackedTier>,
    family: Option<String>,
    released: String,
    status: Option<String>,
    sdk: Option<String>,
    url: Option<String>,
    api_id: Option<String>,
    reasoning_field: Option<String>,
}

#[derive(Deserialize)]
struct PackedPrice {
    input: f64,
    output: f64,
    cache: PackedCache,
}

#[derive(Deserialize)]
struct PackedCache {
    read: f64,
    write: f64,
}

#[derive(Deserialize)]
struct PackedTier {
    input: f64,
    output: f64,
    cache: PackedCache,
    tier: PackedBound,
}

#[derive(Deserialize)]
struct PackedBound {
    size: u64,
}

impl Catalogue {
    /// The list of this version. Fails only if it was built from an invalid list.
    pub fn built_in() -> Result<Self, Error> {
        let entries: Vec<PackedEntry> = unpack(INDEX)?;
        let entries = entries.into_iter().map(|entry| Entry {
            id: entry.id,
            name: entry.name,
            env: entry.env,
            npm: entry.sdk,
            url: Some(entry.url).filter(|url| !url.is_empty()),
            place: entry.from..entry.to,
        });
        Ok(Self { entries: entries.collect() })
    }

    /// Providers sorted by id.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// A provider with its models.
    pub fn provider(&self, id: &str) -> Result<Option<Provider>, Error> {
        match self.entries.iter().find(|entry| entry.id == id) {
            Some(entry) => entry.unpack().map(Some),
            None => Ok(None),
        }
    }
}

impl Entry {
    /// A provider with its models.
    pub fn unpack(&self) -> Result<Provider, Error> {
        let models: BTreeMap<String, PackedModel> =
            unpack(PACKED.get(self.place.clone()).unwrap_or_default())?;
        Ok(Provider {
            name: self.name.clone(),
            env: self.env.clone(),
            npm: self.npm.clone(),
            url: self.url.clone(),
            models: models.into_iter().map(|(id, model)| (id.clone(), model.into_model(id))).collect(),
            ..Provider::named(&self.id)
        })
    }
}

impl PackedModel {
    fn into_model(self, id: String) -> Model {
        let can = |ability: &str| self.caps.iter().any(|cap| cap == ability);
        let abilities = Abilities {
            temperature: can("temperature"),
            reasoning: can("reasoning"),
            attachment: can("attachment"),
            tools: can("toolcall"),
            input: modalities(&self.input),
            output: modalities(&self.output_kinds),
        };
        let (input, output, cache_read, cache_write) = self.cost;
        let mut tiers: Vec<Tier> = self
            .cost_tiers
            .into_iter()
            .map(|tier| Tier { above: tier.tier.size, price: tier.price() })
            .collect();
        tiers.sort_by_key(|tier| tier.above);
        Model {
            api_id: self.api_id.unwrap_or_else(|| id.clone()),
            id,
            name: self.name,
            family: self.family,
            npm: self.sdk,
            url: self.url,
            limit: Limit { context: self.context, input: self.input_limit, output: self.output },
            prices: Prices {
                base: Price { input, output, cache_read, cache_write },
                over_200k: self.cost_over_200k.map(|price| price.price()),
                tiers,
            },
            abilities,
            status: status(self.status.as_deref()),
            released: self.released,
            options: Map::new(),
            headers: CallHeaders::default(),
            variants: BTreeMap::new(),
            reasoning_field: self.reasoning_field,
        }
    }
}

impl PackedPrice {
    fn price(&self) -> Price {
        Price {
            input: self.input,
            output: self.output,
            cache_read: self.cache.read,
            cache_write: self.cache.write,
        }
    }
}

impl PackedTier {
    fn price(&self) -> Price {
        Price {
            input: self.input,
            output: self.output,
            cache_read: self.cache.read,
            cache_write: self.cache.write,
        }
    }
}

/// Modalities by name.
pub(super) fn modalities<S: AsRef<str>>(names: &[S]) -> Modalities {
    let has = |kind: &str| names.iter().any(|name| name.as_ref() == kind);
    Modalities {
        text: has("text"),
        image: has("image"),
        pdf: has("pdf"),
        audio: has("audio"),
        video: has("video"),
    }
}

pub(super) fn status(name: Option<&str>) -> Status {
    match name {
        Some("alpha") => Status::Alpha,
        Some("beta") => Status::Beta,
        Some("deprecated") => Status::Deprecated,
        _ => Status::Active,
    }
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let broken = |why: String| Error::Other(format!("the built-in list of models is invalid: {why}"));
    let mut text = String::new();
    ZlibDecoder::new(bytes).read_to_string(&mut text).map_err(|error| broken(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| broken(error.to_string()))
}
