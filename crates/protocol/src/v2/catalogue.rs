//! Agents, commands, models, providers and their credentials, in the shapes of `/api`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with_macros::skip_serializing_none;

use super::session::Model;
use crate as v1;
use crate::{
    Extra, Millis,
    agent::AgentMode,
    number::Number,
    provider::{self, CacheCost, Modalities, ModelStatus, ProviderSource},
    request::Action,
    secret,
};

/// Additions to every request to a model. Secrets are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestInfo {
    pub headers: BTreeMap<String, String>,
    /// Fields of the request body.
    pub body: Extra,
}

impl RequestInfo {
    fn new(headers: &Extra, body: &Extra) -> Self {
        Self { headers: texts(headers), body: visible(body) }
    }
}

fn visible(fields: &Extra) -> Extra {
    match secret::without_secrets(&Value::Object(fields.clone())) {
        Value::Object(fields) => fields,
        _ => Extra::new(),
    }
}

fn texts(fields: &Extra) -> BTreeMap<String, String> {
    let text = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
    visible(fields).into_iter().filter_map(text).collect()
}

/// An agent that can answer prompts.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Agent")]
pub struct Agent {
    /// Name, which is also the id.
    pub id: String,
    /// Default model, if the agent has one.
    pub model: Option<Model>,
    /// Additions to the agent's model requests.
    pub request: RequestInfo,
    /// System prompt of the agent.
    pub system: Option<String>,
    pub description: Option<String>,
    /// The callers that may select the agent: users, other agents or both.
    pub mode: AgentMode,
    /// True if clients leave the agent out of their lists.
    pub hidden: bool,
    /// Display colour: `#rrggbb` or a theme colour such as `primary`.
    pub color: Option<String>,
    /// Maximum number of steps per turn.
    pub steps: Option<u32>,
    /// Permission rules. Of the rules that match, the last one wins.
    pub permissions: Vec<Rule>,
}

/// A permission rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Rule")]
pub struct Rule {
    /// Permission, such as `bash`; wildcards allowed.
    pub action: String,
    /// Resource, such as a command or a path; wildcards allowed.
    pub resource: String,
    pub effect: Action,
}

impl From<v1::request::Rule> for Rule {
    fn from(rule: v1::request::Rule) -> Self {
        Self { action: rule.permission, resource: rule.pattern, effect: rule.action }
    }
}

impl From<v1::agent::Agent> for Agent {
    fn from(agent: v1::agent::Agent) -> Self {
        let variant = agent.variant;
        let model =
            agent.model.map(|model| Model { id: model.model_id, provider_id: model.provider_id, variant });
        let mut request = RequestInfo::new(&Extra::new(), &agent.options);
        for (name, number) in [("temperature", agent.temperature), ("topP", agent.top_p)] {
            request.body.extend(number.map(|number| (name.to_owned(), number.0.into())));
        }
        Self {
            id: agent.name,
            model,
            request,
            system: agent.prompt,
            description: agent.description,
            mode: agent.mode,
            hidden: agent.hidden.unwrap_or_default(),
            color: agent.color,
            steps: agent.steps,
            permissions: agent.permission.into_iter().map(Rule::from).collect(),
        }
    }
}

/// A slash command.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Command")]
pub struct Command {
    /// Name without the slash.
    pub name: String,
    /// Prompt text, with placeholders such as `$1` and `$ARGUMENTS`.
    pub template: String,
    pub description: Option<String>,
    /// Agent that runs the command.
    pub agent: Option<String>,
    /// Model that runs the command.
    pub model: Option<Model>,
    /// Runs the command in a subagent.
    pub subtask: Option<bool>,
}

impl From<v1::agent::Command> for Command {
    fn from(command: v1::agent::Command) -> Self {
        let v1::agent::Command { name, template, description, agent, model, subtask, .. } = command;
        let model = model.as_deref().and_then(|model| model.split_once('/'));
        let model = model.map(|(provider, id)| Model {
            id: id.to_owned(),
            provider_id: provider.to_owned(),
            variant: None,
        });
        Self { name, template, description, agent, model, subtask }
    }
}

/// API of a provider or model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ApiInfo {
    /// An API for which OpenCode has a package.
    AiSdk {
        /// Name of the model in the provider's API. Absent for providers.
        id: Option<String>,
        /// Package with which OpenCode calls the API. It determines the dialect.
        package: String,
        /// Base URL of the API.
        url: Option<String>,
        /// Settings without secrets.
        settings: Extra,
    },
    /// An API that the server calls itself.
    Native {
        /// Name of the model. Absent for providers.
        id: Option<String>,
        /// Base URL of the API.
        url: Option<String>,
        /// Settings without secrets.
        settings: Extra,
    },
}

impl ApiInfo {
    fn new(api: Option<&provider::ModelApi>, id: Option<String>, settings: &Extra) -> Self {
        let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let (url, settings) = (api.and_then(|api| known(&api.url)), visible(settings));
        match api.and_then(|api| known(&api.npm)) {
            Some(package) => Self::AiSdk { id, package, url, settings },
            None => Self::Native { id, url, settings },
        }
    }
}

