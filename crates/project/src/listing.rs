//! Providers and models as clients list them, without keys.

use drivers::roster::{About, DEFAULT_MODEL};
use llm::{
    catalogue::{self, Price, Status},
    demo::{self, Demo},
    dialect,
};
use protocol::{
    Extra, Rest,
    number::Number,
    provider::{
        CacheCost, Capabilities, CostTier, Interleaved, Modalities, Model, ModelApi, ModelCost, ModelLimit,
        ModelStatus, Provider, ProviderSource, TierBound,
    },
    secret::without_secrets,
};
use serde_json::Value;

use crate::providers::Usable;

/// The limits of the demo models: those of a medium-sized model, so that clients show sensible gauges.
const CONTEXT: u64 = 128_000;
const OUTPUT: u64 = 8_192;

/// Lists these demo models.
pub(crate) fn demo<'m>(demo: &Demo, ids: impl IntoIterator<Item = &'m str>) -> Provider {
    let known = ids.into_iter().filter_map(|id| Some((id, demo.describe(id)?)));
    let models = known.map(|(id, about)| (id.to_owned(), demo_model(id, about)));
    Provider {
        id: demo::PROVIDER.to_owned(),
        name: "Demo".to_owned(),
        source: ProviderSource::Custom,
        env: Vec::new(),
        options: Extra::new(),
        models: models.collect(),
        extra: Extra::new(),
    }
}

/// Lists an external agent as a provider of its own models. Their prices and limits are unknown.
pub(crate) fn external(about: &About) -> Provider {
    let model = |id: &String| {
        let mut model = demo_model(id, &about.name);
        model.provider_id.clone_from(&about.id);
        model.family = Some(about.id.clone());
        model.name = if id == DEFAULT_MODEL { about.name.clone() } else { format!("{} {id}", about.name) };
        model.capabilities.attachment = about.abilities.attachments;
        model.limit = ModelLimit { context: 0, input: None, output: 0, extra: Rest::NONE };
        (id.clone(), model)
    };
    Provider {
        id: about.id.clone(),
        name: about.name.clone(),
        source: ProviderSource::Custom,
        env: Vec::new(),
        options: Extra::new(),
        models: about.models.iter().map(model).collect(),
        extra: Extra::new(),
    }
}

fn demo_model(id: &str, about: &str) -> Model {
    Model {
        id: id.to_owned(),
        provider_id: demo::PROVIDER.to_owned(),
        api: ModelApi { id: id.to_owned(), ..ModelApi::default() },
        name: format!("{id}: {about}"),
        family: Some(demo::PROVIDER.to_owned()),
        capabilities: Capabilities {
            reasoning: true,
            toolcall: true,
            input: Modalities::text(),
            output: Modalities::text(),
            ..Capabilities::default()
        },
        cost: ModelCost::default(),
        limit: ModelLimit { context: CONTEXT, input: None, output: OUTPUT, extra: Rest::NONE },
        status: ModelStatus::Active,
        options: Extra::new(),
        headers: Extra::new(),
        release_date: String::new(),
        variants: None,
        extra: Extra::new(),
    }
}

/// Lists a provider that can be called. `config` is the configuration without secrets.
pub(crate) fn usable(usable: &Usable, config: &Value) -> Provider {
    provider(&usable.provider, usable.source, config)
}

/// Lists a provider of the built-in catalogue, without configuration.
pub(crate) fn catalogue_provider(about: &catalogue::Provider) -> Provider {
    provider(about, ProviderSource::Custom, &Value::Null)
}

/// Lists a provider. Its options come from `config`, which has no secrets, so that no address shows a password.
pub(crate) fn provider(provider: &catalogue::Provider, source: ProviderSource, config: &Value) -> Provider {
    let shown = config.get("provider").and_then(|all| all.get(&provider.id)).unwrap_or(&Value::Null);
    let models = provider.offered().map(|about| (about.id.clone(), described(provider, about, shown)));
    Provider {
        id: provider.id.clone(),
        name: provider.name.clone(),
        source,
        env: provider.env.clone(),
        options: object(shown.get("options")),
        models: models.collect(),
        extra: Extra::new(),
    }
}

