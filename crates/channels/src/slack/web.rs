//! Calls to Slack's Web API. All bodies are forms, the only encoding that every method accepts.

use http::{StatusCode, header::CONTENT_TYPE};
use reqwest::{Client, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::errors::ApiError;
use crate::{
    AdapterError,
    calls::{self, MAX_ANSWER},
    settings::{self, Secret},
};

/// Slack's Web API, with the bot's token.
#[derive(Debug)]
pub(super) struct Web {
    client: Client,
    api: Url,
    token: Secret,
}

impl Web {
    pub(super) fn new(settings: &settings::Slack) -> Result<Self, AdapterError> {
        let client = calls::client(&settings.api)?;
        let api = format!("{}/", settings.api.trim_end_matches('/'));
        let api = Url::parse(&api)
            .map_err(|error| AdapterError::Refused(format!("invalid API address: {error}")))?;
        Ok(Self { client, api, token: settings.bot_token.clone() })
    }

    /// Calls a method as the bot.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        fields: &[(&str, &str)],
    ) -> Result<T, ApiError> {
        self.call_as(&self.token, method, fields).await
    }

    /// Calls a method with another token.
    pub(super) async fn call_as<T: DeserializeOwned>(
        &self,
        token: &Secret,
        method: &str,
        fields: &[(&str, &str)],
    ) -> Result<T, ApiError> {
        let url = self.api.join(method).map_err(|error| AdapterError::Refused(error.to_string()))?;
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let call = self
            .client
            .post(url)
            .bearer_auth(token.reveal())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            .body(form);
        let answer = read(call.send().await.map_err(calls::fault)?, method).await?;
        serde_json::from_value(answer).map_err(|error| strange(method, &error).into())
    }

    /// Uploads the content of a file to the address from Slack. The address itself authorises the call.
    pub(super) async fn put(&self, address: &str, content: String) -> Result<(), AdapterError> {
        let response = self.client.post(address).body(content).send().await.map_err(calls::fault)?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_success() {
            return Ok(());
        }
        Err(calls::refusal(status, &headers, format!("the upload of a file failed with {status}")))
    }

    /// Downloads a file. Sends the token only to Slack's hosts, whatever address a message gives.
    pub(super) async fn get(&self, address: &str, limit: u64) -> Result<bytes::Bytes, AdapterError> {
        let url = Url::parse(address)
            .map_err(|error| AdapterError::Refused(format!("invalid address of a file: {error}")))?;
        if !self.is_trusted(&url) {
            let host = url.host_str().unwrap_or_default();
            return Err(AdapterError::Refused(format!(
                "the file is at {host}, which is not Slack, so it was not downloaded"
            )));
        }
        let call = self.client.get(url).bearer_auth(self.token.reveal());
        let response = call.send().await.map_err(calls::fault)?;
        let (status, headers) = (response.status(), response.headers().clone());
        match status {
            status if status.is_success() => calls::body(response, limit).await,
            // Without the right scope, Slack redirects to its sign-in page.
            status if status.is_redirection() => Err(AdapterError::Refused(
                "the app may not read the file; give it the scope files:read".to_owned(),
            )),
            StatusCode::NOT_FOUND => Err(AdapterError::Refused("Slack no longer has it".to_owned())),
            status => {
                Err(calls::refusal(status, &headers, format!("the download of a file failed with {status}")))
            }
        }
    }

    /// True for hosts that may receive the token: the API's own, and Slack's.
    fn is_trusted(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        url.origin() == self.api.origin()
            || url.scheme() == "https" && (host == "slack.com" || host.ends_with(".slack.com"))
    }
}

/// Reads an answer, whose body tells success from failure.
async fn read(response: Response, method: &str) -> Result<Value, ApiError> {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = calls::body(response, MAX_ANSWER).await?;
    if status == StatusCode::TOO_MANY_REQUESTS {
        return Err(AdapterError::Busy { after: calls::retry_after(&headers) }.into());
    }
    let parsed = serde_json::from_slice::<Value>(&body);
    let word =
        |name: &str| parsed.as_ref().ok().and_then(|answer| answer.get(name)?.as_str().map(str::to_owned));
    if let Some(error) = word("error") {
        if status.is_server_error() {
            return Err(calls::refusal(status, &headers, error).into());
        }
        return Err(ApiError::named(&error, word("needed").as_deref(), calls::retry_after(&headers)));
    }
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            Err(ApiError::named("unknown_method", None, std::time::Duration::ZERO))
        }
        status if status.is_success() => parsed.map_err(|error| strange(method, &error).into()),
        status => Err(calls::refusal(status, &headers, format!("{method} failed with {status}")).into()),
    }
}

/// The fault of an unreadable answer: Slack may have carried out the call.
fn strange(method: &str, error: &serde_json::Error) -> AdapterError {
    AdapterError::Uncertain(format!("the answer of {method} cannot be parsed: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn web(api: &str) -> Web {
        let settings = json!({"botToken": "xoxb-1", "api": api});
        Web::new(&serde_json::from_value(settings).unwrap()).unwrap()
    }

    #[test]
    fn the_token_is_only_sent_to_slack() {
        let web = web("http://127.0.0.1:4000/api");
        let is_trusted = |address: &str| web.is_trusted(&Url::parse(address).unwrap());
        assert!(is_trusted("http://127.0.0.1:4000/files/F1"));
        assert!(is_trusted("https://files.slack.com/files-pri/T1-F1/a.txt"));
        assert!(!is_trusted("http://127.0.0.1:4001/files/F1"));
        assert!(!is_trusted("http://files.slack.com/files-pri/T1-F1/a.txt"));
        assert!(!is_trusted("https://evilslack.com/F1"));
        assert!(!is_trusted("https://slack.com.example/F1"));
        assert!(!is_trusted("https://slack.com@example.com/F1"));
    }
}
