//! Default reasoning effort of models, and the efforts that can be selected.
//!
//! The settings are OpenCode's, so that its variants have the same effect here; the dialects place them in the
//! body. No list states which efforts a model accepts, so they are derived from its name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::packages;
use super::{Model, Provider};
use crate::Sampling;
use crate::dialect::Dialect;

/// Efforts in ascending order.
const LADDER: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Efforts that nearly every reasoning model accepts.
const USUAL: [&str; 3] = ["low", "medium", "high"];

/// Families whose effort cannot be selected.
const UNTUNABLE: [&str; 10] = [
    "deepseek-chat",
    "deepseek-reasoner",
    "deepseek-r1",
    "deepseek-v3",
    "minimax",
    "glm",
    "kimi",
    "k2p",
    "qwen",
    "big-pickle",
];

/// Dates from which `OpenAI`'s models accept two more efforts.
const NONE_SINCE: &str = "2025-11-13";
const XHIGH_SINCE: &str = "2025-12-04";

/// Thinking budgets in tokens, for models that take one.
const BUDGET: u64 = 16_000;
const LARGEST_BUDGET: u64 = 31_999;

/// Beta header for Claude's fast mode.
const FAST_CLAUDE: &str = "fast-mode-2026-02-01";

type Settings = Map<String, Value>;

impl Provider {
    /// Variants of a model: those derived from its kind, and the configured ones.
    pub fn variants(&self, model: &Model) -> BTreeMap<String, Settings> {
        let dialect = self.dialect(model);
        let mut variants = dialect.map(|dialect| efforts(self, model, dialect)).unwrap_or_default();
        for (name, own) in &model.variants {
            match own {
                Some(settings) => crate::json::merge(variants.entry(name.clone()).or_default(), settings),
                None => {
                    variants.remove(name);
                }
            }
        }
        variants
    }
}

/// Default settings of a model.
pub(super) fn defaults(provider: &Provider, model: &Model, dialect: Dialect) -> Settings {
    let npm = packages::name(provider, model);
    let id = model.api_id.to_lowercase();
    let mut settings = match dialect {
        Dialect::Responses => responses_defaults(provider, model, npm, &id),
        Dialect::Gemini if model.abilities.reasoning => {
            let mut config = json!({ "includeThoughts": true });
            if id.contains("gemini-3") {
                config = json!({ "includeThoughts": true, "thinkingLevel": "high" });
            }
            object(json!({ "thinkingConfig": config }))
        }
        Dialect::Anthropic if id.contains("minimax-m3") => {
            object(json!({ "thinking": { "type": "adaptive" } }))
        }
        Dialect::Anthropic if id.contains("kimi") && model.abilities.reasoning => {
            object(json!({ "thinking": { "type": "adaptive", "display": "summarized" }, "effort": "high" }))
        }
        Dialect::Chat => chat_defaults(provider, model, npm, &id),
        Dialect::Anthropic | Dialect::Gemini => Settings::new(),
    };
    // Some models are another model with a setting.
    if let Some(mode) = model.id.strip_prefix(model.api_id.as_str()) {
        settings.extend(mode_settings(mode, dialect, &id));
    }
    settings
}

fn responses_defaults(provider: &Provider, model: &Model, npm: &str, id: &str) -> Settings {
    if !model.abilities.reasoning {
        return Settings::new();
    }
    let mut settings = object(json!({ "include": ["reasoning.encrypted_content"] }));
    if npm == "@ai-sdk/xai" {
        return settings;
    }
    // Without a summary the stream is silent while the model reasons.
    if !id.starts_with("o1") && !id.contains("-chat") {
        settings.insert("reasoningSummary".into(), "auto".into());
    }
    if gpt(id).is_some_and(|(major, _)| major >= 5) && !id.contains("-chat") && !id.contains("-pro") {
        settings.insert("reasoningEffort".into(), "medium".into());
    }
    let wordy = id.contains("gpt-5.") && !id.contains("codex") && !id.contains("-chat");
    if wordy && !provider.id.starts_with("azure") {
        settings.insert("textVerbosity".into(), "low".into());
    }
    settings
}

fn chat_defaults(provider: &Provider, model: &Model, npm: &str, id: &str) -> Settings {
    let mut settings = Settings::new();
    if npm == "@openrouter/ai-sdk-provider" {
        settings.insert("usage".into(), json!({ "include": true }));
        if id.contains("gemini-3") {
            settings.insert("reasoning".into(), json!({ "effort": "high" }));
        }
    }
    let thinks = model.abilities.reasoning;
    if thinks && (provider.id.contains("zai") || provider.id.contains("zhipuai")) {
        settings.insert("thinking".into(), json!({ "type": "enabled", "clear_thinking": false }));
    }
    if thinks && provider.id == "alibaba-cn" && !id.contains("kimi-k2-thinking") {
        settings.insert("enable_thinking".into(), true.into());
    }
    if thinks && provider.id == "baseten" {
        settings.insert("chat_template_args".into(), json!({ "enable_thinking": true }));
    }
    settings
}

