//! Errors of a turn, for users: what failed, and what to do about it.

use client::Provider;
use protocol::{MessageError, provider::ProviderSource};

use crate::{exit::Failure, terminal};

/// The id of the provider that refused its key; `None` for every other error. `model` is the one that was answering,
/// as `provider/model`.
pub(super) fn refused_key<'a>(error: &'a MessageError, model: Option<&'a str>) -> Option<&'a str> {
    match error {
        MessageError::ProviderAuth { provider_id, .. } => Some(provider_id),
        MessageError::Api(api) if matches!(api.status_code, Some(401 | 403)) => {
            model.and_then(|model| model.split_once('/')).map(|(provider, _)| provider)
        }
        _ => None,
    }
}

/// The error of a turn.
pub(super) fn of_turn(error: &MessageError) -> Failure {
    Failure::error(terminal::clean(error.message().trim()))
}

/// The error of a turn whose provider refused its key.
pub(super) fn key_refused(
    error: &MessageError,
    provider: &str,
    model: Option<&str>,
    known: &[Provider],
) -> Failure {
    let asked = model.map(|model| format!(" ({model})")).unwrap_or_default();
    let message = terminal::clean(error.message().trim());
    let failure =
        Failure::error(format!("the provider {provider} does not accept the key{asked}: {message}"));
    let known = known.iter().find(|it| it.id == provider);
    match known.and_then(|known| Some((known.source?, known.variables.join(" or ")))) {
        Some((ProviderSource::Env, variables)) => {
            failure.hint(format!("the key comes from the environment variable {variables}"))
        }
        Some((ProviderSource::Config, _)) => {
            failure.hint(format!("the key comes from provider.{provider} in the configuration"))
        }
        Some((ProviderSource::Api, _)) => failure.hint("the key comes from auth.json"),
        Some((ProviderSource::Custom, _)) | None => failure,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(status: u16) -> MessageError {
        let error = json!({ "name": "APIError", "data": {
            "message": "invalid x-api-key", "statusCode": status, "isRetryable": false,
        } });
        serde_json::from_value(error).unwrap()
    }

    #[test]
    fn a_refused_key_is_reported_with_its_provider_model_and_source() {
        let model = Some("anthropic/claude");
        assert_eq!(refused_key(&error(401), model), Some("anthropic"));
        assert_eq!(refused_key(&error(400), model), None);
        let told = |source, variables: &[&str]| {
            let known = Provider {
                id: "anthropic".to_owned(),
                source: Some(source),
                variables: variables.iter().map(|name| (*name).to_owned()).collect(),
                models: Vec::new(),
            };
            let failure = key_refused(&error(401), "anthropic", model, &[known]);
            (failure.to_string(), failure.hints().join("\n"))
        };
        let (sentence, hint) = told(ProviderSource::Env, &["ANTHROPIC_API_KEY"]);
        assert_eq!(
            sentence,
            "the provider anthropic does not accept the key (anthropic/claude): invalid x-api-key"
        );
        assert_eq!(hint, "the key comes from the environment variable ANTHROPIC_API_KEY");
        assert!(told(ProviderSource::Config, &[]).1.contains("provider.anthropic"));
        assert!(told(ProviderSource::Api, &[]).1.contains("auth.json"));
    }
}
