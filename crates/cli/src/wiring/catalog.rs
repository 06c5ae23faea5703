//! The demo model as clients list it.

use llm::demo::{self, Demo};
use protocol::{
    Extra, Rest,
    message::ModelRef,
    provider::{
        Capabilities, Modalities, Model, ModelApi, ModelCost, ModelLimit, ModelStatus, Provider,
        ProviderSource,
    },
};

/// As a real model of medium size would have it, so that clients show sensible gauges.
const CONTEXT: u64 = 128_000;
const OUTPUT: u64 = 8_192;

/// The provider of the demo models.
pub(super) fn provider(demo: &Demo) -> Provider {
    let models = demo.models().map(|(id, about)| (id.to_owned(), model(id, about)));
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

/// A model as people write it.
pub(super) fn name(model: &ModelRef) -> String {
    format!("{}/{}", model.provider_id, model.model_id)
}

fn model(id: &str, about: &str) -> Model {
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