fn described(provider: &catalogue::Provider, about: &catalogue::Model, shown: &Value) -> Model {
    let own = shown.get("models").and_then(|all| all.get(&about.id)).unwrap_or(&Value::Null);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let written = text(shown.pointer("/options/baseURL"))
        .or_else(|| text(own.pointer("/provider/api")))
        .or_else(|| about.url.clone().filter(|_| provider.base_url.is_none()))
        .or_else(|| text(shown.get("api")));
    let url = written.or_else(|| provider.url.clone()).unwrap_or_default();
    let npm = about.npm.clone().unwrap_or_else(|| provider.npm.clone());
    let variants = provider.variants(about).into_iter();
    let visible = |settings: Extra| object(Some(&without_secrets(&Value::Object(settings))));
    Model {
        id: about.id.clone(),
        provider_id: provider.id.clone(),
        api: ModelApi { id: about.api_id.clone(), url, npm, extra: Rest::NONE },
        name: about.name.clone(),
        family: about.family.clone(),
        capabilities: Capabilities {
            temperature: about.abilities.temperature,
            reasoning: about.abilities.reasoning,
            attachment: about.abilities.attachment,
            toolcall: about.abilities.tools,
            input: kinds(about.abilities.input),
            output: kinds(about.abilities.output),
            interleaved: about
                .reasoning_field
                .clone()
                .map_or(Interleaved::Plain(false), |field| Interleaved::Field { field, extra: Rest::NONE }),
            extra: Rest::NONE,
        },
        cost: cost(about),
        limit: ModelLimit {
            context: about.limit.context,
            input: about.limit.input,
            output: about.limit.output,
            extra: Rest::NONE,
        },
        status: match about.status {
            Status::Alpha => ModelStatus::Alpha,
            Status::Beta => ModelStatus::Beta,
            Status::Active => ModelStatus::Active,
            Status::Deprecated => ModelStatus::Deprecated,
        },
        options: object(own.get("options")),
        headers: object(own.get("headers")),
        release_date: about.released.clone(),
        variants: Some(variants.map(|(name, settings)| (name, visible(settings))).collect()),
        extra: Extra::new(),
    }
}

fn kinds(kinds: dialect::Modalities) -> Modalities {
    let dialect::Modalities { text, image, pdf, audio, video } = kinds;
    Modalities { text, audio, image, video, pdf, extra: Rest::NONE }
}

fn cost(about: &catalogue::Model) -> ModelCost {
    let plain = |price: Price| ModelCost {
        input: Number(price.input),
        output: Number(price.output),
        cache: cache(price),
        ..ModelCost::default()
    };
    let tiers: Vec<CostTier> = about
        .prices
        .tiers()
        .map(|(above, price)| CostTier {
            input: Number(price.input),
            output: Number(price.output),
            cache: cache(price),
            tier: TierBound { r#type: "context".to_owned(), size: number(above), extra: Rest::NONE },
            extra: Rest::NONE,
        })
        .collect();
    ModelCost {
        tiers: Some(tiers).filter(|tiers| !tiers.is_empty()),
        over_200k: about.prices.over_200k.map(|price| Box::new(plain(price))),
        ..plain(about.prices.base)
    }
}

fn cache(price: Price) -> CacheCost {
    CacheCost { read: Number(price.cache_read), write: Number(price.cache_write), extra: Rest::NONE }
}

fn number(count: u64) -> Number {
    #[expect(clippy::cast_precision_loss, reason = "contexts are far smaller than that")]
    let number = count as f64;
    Number(number)
}

fn object(value: Option<&Value>) -> Extra {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}