fn mode_settings(mode: &str, dialect: Dialect, id: &str) -> Settings {
    object(match (mode, dialect) {
        ("-fast", Dialect::Anthropic) => json!({ "speed": "fast", "anthropicBeta": [FAST_CLAUDE] }),
        ("-fast", Dialect::Responses) | ("-priority", _) => json!({ "serviceTier": "priority" }),
        ("-fast", Dialect::Chat) if id.contains("gpt") => json!({ "serviceTier": "priority" }),
        ("-pro", Dialect::Responses) => json!({ "reasoningMode": "pro" }),
        _ => Value::Null,
    })
}

/// The lowest effort of a model, for side calls such as titles.
pub(super) fn least(dialect: Dialect, variants: &BTreeMap<String, Settings>) -> Settings {
    if !matches!(dialect, Dialect::Responses | Dialect::Gemini) {
        return Settings::new();
    }
    LADDER.iter().take(3).find_map(|effort| variants.get(*effort)).cloned().unwrap_or_default()
}

/// Sampling defaults of models whose makers recommend some.
pub(super) fn sampling(model: &Model, wanted: Sampling) -> Sampling {
    let id = model.id.to_lowercase();
    let any = |names: &[&str]| names.iter().any(|name| id.contains(name));
    let temperature = if any(&["qwen"]) {
        Some(0.55)
    } else if any(&["gemini", "glm-4.6", "glm-4.7", "minimax-m2"]) {
        Some(1.0)
    } else if any(&["kimi-k2"]) {
        Some(if any(&["thinking", "k2.", "k2p", "k2-5"]) { 1.0 } else { 0.6 })
    } else {
        None
    };
    let top_p = if any(&["qwen"]) {
        Some(1.0)
    } else if any(&["minimax-m2", "gemini", "kimi-k2.5", "kimi-k2p5", "kimi-k2-5"]) {
        Some(0.95)
    } else {
        None
    };
    Sampling { temperature: wanted.temperature.or(temperature), top_p: wanted.top_p.or(top_p), ..wanted }
}

/// Selectable efforts of a model.
fn efforts(provider: &Provider, model: &Model, dialect: Dialect) -> BTreeMap<String, Settings> {
    let id = model.api_id.to_lowercase();
    if !model.abilities.reasoning {
        return BTreeMap::new();
    }
    let npm = packages::name(provider, model);
    let tuned = id.contains("glm-5.2") || id.contains("glm-5-2") || id.contains("glm-5p2");
    let kimi = dialect == Dialect::Anthropic && id.contains("kimi");
    if UNTUNABLE.iter().any(|name| id.contains(name)) && !tuned && !kimi {
        return BTreeMap::new();
    }
    match dialect {
        Dialect::Anthropic => claude(model, &id, kimi),
        Dialect::Gemini => gemini(&id),
        Dialect::Responses if npm == "@ai-sdk/xai" => {
            each(&USUAL, |effort| json!({ "reasoningEffort": effort }))
        }
        Dialect::Responses => each(&gpt_efforts(&id, &model.released), |effort| {
            json!({
                "reasoningEffort": effort, "reasoningSummary": "auto",
                "include": ["reasoning.encrypted_content"],
            })
        }),
        Dialect::Chat => {
            let routed = npm.starts_with("@openrouter/");
            let levels: Vec<&str> = match npm {
                "@ai-sdk/cohere" | "@ai-sdk/perplexity" => Vec::new(),
                "@ai-sdk/mistral" => vec!["high"],
                "@ai-sdk/groq" => vec!["none", "low", "medium", "high"],
                _ if tuned && routed => vec!["high", "xhigh"],
                _ if tuned => vec!["high", "max"],
                _ if gpt(&id).is_some() => gpt_efforts(&id, &model.released),
                _ if id.contains("deepseek-v4") => vec!["low", "medium", "high", "max"],
                _ => USUAL.to_vec(),
            };
            each(&levels, |effort| {
                if routed {
                    json!({ "reasoning": { "effort": effort } })
                } else {
                    json!({ "reasoningEffort": effort })
                }
            })
        }
    }
}

