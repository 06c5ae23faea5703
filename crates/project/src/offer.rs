//! The providers and models that clients offer to the user.
//!
//! Clients differ in how they choose a model: some ask the server, others take the first provider and its default. So that
//! all of them start with the same model, the provider of the default model comes first. External agents come last and
//! have no default, because they spend the money of another login. The demo is only offered while there is no provider;
//! its scripted models stay usable by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drivers::roster::External;
use llm::demo::{self, Demo};
use protocol::{config::Config, message::ModelRef, provider::Provider};
use serde_json::Value;

use crate::{listing, providers::Providers};

/// The inputs that decide which models are offered.
pub(crate) struct Inputs<'a> {
    pub(crate) config: &'a Config,
    /// The same configuration without secrets.
    pub(crate) shown: &'a Value,
    pub(crate) providers: &'a Providers,
    pub(crate) external: &'a [Arc<dyn External>],
    pub(crate) demo: &'a Demo,
    /// The model for prompts that name none.
    pub(crate) default: &'a ModelRef,
}

/// The offered providers in order, and the default model of each.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    pub(crate) providers: Vec<Provider>,
    pub(crate) defaults: BTreeMap<String, String>,
}

impl Inputs<'_> {
    pub(crate) fn offer(&self) -> Offer {
        let mut offer = Offer::default();
        for usable in self.providers.listed() {
            let provider = &usable.provider;
            let default = provider.default_model().map(|model| (provider.id.clone(), model.id.clone()));
            offer.defaults.extend(default);
            offer.providers.push(listing::usable(usable, self.shown));
        }
        let demo = self.demo_models();
        if !demo.is_empty() {
            let default = demo.get(demo::BATON).or(demo.first()).map(|model| (*model).to_owned());
            offer.defaults.extend(default.map(|model| (demo::PROVIDER.to_owned(), model)));
            offer.providers.push(listing::demo(self.demo, demo));
        }
        offer.providers.extend(self.external.iter().map(|external| listing::external(external.about())));
        self.prefer_default(&mut offer);
        offer
    }

    /// Puts the provider of the default model first.
    fn prefer_default(&self, offer: &mut Offer) {
        let ModelRef { provider_id, model_id, .. } = self.default;
        offer.providers.sort_by_key(|provider| provider.id != *provider_id);
        let is_offered = |provider: &Provider| {
            provider.id == *provider_id && provider.models.contains_key(model_id.as_str())
        };
        if offer.providers.first().is_some_and(is_offered) {
            offer.defaults.insert(provider_id.clone(), model_id.clone());
        }
    }

    /// Returns the demo models to offer: the tour while there is no provider, and those that the configuration names.
    fn demo_models(&self) -> BTreeSet<&str> {
        let Config { model, small_model, agent, provider, .. } = self.config;
        let agents = agent.values().filter_map(|agent| agent.model.as_ref());
        let chosen = model.iter().chain(small_model).chain(agents).filter_map(|name| {
            let (provider, model) = name.split_once('/')?;
            (provider == demo::PROVIDER).then_some(model)
        });
        let listed = provider.get(demo::PROVIDER).into_iter().flat_map(|demo| demo.models.keys());
        let named =
            chosen.chain(listed.map(String::as_str)).filter(|name| self.demo.describe(name).is_some());
        let tour = self.providers.default_choice().is_none().then_some(demo::BATON);
        named.chain(tour).collect()
    }
}