/// A model provider.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Provider")]
pub struct Provider {
    pub id: String,
    /// Integration that holds the provider's credential. Absent if it needs none.
    #[serde(rename = "integrationID")]
    pub integration_id: Option<String>,
    /// Name that clients display.
    pub name: String,
    pub api: ApiInfo,
    /// Additions to every request.
    pub request: RequestInfo,
}

impl From<&v1::provider::Provider> for Provider {
    fn from(provider: &v1::provider::Provider) -> Self {
        let mut settings = provider.options.clone();
        let headers = match settings.remove("headers") {
            Some(Value::Object(headers)) => headers,
            _ => Extra::new(),
        };
        let api = provider.models.values().next().map(|model| &model.api);
        Self {
            id: provider.id.clone(),
            integration_id: wants_key(provider).then(|| provider.id.clone()),
            name: provider.name.clone(),
            api: ApiInfo::new(api, None, &settings),
            request: RequestInfo::new(&headers, &Extra::new()),
        }
    }
}

/// Returns true if the provider needs a credential.
fn wants_key(provider: &v1::provider::Provider) -> bool {
    !provider.env.is_empty() || provider.source == ProviderSource::Api
}

/// A model of a provider.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2ModelInfo")]
pub struct ModelInfo {
    /// Id within the provider.
    pub id: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    pub family: Option<String>,
    /// Name that clients display.
    pub name: String,
    pub api: ApiInfo,
    pub capabilities: Abilities,
    /// Additions to every request.
    pub request: RequestInfo,
    /// Named sets of settings that users can select.
    pub variants: Vec<VariantInfo>,
    pub time: Released,
    /// Prices: the base price first, then those of larger contexts.
    pub cost: Vec<Cost>,
    pub status: ModelStatus,
    /// True if the model can be used.
    pub enabled: bool,
    /// Context and output limits in tokens.
    pub limit: provider::ModelLimit,
}

/// Capabilities of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Abilities {
    /// True if the model calls tools.
    pub tools: bool,
    /// Accepted content types, such as `text` or `image`.
    pub input: Vec<String>,
    /// Produced content types.
    pub output: Vec<String>,
}

/// A named set of model settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantInfo {
    /// Name of the variant.
    pub id: String,
    /// Additions to every request.
    #[serde(flatten)]
    pub request: RequestInfo,
}

/// Release date of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    /// Start of the release day; 0 if unknown.
    pub released: Millis,
}

/// Price per million tokens.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Cost")]
pub struct Cost {
    /// Context size from which the price applies. Absent for the base price.
    pub tier: Option<provider::TierBound>,
    pub input: Number,
    pub output: Number,
    pub cache: CacheCost,
}

impl From<&v1::provider::Model> for ModelInfo {
    fn from(model: &v1::provider::Model) -> Self {
        let variant = |(id, body): (&String, &Extra)| VariantInfo {
            id: id.clone(),
            request: RequestInfo::new(&Extra::new(), body),
        };
        let can = &model.capabilities;
        Self {
            id: model.id.clone(),
            provider_id: model.provider_id.clone(),
            family: model.family.clone(),
            name: model.name.clone(),
            api: ApiInfo::new(Some(&model.api), Some(model.api.id.clone()), &Extra::new()),
            capabilities: Abilities {
                tools: can.toolcall,
                input: kinds(&can.input),
                output: kinds(&can.output),
            },
            request: RequestInfo::new(&model.headers, &model.options),
            variants: model.variants.iter().flatten().map(variant).collect(),
            time: Released { released: day(&model.release_date) },
            cost: costs(&model.cost),
            status: model.status,
            enabled: true,
            limit: model.limit.clone(),
        }
    }
}

fn kinds(modalities: &Modalities) -> Vec<String> {
    let Modalities { text, audio, image, video, pdf, .. } = modalities;
    let all = [("text", text), ("audio", audio), ("image", image), ("video", video), ("pdf", pdf)];
    all.into_iter().filter(|(_, has)| **has).map(|(name, _)| name.to_owned()).collect()
}

fn costs(cost: &provider::ModelCost) -> Vec<Cost> {
    let usual = Cost { tier: None, input: cost.input, output: cost.output, cache: cost.cache.clone() };
    let larger = cost.tiers.iter().flatten().map(|tier| Cost {
        tier: Some(tier.tier.clone()),
        input: tier.input,
        output: tier.output,
        cache: tier.cache.clone(),
    });
    std::iter::once(usual).chain(larger).collect()
}

/// Returns the start of a day such as `2026-08-14` or of a month such as `2026-08`; 0 for any other text.
fn day(date: &str) -> Millis {
    const DAY: Millis = 24 * 60 * 60 * 1_000;
    /// Days from 0000-03-01 to 1970-01-01.
    const EPOCH: Millis = 719_468;
    let numbers: Option<Vec<Millis>> = date.split('-').map(|number| number.parse().ok()).collect();
    let (year, month, day) = match numbers.as_deref() {
        Some(&[year, month]) => (year, month, 1),
        Some(&[year, month, day]) => (year, month, day),
        _ => return 0,
    };
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return 0;
    }
    // The year starts in March here, so that the leap day is its last day.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    (days - EPOCH) * DAY
}

