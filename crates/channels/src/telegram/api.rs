//! Calls to the Bot API. Every address contains the token, so no address may appear in an error or a log.

use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, header::CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    form::Form,
    wire::{self, Parameters},
};
use crate::{
    AdapterError, calls,
    settings::{self, Secret},
};

/// Timeout of a file transfer.
const TRANSFER_TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiError {
    /// Telegram refused the call.
    #[error("Telegram refused the call with {code}: {words}")]
    No { code: u16, words: String, parameters: Parameters },
    /// There was no answer, or one that is not Telegram's.
    #[error(transparent)]
    Adapter(AdapterError),
}

impl From<AdapterError> for ApiError {
    fn from(fault: AdapterError) -> Self {
        Self::Adapter(fault)
    }
}

impl From<ApiError> for AdapterError {
    fn from(error: ApiError) -> Self {
        let (code, words, parameters) = match error {
            ApiError::Adapter(fault) => return fault,
            ApiError::No { code, words, parameters } => (code, words, parameters),
        };
        if let Some(seconds) = parameters.retry_after {
            return Self::Busy { after: Duration::from_secs(seconds) };
        }
        if let Some(chat) = parameters.migrate_to_chat_id {
            return Self::Moved { into: chat.to_string() };
        }
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
        calls::refusal(status, &http::HeaderMap::new(), words)
    }
}

impl ApiError {
    /// True if Telegram refused with this code and a text that contains `part`.
    pub(super) fn is(&self, expected: u16, part: &str) -> bool {
        matches!(self, Self::No { code, words, .. } if *code == expected && words.contains(part))
    }
}

/// The body of a call.
#[derive(Debug)]
pub(super) enum Body {
    Json(Value),
    Form(Form),
}

/// A bot's access to the Bot API.
#[derive(Debug)]
pub(super) struct Api {
    http: reqwest::Client,
    address: String,
    token: Secret,
}

impl Api {
    pub(super) fn new(settings: &settings::Telegram) -> Result<Self, AdapterError> {
        let token = settings.token.reveal();
        let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, ':' | '_' | '-');
        if token.is_empty() || !token.chars().all(is_plain) {
            return Err(AdapterError::Refused(
                "`token` is empty or has invalid characters; if it comes from {env:NAME}, check that NAME is set"
                    .to_owned(),
            ));
        }
        let address = settings.api.trim_end_matches('/').to_owned();
        Ok(Self { http: calls::client(&address)?, address, token: settings.token.clone() })
    }

    pub(super) async fn call<T: DeserializeOwned>(&self, method: &str, body: &Value) -> Result<T, ApiError> {
        self.finish(self.http.post(self.method(method)).json(body)).await
    }

    /// Calls a method with its own timeout.
    pub(super) async fn wait<T: DeserializeOwned>(
        &self,
        method: &str,
        body: &Value,
        longest: Duration,
    ) -> Result<T, ApiError> {
        self.finish(self.http.post(self.method(method)).json(body).timeout(longest)).await
    }

    /// Calls a method with a body of either kind.
    pub(super) async fn submit(&self, method: &str, body: Body) -> Result<Value, ApiError> {
        match body {
            Body::Json(body) => self.call(method, &body).await,
            Body::Form(form) => {
                let (mime, body) = form.finish();
                let call = self.http.post(self.method(method)).header(CONTENT_TYPE, mime).body(body);
                self.finish(call.timeout(TRANSFER_TIMEOUT)).await
            }
        }
    }

    /// Downloads a file of at most `limit` bytes.
    pub(super) async fn fetch(&self, path: &str, limit: u64) -> Result<Bytes, AdapterError> {
        let address = format!("{}/file/bot{}/{path}", self.address, self.token.reveal());
        let answer = self.http.get(address).timeout(TRANSFER_TIMEOUT).send().await.map_err(calls::fault)?;
        let status = answer.status();
        if status == StatusCode::NOT_FOUND {
            return Err(AdapterError::Refused("Telegram no longer has it".to_owned()));
        }
        if !status.is_success() {
            return Err(calls::refusal(
                status,
                answer.headers(),
                format!("the download of a file failed with HTTP {}", status.as_u16()),
            ));
        }
        calls::body(answer, limit).await
    }

    fn method(&self, method: &str) -> String {
        format!("{}/bot{}/{method}", self.address, self.token.reveal())
    }

    async fn finish<T: DeserializeOwned>(&self, call: RequestBuilder) -> Result<T, ApiError> {
        let answer = call.send().await.map_err(calls::fault)?;
        let result = self.read(answer).await?;
        serde_json::from_value(result).map_err(|error| {
            ApiError::Adapter(AdapterError::Uncertain(format!("Telegram's answer cannot be parsed: {error}")))
        })
    }

    async fn read(&self, answer: Response) -> Result<Value, ApiError> {
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = calls::body(answer, calls::MAX_ANSWER).await?;
        match serde_json::from_slice::<wire::Answer>(&body) {
            Ok(answer) if answer.ok => Ok(answer.result),
            Ok(answer) if answer.error_code.is_some() || !status.is_success() => Err(ApiError::No {
                code: answer.error_code.unwrap_or(status.as_u16()),
                words: self.words(&answer.description, status),
                parameters: answer.parameters,
            }),
            // The answer comes from a proxy, not from Telegram.
            _ if !status.is_success() => {
                Err(calls::refusal(status, &headers, format!("HTTP {}", status.as_u16())).into())
            }
            _ => Err(AdapterError::Uncertain("the answer is not from the Bot API".to_owned()).into()),
        }
    }

    /// Telegram's reason for a refusal, with the token removed.
    fn words(&self, description: &str, status: StatusCode) -> String {
        if description.is_empty() {
            return format!("HTTP {}", status.as_u16());
        }
        description.replace(self.token.reveal(), "…")
    }
}
