//! Parses models in the format that clients see, in which plugins list the models of a provider.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cost::{Price, Prices, Tier};
use super::fields::{Fields, set};
use super::packed::status;
use super::{ConfigError, Model, Provider};
use crate::dialect::{Abilities, Modalities};

impl Provider {
    /// Replaces the models by this list. Unmentioned values of models that were already there stay unchanged.
    pub fn listing(mut self, models: &Value) -> Result<Self, ConfigError> {
        let before = std::mem::take(&mut self.models);
        let listed = Fields::of(models)?.all()?;
        for (id, fields) in listed {
            let base = before.get(id).cloned().unwrap_or_else(|| Model::new_configured(id));
            let model = described(base, &fields)?;
            let model = self.with_variants(model, &fields)?;
            self.models.insert(id.to_owned(), model);
        }
        self.closed = true;
        Ok(self)
    }

    /// Replaces the prices of some models.
    pub fn priced(mut self, costs: &Value) -> Result<Self, ConfigError> {
        for (id, cost) in Fields::of(costs)?.all()? {
            if let Some(model) = self.models.get_mut(id) {
                model.prices = prices(&cost)?;
            }
        }
        Ok(self)
    }

    /// Replaces the variants of a model, if the list mentions any.
    fn with_variants(&self, mut model: Model, fields: &Fields<'_>) -> Result<Model, ConfigError> {
        if fields.get("variants").is_none() {
            return Ok(model);
        }
        let named = fields.each("variants")?.into_iter().map(|(name, it)| (name.to_owned(), it.rest(&[])));
        let named: BTreeMap<_, _> = named.collect();
        let others = self.variants(&model).into_keys().filter(|name| !named.contains_key(name));
        let others: Vec<String> = others.collect();
        model.variants = named.into_iter().map(|(name, settings)| (name, Some(settings))).collect();
        model.variants.extend(others.into_iter().map(|name| (name, None)));
        Ok(model)
    }
}

fn described(mut model: Model, fields: &Fields<'_>) -> Result<Model, ConfigError> {
    let api = fields.inner("api")?;
    set(&mut model.api_id, api.filled("id")?);
    set(&mut model.name, fields.text("name")?);
    set(&mut model.released, fields.text("release_date")?);
    model.npm = api.filled("npm")?.or(model.npm);
    model.url = api.filled("url")?.or(model.url);
    model.family = fields.filled("family")?.or(model.family);
    model.limit = model.limit.configured(&fields.inner("limit")?)?;
    if fields.get("cost").is_some() {
        model.prices = prices(&fields.inner("cost")?)?;
    }
    let capabilities = fields.inner("capabilities")?;
    model.abilities = abilities(&capabilities, model.abilities)?;
    if let Some(Value::Object(_)) = capabilities.get("interleaved") {
        model.reasoning_field = capabilities.inner("interleaved")?.text("field")?;
    }
    set(&mut model.status, fields.text("status")?.map(|name| status(Some(&name))));
    set(&mut model.options, fields.map("options")?);
    set(&mut model.headers, fields.headers()?);
    Ok(model)
}

fn abilities(fields: &Fields<'_>, before: Abilities) -> Result<Abilities, ConfigError> {
    Ok(Abilities {
        temperature: fields.flag("temperature")?.unwrap_or(before.temperature),
        reasoning: fields.flag("reasoning")?.unwrap_or(before.reasoning),
        attachment: fields.flag("attachment")?.unwrap_or(before.attachment),
        tools: fields.flag("toolcall")?.unwrap_or(before.tools),
        input: kinds(&fields.inner("input")?, before.input)?,
        output: kinds(&fields.inner("output")?, before.output)?,
    })
}

fn kinds(fields: &Fields<'_>, before: Modalities) -> Result<Modalities, ConfigError> {
    Ok(Modalities {
        text: fields.flag("text")?.unwrap_or(before.text),
        image: fields.flag("image")?.unwrap_or(before.image),
        pdf: fields.flag("pdf")?.unwrap_or(before.pdf),
        audio: fields.flag("audio")?.unwrap_or(before.audio),
        video: fields.flag("video")?.unwrap_or(before.video),
    })
}

fn prices(fields: &Fields<'_>) -> Result<Prices, ConfigError> {
    let over_200k = match fields.get("experimentalOver200K") {
        Some(_) => Some(price(&fields.inner("experimentalOver200K")?)?),
        None => None,
    };
    let tiers = fields.items("tiers")?.into_iter();
    let tiers = tiers.map(|tier| {
        let above = tier.inner("tier")?.count("size")?.unwrap_or(0);
        Ok(Tier { above, price: price(&tier)? })
    });
    let mut tiers = tiers.collect::<Result<Vec<_>, ConfigError>>()?;
    tiers.sort_by_key(|tier| tier.above);
    Ok(Prices { base: price(fields)?, over_200k, tiers })
}

fn price(fields: &Fields<'_>) -> Result<Price, ConfigError> {
    let cache = fields.inner("cache")?;
    Ok(Price {
        input: fields.number("input")?.unwrap_or(0.0),
        output: fields.number("output")?.unwrap_or(0.0),
        cache_read: cache.number("read")?.unwrap_or(0.0),
        cache_write: cache.number("write")?.unwrap_or(0.0),
    })
}
