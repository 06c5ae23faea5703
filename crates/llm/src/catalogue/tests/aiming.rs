//! Addresses, dialects and settings of calls.

use serde_json::json;

use super::*;
use crate::dialect::Dialect;
use crate::transport::KeyHeader;
use crate::{Error, Purpose, Secret};

fn key() -> Secret {
    Secret::new("k")
}

#[test]
fn each_provider_is_called_in_its_dialect_at_its_address() {
    let cases = [
        (
            "anthropic",
            "claude-haiku-4-5",
            Dialect::Anthropic,
            KeyHeader::XApiKey,
            "https://api.anthropic.com/v1",
        ),
        ("openai", "gpt-5.1", Dialect::Responses, KeyHeader::Bearer, "https://api.openai.com/v1"),
        (
            "google",
            "gemini-2.5-pro",
            Dialect::Gemini,
            KeyHeader::XGoogApiKey,
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        ("deepseek", "deepseek-v4-flash", Dialect::Chat, KeyHeader::Bearer, "https://api.deepseek.com"),
        ("groq", "openai/gpt-oss-120b", Dialect::Chat, KeyHeader::Bearer, "https://api.groq.com/openai/v1"),
        ("xai", "grok-4.5", Dialect::Responses, KeyHeader::Bearer, "https://api.x.ai/v1"),
        (
            "azure",
            "gpt-5.1",
            Dialect::Responses,
            KeyHeader::ApiKey,
            "https://azure-resource-name-value.openai.azure.com/openai/v1",
        ),
    ];
    for (id, model, dialect, header, url) in cases {
        let provider = provider(id).with_environment(&everything);
        let aim = provider.aim(&request(model)).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!((aim.dialect, aim.endpoint.url.as_str()), (dialect, url), "{id}");
        assert_eq!(aim.endpoint.key.map(|(how, _)| how), Some(header), "{id}");
    }
}

#[test]
fn missing_settings_are_named() {
    let error = provider("anthropic").aim(&request("claude-haiku-4-5")).unwrap_err();
    assert_eq!(
        error,
        Error::Auth {
            provider: "anthropic".into(),
            message: "Anthropic is not set up: set ANTHROPIC_API_KEY".into()
        }
    );
    let error = provider("azure").with_key(key()).aim(&request("gpt-5.1")).unwrap_err();
    assert!(error.to_string().contains("AZURE_RESOURCE_NAME"), "{error}");
    let named =
        configured(provider("azure"), &json!({ "options": { "resourceName": "mine", "apiKey": "k" } }));
    let aim = named.aim(&request("gpt-5.1")).unwrap();
    assert_eq!(aim.endpoint.url, "https://mine.openai.azure.com/openai/v1");
}

#[test]
fn unknown_models_and_dialects_are_refused() {
    let openai = provider("openai").with_key(key());
    assert_eq!(openai.aim(&request("gpt-99")).unwrap_err(), Error::UnknownModel("openai/gpt-99".into()));
    let gitlab = provider("gitlab").with_key(key());
    let model = gitlab.models.keys().next().unwrap().clone();
    let error = gitlab.aim(&request(&model)).unwrap_err();
    assert!(error.to_string().contains("gitlab-ai-provider"), "{error}");
    let nowhere = Provider::named("nowhere").aim(&request("m")).unwrap_err();
    assert!(nowhere.to_string().contains("baseURL"), "{nowhere}");
}

#[test]
fn local_servers_need_no_key_and_accept_any_model() {
    let ollama = Provider::ollama();
    assert!(ollama.is_usable() && ollama.is_local() && ollama.knows("qwen3:8b"));
    let aim = ollama.aim(&request("qwen3:8b")).unwrap();
    assert_eq!((aim.dialect, aim.endpoint.url.as_str()), (Dialect::Chat, "http://127.0.0.1:11434/v1"));
    assert!(aim.endpoint.key.is_none());
    assert!(provider("lmstudio").is_usable(), "it runs on this machine, although the list has a variable");
    let moved = configured(provider("openai"), &json!({ "options": { "baseURL": "http://localhost:9/v1" } }));
    assert!(moved.is_usable() && moved.knows("anything"));
    let closed = configured(moved, &json!({ "whitelist": ["gpt-5.1"] }));
    assert!(closed.knows("gpt-5.1") && !closed.knows("anything"));
}

#[test]
fn a_header_can_replace_the_key() {
    let proxied = configured(
        provider("anthropic"),
        &json!({ "options": { "headers": { "Authorization": "Bearer x" }, "baseURL": "https://gate.test" } }),
    );
    assert!(proxied.is_usable());
    let token = configured(provider("anthropic"), &json!({ "options": { "authToken": "t" } }));
    let aim = token.aim(&request("claude-haiku-4-5")).unwrap();
    assert_eq!(aim.target.headers.get("authorization"), Some("Bearer t"));
}

#[test]
fn a_model_may_have_its_own_dialect_and_address() {
    let azure = provider("azure").with_environment(&everything);
    let claude =
        azure.models.values().find(|model| model.npm.as_deref() == Some("@ai-sdk/anthropic")).unwrap();
    let aim = azure.aim(&request(&claude.id)).unwrap();
    assert_eq!(aim.dialect, Dialect::Anthropic);
    assert_eq!(aim.endpoint.url, "https://azure-resource-name-value.services.ai.azure.com/anthropic/v1");
}

#[test]
fn settings_override_each_other_in_order() {
    let openai = configured(
        provider("openai").with_key(key()),
        &json!({ "models": { "gpt-5.1": {
            "options": { "textVerbosity": "high" }, "variants": { "high": { "extra": 1 } } } } }),
    );
    let mut request = request("gpt-5.1");
    request.cache_key = Some("ses_1".into());
    let settings = |request: &Request| Value::Object(openai.aim(request).unwrap().target.options);
    let plain = settings(&request);
    assert_eq!(plain["reasoningEffort"], "medium", "default of the model");
    assert_eq!(plain["textVerbosity"], "high", "configured value");
    assert_eq!(plain["promptCacheKey"], "ses_1");
    request.variant = Some("high".into());
    let high = settings(&request);
    assert_eq!((&high["reasoningEffort"], &high["extra"]), (&json!("high"), &json!(1)), "what was chosen");
    request.variant = Some("a name of the past".into());
    assert_eq!(settings(&request), plain);
    request.variant = None;
    request.purpose = Purpose::Title;
    assert_eq!(settings(&request)["reasoningEffort"], "none", "a title needs no thought");
}

#[test]
fn the_older_dialect_can_be_configured() {
    let azure = configured(
        provider("azure").with_environment(&everything),
        &json!({ "options": { "useCompletionUrls": true } }),
    );
    let aim = azure.aim(&request("gpt-5.1")).unwrap();
    assert_eq!(aim.dialect, Dialect::Chat);
    assert!(aim.target.quirks.max_completion_tokens);
}

#[test]
fn quirks_of_servers_are_detected() {
    let quirks =
        |id: &str, model: &str| provider(id).with_key(key()).aim(&request(model)).unwrap().target.quirks;
    let mistral = quirks("mistral", "mistral-large-latest");
    assert!(mistral.mistral && mistral.strict);
    let routed = provider("openrouter");
    let model = routed.models.keys().find(|id| id.starts_with("anthropic/")).unwrap();
    assert!(quirks("openrouter", model).router);
}