fn claude(model: &Model, id: &str, kimi: bool) -> BTreeMap<String, Settings> {
    let version = version_after(id, "claude");
    // A name without a version belongs to a new model.
    let modern = kimi || (id.contains("claude") && version.is_none_or(|version| version >= (4, 7)));
    if modern {
        return each(
            &["low", "medium", "high", "xhigh", "max"],
            |effort| json!({ "thinking": { "type": "adaptive", "display": "summarized" }, "effort": effort }),
        );
    }
    if version == Some((4, 6)) {
        return each(
            &["low", "medium", "high", "max"],
            |effort| json!({ "thinking": { "type": "adaptive" }, "effort": effort }),
        );
    }
    let output = if model.limit.output == 0 { u64::MAX } else { model.limit.output };
    let budget = |tokens: u64| json!({ "type": "enabled", "budgetTokens": tokens });
    let usual = BUDGET.min((output / 2).saturating_sub(1));
    if id.contains("opus-4-5") || id.contains("opus-4.5") {
        return each(&USUAL, |effort| json!({ "thinking": budget(usual), "effort": effort }));
    }
    let most = LARGEST_BUDGET.min(output.saturating_sub(1));
    BTreeMap::from([
        ("high".to_owned(), object(json!({ "thinking": budget(usual) }))),
        ("max".to_owned(), object(json!({ "thinking": budget(most) }))),
    ])
}

fn gemini(id: &str) -> BTreeMap<String, Settings> {
    if id.contains("2.5") {
        let most = if id.contains("pro") { 32_768 } else { 24_576 };
        let budget = |tokens: u64| {
            object(json!({ "thinkingConfig": { "includeThoughts": true, "thinkingBudget": tokens } }))
        };
        return BTreeMap::from([("high".to_owned(), budget(BUDGET)), ("max".to_owned(), budget(most))]);
    }
    let levels: &[&str] = match id {
        id if !id.contains("gemini-3") => &["low", "high"],
        id if id.contains("flash-image") => &["minimal", "high"],
        id if id.contains("pro-image") => &["high"],
        id if id.contains("flash") => &["minimal", "low", "medium", "high"],
        _ => &USUAL,
    };
    each(levels, |effort| json!({ "thinkingConfig": { "includeThoughts": true, "thinkingLevel": effort } }))
}

fn gpt_efforts(id: &str, released: &str) -> Vec<&'static str> {
    let minor = match gpt(id) {
        Some((5, minor)) => minor,
        _ if id.contains("deep-research") => return vec!["medium"],
        _ => {
            let mut efforts = USUAL.to_vec();
            if released >= NONE_SINCE {
                efforts.insert(0, "none");
            }
            if released >= XHIGH_SINCE {
                efforts.push("xhigh");
            }
            return efforts;
        }
    };
    let up_to_xhigh = || vec!["none", "low", "medium", "high", "xhigh"];
    match minor {
        None if id.contains("-chat") => Vec::new(),
        Some(_) if id.contains("-chat") => vec!["medium"],
        None if id.contains("-pro") => vec!["high"],
        Some(_) if id.contains("-pro") => vec!["medium", "high", "xhigh"],
        Some(3..) if id.contains("codex") => up_to_xhigh(),
        Some(2) if id.contains("codex") => vec!["low", "medium", "high", "xhigh"],
        _ if id.contains("codex-max") => vec!["low", "medium", "high", "xhigh"],
        _ if id.contains("codex") => USUAL.to_vec(),
        None => vec!["minimal", "low", "medium", "high"],
        Some(1) => vec!["none", "low", "medium", "high"],
        Some(_) => up_to_xhigh(),
    }
}

/// Version of a GPT: `openai/gpt-5.2-codex` is 5 and 2.
fn gpt(id: &str) -> Option<(u32, Option<u32>)> {
    let rest = id.rsplit('/').next()?.strip_prefix("gpt-")?;
    let mut numbers = rest.split(['.', '-']);
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next().and_then(|minor| minor.parse().ok())))
}

/// Version in a name such as `claude-opus-4-6`, `claude-sonnet-4.6-v1` or `claude-4-6-opus`. A number of more
/// than two digits is a date.
fn version_after(id: &str, family: &str) -> Option<(u32, u32)> {
    let (_, rest) = id.split_once(family)?;
    let mut numbers = rest
        .split(['-', '.', '@', ':', '_'])
        .map(|piece| piece.parse::<u32>().ok().filter(|_| piece.len() <= 2))
        .skip_while(Option::is_none);
    let major = numbers.next().flatten()?;
    Some((major, numbers.next().flatten().unwrap_or(0)))
}

fn each(names: &[&str], settings: impl Fn(&str) -> Value) -> BTreeMap<String, Settings> {
    names.iter().map(|name| ((*name).to_owned(), object(settings(name)))).collect()
}

fn object(value: Value) -> Settings {
    match value {
        Value::Object(settings) => settings,
        _ => Settings::new(),
    }
}
