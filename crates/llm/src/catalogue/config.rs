//! Configuration of a provider: the entry `provider.<id>` of `opencode.json`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use super::fields::Fields;
use super::packed::{modalities, status};
use super::{Limit, Price, Status};
use crate::dialect::Modalities;
use crate::{CallHeaders, Secret};

/// An invalid value in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` should be {expected}")]
pub struct ConfigError {
    /// Path of the key below the provider's entry.
    pub key: String,
    /// Description of a valid value.
    pub expected: &'static str,
}

/// Configuration of a provider. Absent values stay unchanged.
#[derive(Clone, Default, PartialEq)]
pub struct ProviderConfig {
    pub(super) name: Option<String>,
    pub(super) npm: Option<String>,
    pub(super) url: Option<String>,
    pub(super) env: Option<Vec<String>>,
    pub(super) whitelist: Option<Vec<String>>,
    pub(super) blacklist: Option<Vec<String>>,
    pub(super) key: Option<Secret>,
    /// A token that is sent as a bearer token instead of a key.
    pub(super) token: Option<Secret>,
    pub(super) base_url: Option<String>,
    pub(super) headers: CallHeaders,
    pub(super) query: BTreeMap<String, String>,
    /// Values of placeholders in addresses.
    pub(super) names: BTreeMap<&'static str, String>,
    /// Timeouts of the whole call, of the headers and between chunks.
    pub(super) total: Option<Duration>,
    pub(super) header_wait: Option<Duration>,
    pub(super) chunk_wait: Option<Duration>,
    pub(super) names_conversations: Option<bool>,
    pub(super) completions: Option<bool>,
    pub(super) models: BTreeMap<String, ModelConfig>,
}

/// Configuration of a model. Absent values stay unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelConfig {
    pub(super) api_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) family: Option<String>,
    pub(super) npm: Option<String>,
    pub(super) url: Option<String>,
    pub(super) context: Option<u64>,
    pub(super) input_limit: Option<u64>,
    pub(super) output_limit: Option<u64>,
    pub(super) price: PriceConfig,
    pub(super) over_200k: Option<PriceConfig>,
    pub(super) temperature: Option<bool>,
    pub(super) reasoning: Option<bool>,
    pub(super) attachment: Option<bool>,
    pub(super) tools: Option<bool>,
    pub(super) input: Option<Modalities>,
    pub(super) output: Option<Modalities>,
    pub(super) reasoning_field: Option<String>,
    pub(super) status: Option<Status>,
    pub(super) released: Option<String>,
    pub(super) options: Map<String, Value>,
    pub(super) headers: CallHeaders,
    /// By name; `None` if it is disabled.
    pub(super) variants: BTreeMap<String, Option<Map<String, Value>>>,
}

/// Configuration of a price.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PriceConfig {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl PriceConfig {
    fn read(fields: &Fields<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            input: fields.number("input")?,
            output: fields.number("output")?,
            cache_read: fields.number("cache_read")?,
            cache_write: fields.number("cache_write")?,
        })
    }

    pub(super) fn over(self, price: Price) -> Price {
        Price {
            input: self.input.unwrap_or(price.input),
            output: self.output.unwrap_or(price.output),
            cache_read: self.cache_read.unwrap_or(price.cache_read),
            cache_write: self.cache_write.unwrap_or(price.cache_write),
        }
    }
}

impl ProviderConfig {
    /// Parses the entry of a provider. Ignores unknown keys.
    pub fn read(entry: &Value) -> Result<Self, ConfigError> {
        let fields = Fields::of(entry)?;
        let options = fields.inner("options")?;
        let mut headers: CallHeaders = options.text_map("headers")?.unwrap_or_default().into_iter().collect();
        for (option, header) in [("organization", "openai-organization"), ("project", "openai-project")] {
            if let Some(value) = options.text(option)? {
                headers.set(header, value);
            }
        }
        let mut names = BTreeMap::new();
        if let Some(resource) = options.text("resourceName")? {
            names.insert("AZURE_RESOURCE_NAME", resource.clone());
            names.insert("AZURE_COGNITIVE_SERVICES_RESOURCE_NAME", resource);
        }
        if let Some(region) = options.text("region")? {
            names.insert("AWS_REGION", region);
        }
        let models = fields.each("models")?.into_iter();
        Ok(Self {
            name: fields.text("name")?,
            npm: fields.text("npm")?,
            url: fields.text("api")?,
            env: fields.texts("env")?,
            whitelist: fields.texts("whitelist")?,
            blacklist: fields.texts("blacklist")?,
            key: options.text("apiKey")?.filter(|key| !key.is_empty()).map(Secret::new),
            token: options.text("authToken")?.filter(|token| !token.is_empty()).map(Secret::new),
            base_url: options.text("baseURL")?.filter(|url| !url.is_empty()),
            headers,
            query: options.text_map("queryParams")?.unwrap_or_default(),
            names,
            total: options.wait("timeout")?,
            header_wait: options.wait("headerTimeout")?,
            chunk_wait: options.wait("chunkTimeout")?,
            names_conversations: options.flag("setCacheKey")?,
            completions: options.flag("useCompletionUrls")?,
            models: models
                .map(|(id, model)| Ok((id.to_owned(), ModelConfig::read(&model)?)))
                .collect::<Result<_, ConfigError>>()?,
        })
    }
}

impl ModelConfig {
    fn read(fields: &Fields<'_>) -> Result<Self, ConfigError> {
        let limit = fields.inner("limit")?;
        let cost = fields.inner("cost")?;
        let over_200k = match cost.get("context_over_200k") {
            Some(_) => Some(PriceConfig::read(&cost.inner("context_over_200k")?)?),
            None => None,
        };
        let kinds = fields.inner("modalities")?;
        let provider = fields.inner("provider")?;
        let variants = fields.each("variants")?.into_iter().map(|(name, variant)| {
            let off = variant.flag("disabled")? == Some(true);
            Ok((name.to_owned(), (!off).then(|| variant.rest(&["disabled"]))))
        });
        Ok(Self {
            api_id: fields.text("id")?,
            name: fields.text("name")?,
            family: fields.text("family")?,
            npm: provider.text("npm")?,
            url: provider.text("api")?,
            context: limit.count("context")?,
            input_limit: limit.count("input")?,
            output_limit: limit.count("output")?,
            price: PriceConfig::read(&cost)?,
            over_200k,
            temperature: fields.flag("temperature")?,
            reasoning: fields.flag("reasoning")?,
            attachment: fields.flag("attachment")?,
            tools: fields.flag("tool_call")?,
            input: kinds.texts("input")?.map(|names| modalities(&names)),
            output: kinds.texts("output")?.map(|names| modalities(&names)),
            reasoning_field: match fields.get("interleaved") {
                Some(Value::Object(_)) => fields.inner("interleaved")?.text("field")?,
                _ => None,
            },
            status: fields.text("status")?.map(|name| status(Some(&name))),
            released: fields.text("release_date")?,
            options: fields.map("options")?.unwrap_or_default(),
            headers: fields.text_map("headers")?.unwrap_or_default().into_iter().collect(),
            variants: variants.collect::<Result<_, ConfigError>>()?,
        })
    }

    pub(super) fn limit(&self, limit: Limit) -> Limit {
        Limit {
            context: self.context.unwrap_or(limit.context),
            input: self.input_limit.or(limit.input),
            output: self.output_limit.unwrap_or(limit.output),
        }
    }
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("npm", &self.npm)
            .field("key", &self.key)
            .field("headers", &self.headers)
            .field("models", &self.models.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