/// An external service that needs a credential, such as a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Integration {
    /// Id, which is the provider's id.
    pub id: String,
    /// Name that clients display.
    pub name: String,
    /// Supported ways to provide the credential.
    pub methods: Vec<IntegrationMethod>,
    /// Credentials in use.
    pub connections: Vec<Connection>,
}

/// A way to provide a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum IntegrationMethod {
    /// The user enters a key.
    Key,
    /// An environment variable holds the key.
    Env {
        /// Names of the environment variables.
        names: Vec<String>,
    },
}

/// A credential in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Connection {
    /// A stored key or login.
    Credential {
        /// Id. Each integration has one credential, so it is the integration's id.
        id: String,
        /// Name that clients display.
        label: String,
    },
    /// A key in an environment variable.
    Env {
        /// Name of the variable; the first one if there are several.
        name: String,
    },
}

impl Integration {
    /// Returns the integration of a provider, or `None` if the provider needs no credential.
    pub fn of(provider: &v1::provider::Provider) -> Option<Self> {
        if !wants_key(provider) {
            return None;
        }
        let (id, name) = (provider.id.clone(), provider.name.clone());
        let connection = match provider.source {
            ProviderSource::Api => Some(Connection::Credential { id: id.clone(), label: name.clone() }),
            ProviderSource::Env => provider.env.first().map(|name| Connection::Env { name: name.clone() }),
            ProviderSource::Config | ProviderSource::Custom => None,
        };
        let names = provider.env.clone();
        let env = (!names.is_empty()).then_some(IntegrationMethod::Env { names });
        let methods = std::iter::once(IntegrationMethod::Key).chain(env).collect();
        Some(Self { id, name, methods, connections: connection.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn release_dates_are_converted_to_milliseconds() {
        assert_eq!(day("1970-01-01"), 0);
        assert_eq!(day("2024-02-29"), 1_709_164_800_000);
        assert_eq!(day("2026-08"), day("2026-08-01"));
        assert_eq!(day("2026-08-14") - day("2026-08-13"), 86_400_000);
        for odd in ["", "soon", "2026", "2026-13-01", "2026-01-32", "2026-01-01-01", "-1-1-1", "99999-01-01"]
        {
            assert_eq!(day(odd), 0, "{odd}");
        }
    }

    #[test]
    fn a_provider_and_its_models_are_shown_without_secrets() {
        let modalities = json!({ "text": true, "audio": false, "image": true, "video": false, "pdf": false });
        let provider: v1::provider::Provider = serde_json::from_value(json!({
            "id": "acme", "name": "Acme", "source": "api", "env": ["ACME_API_KEY"],
            "options": {
                "apiKey": "sk-1", "timeout": 5, "headers": { "Authorization": "Bearer sk-2", "x-team": "a" },
            },
            "models": { "large": {
                "id": "large", "providerID": "acme", "name": "Large", "status": "active",
                "api": { "id": "large-1", "url": "https://acme.test", "npm": "@ai-sdk/openai" },
                "capabilities": {
                    "temperature": true, "reasoning": true, "attachment": false, "toolcall": true,
                    "input": modalities, "output": modalities, "interleaved": false,
                },
                "cost": {
                    "input": 3, "output": 15, "cache": { "read": 0.3, "write": 3.75 },
                    "tiers": [{
                        "input": 6, "output": 22.5, "cache": { "read": 0.6, "write": 7.5 },
                        "tier": { "type": "context", "size": 200_000 },
                    }],
                },
                "limit": { "context": 200_000, "output": 64_000 }, "release_date": "2026-01-01",
                "options": { "secret": "sk-3" }, "headers": { "x-api-key": "sk-4", "x-feature": "on" },
                "variants": { "high": { "reasoningEffort": "high", "token": "sk-5" } },
            } },
        }))
        .unwrap();
        let models: Vec<ModelInfo> = provider.models.values().map(ModelInfo::from).collect();
        let told = json!([Provider::from(&provider), models, Integration::of(&provider)]);
        assert!(!told.to_string().contains("sk-"), "{told}");
        insta::assert_json_snapshot!(told);
    }

    #[test]
    fn agents_and_commands_keep_their_texts() {
        let agent: v1::agent::Agent = serde_json::from_value(json!({
            "name": "plan", "mode": "primary", "temperature": 0.5, "prompt": "Think.", "variant": "high",
            "permission": [{ "permission": "edit", "pattern": "*", "action": "deny" }],
            "model": { "providerID": "acme", "modelID": "large" }, "options": { "apiKey": "sk-1", "effort": 1 },
        }))
        .unwrap();
        let command: v1::agent::Command = serde_json::from_value(json!({
            "name": "review", "template": "Review $1", "model": "acme/team/large", "hints": ["$1"],
        }))
        .unwrap();
        insta::assert_json_snapshot!(json!([Agent::from(agent), Command::from(command)]));
    }
}
