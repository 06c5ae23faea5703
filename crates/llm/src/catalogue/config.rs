//! Applies a configuration to a provider: the entry `provider.<id>` of `opencode.json`.

use serde_json::Value;

use super::fields::{Fields, set};
use super::packed::{modalities, status};
use super::{Limit, Model, Price, Provider};
use crate::dialect::Abilities;
use crate::{Secret, json};

/// Options that are sent as headers.
const HEADERS: [(&str, &str); 2] = [("organization", "openai-organization"), ("project", "openai-project")];

/// Options that fill placeholders in addresses.
const PLACEHOLDERS: [(&str, &str); 3] = [
    ("resourceName", "AZURE_RESOURCE_NAME"),
    ("resourceName", "AZURE_COGNITIVE_SERVICES_RESOURCE_NAME"),
    ("region", "AWS_REGION"),
];

/// An invalid value in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` should be {expected}")]
pub struct ConfigError {
    /// Path of the key below the provider's entry.
    pub key: String,
    /// Description of a valid value.
    pub expected: &'static str,
}

impl Provider {
    /// Applies the entry of a provider. Absent values stay unchanged, and unknown keys are ignored.
    pub fn configured(mut self, entry: &Value) -> Result<Self, ConfigError> {
        let fields = Fields::of(entry)?;
        set(&mut self.name, fields.text("name")?);
        set(&mut self.npm, fields.text("npm")?);
        set(&mut self.env, fields.texts("env")?);
        self.url = fields.text("api")?.or(self.url);
        self.connect(&fields.inner("options")?)?;
        for (id, fields) in fields.each("models")? {
            let model = self.models.remove(id).unwrap_or_else(|| Model::new_configured(id));
            self.models.insert(id.to_owned(), model.configured(&fields)?);
        }
        if let Some(whitelist) = fields.texts("whitelist")? {
            self.models.retain(|id, _| whitelist.contains(id));
            self.closed = true;
        }
        if let Some(blacklist) = fields.texts("blacklist")? {
            self.models.retain(|id, _| !blacklist.contains(id));
        }
        Ok(self)
    }

    /// Applies the connection settings.
    fn connect(&mut self, options: &Fields<'_>) -> Result<(), ConfigError> {
        self.headers.extend(&options.headers()?.unwrap_or_default());
        for (option, header) in HEADERS {
            if let Some(value) = options.text(option)? {
                self.headers.set(header, value);
            }
        }
        if let Some(token) = options.filled("authToken")? {
            self.headers.set("authorization", format!("Bearer {token}"));
        }
        for (option, name) in PLACEHOLDERS {
            if let Some(value) = options.text(option)? {
                self.names.insert(name.to_owned(), value);
            }
        }
        self.key = options.filled("apiKey")?.map(Secret::new).or(self.key.take());
        self.base_url = options.filled("baseURL")?.or(self.base_url.take());
        self.query.extend(options.text_map("queryParams")?.unwrap_or_default());
        set(&mut self.deadlines.total, options.wait("timeout")?);
        set(&mut self.deadlines.headers, options.wait("headerTimeout")?);
        if let Some(chunk) = options.wait("chunkTimeout")? {
            self.deadlines.first_chunk = chunk;
            self.deadlines.next_chunk = chunk;
        }
        set(&mut self.names_conversations, options.flag("setCacheKey")?);
        set(&mut self.completions, options.flag("useCompletionUrls")?);
        Ok(())
    }
}

impl Model {
    /// A model that is in no list, with OpenCode's assumptions about it.
    pub(super) fn new_configured(id: &str) -> Self {
        let text = modalities(&["text"]);
        let abilities = Abilities {
            temperature: false,
            reasoning: false,
            attachment: false,
            tools: true,
            input: text,
            output: text,
        };
        Self { abilities, ..Self::named(id) }
    }

    fn configured(mut self, fields: &Fields<'_>) -> Result<Self, ConfigError> {
        let provider = fields.inner("provider")?;
        set(&mut self.api_id, fields.text("id")?);
        set(&mut self.name, fields.text("name")?);
        set(&mut self.released, fields.text("release_date")?);
        set(&mut self.status, fields.text("status")?.map(|name| status(Some(&name))));
        self.family = fields.text("family")?.or(self.family);
        self.npm = provider.text("npm")?.or(self.npm);
        self.url = provider.text("api")?.or(self.url);
        self.limit = self.limit.configured(&fields.inner("limit")?)?;
        let cost = fields.inner("cost")?;
        self.prices.base = self.prices.base.configured(&cost)?;
        if cost.get("context_over_200k").is_some() {
            let before = self.prices.over_200k.unwrap_or(self.prices.base);
            self.prices.over_200k = Some(before.configured(&cost.inner("context_over_200k")?)?);
        }
        let kinds = fields.inner("modalities")?;
        let abilities = &mut self.abilities;
        set(&mut abilities.temperature, fields.flag("temperature")?);
        set(&mut abilities.reasoning, fields.flag("reasoning")?);
        set(&mut abilities.attachment, fields.flag("attachment")?);
        set(&mut abilities.tools, fields.flag("tool_call")?);
        set(&mut abilities.input, kinds.texts("input")?.map(|names| modalities(&names)));
        set(&mut abilities.output, kinds.texts("output")?.map(|names| modalities(&names)));
        if let Some(Value::Object(_)) = fields.get("interleaved") {
            self.reasoning_field = fields.inner("interleaved")?.text("field")?.or(self.reasoning_field);
        }
        json::merge(&mut self.options, &fields.map("options")?.unwrap_or_default());
        self.headers.extend(&fields.headers()?.unwrap_or_default());
        for (name, variant) in fields.each("variants")? {
            let is_disabled = variant.flag("disabled")? == Some(true);
            self.variants.insert(name.to_owned(), (!is_disabled).then(|| variant.rest(&["disabled"])));
        }
        Ok(self)
    }
}

impl Limit {
    pub(super) fn configured(self, fields: &Fields<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            context: fields.count("context")?.unwrap_or(self.context),
            input: fields.count("input")?.or(self.input),
            output: fields.count("output")?.unwrap_or(self.output),
        })
    }
}

impl Price {
    fn configured(self, fields: &Fields<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            input: fields.number("input")?.unwrap_or(self.input),
            output: fields.number("output")?.unwrap_or(self.output),
            cache_read: fields.number("cache_read")?.unwrap_or(self.cache_read),
            cache_write: fields.number("cache_write")?.unwrap_or(self.cache_write),
        })
    }
}
