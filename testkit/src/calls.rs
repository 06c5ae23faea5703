//! Plain HTTP calls, deliberately without the client library, because the wire itself is under test.

use anyhow::{Context as _, Result, bail};
use reqwest::Method;
use serde_json::{Value, json};

/// A client for plain HTTP. The HTTP library requires a TLS configuration all the same, so it gets one without any
/// trusted root.
#[expect(clippy::expect_used, reason = "the set-up of a test, and the same every time")]
pub fn http() -> reqwest::Client {
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring supports the usual versions of TLS")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(config);
    builder.build().expect("a plain client can be built")
}

/// Calls to one server.
#[derive(Debug, Clone)]
pub struct Calls {
    http: reqwest::Client,
    url: String,
}

impl Calls {
    /// Creates a caller for the server at `url`.
    pub fn new(url: &str) -> Self {
        Self { http: http(), url: url.to_owned() }
    }

    /// A GET that must succeed.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.call(Method::GET, path, None).await
    }

    /// A POST that must succeed; an empty answer is null.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// A PUT that must succeed.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.call(Method::PUT, path, Some(body)).await
    }

    /// A PATCH that must succeed.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        self.call(Method::PATCH, path, Some(body)).await
    }

    /// A DELETE that must succeed.
    pub async fn delete(&self, path: &str) -> Result<Value> {
        self.call(Method::DELETE, path, None).await
    }

    /// A GET that must succeed. Discards the body and returns its size in bytes.
    pub async fn drain(&self, path: &str) -> Result<u64> {
        let mut answer = self.http.get(format!("{}{path}", self.url)).send().await?.error_for_status()?;
        let mut bytes = 0;
        while let Some(chunk) = answer.chunk().await? {
            bytes += u64::try_from(chunk.len())?;
        }
        Ok(bytes)
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut call = self.http.request(method.clone(), format!("{}{path}", self.url));
        if let Some(body) = body {
            call = call.json(body);
        }
        let answer = call.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("{method} {path} answered {status}: {text}");
        }
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).with_context(|| format!("{method} {path} did not answer JSON: {text}"))
    }

    /// Creates a session and returns its id.
    pub async fn session(&self) -> Result<String> {
        let session = self.post("/session", &json!({})).await?;
        session.get("id").and_then(Value::as_str).map(ToOwned::to_owned).context("a session without an id")
    }

    /// Sends a prompt for a demo scenario and waits until it is accepted.
    pub async fn prompt(&self, session: &str, scenario: &str, message: Option<&str>) -> Result<()> {
        let mut body = json!({
            "model": { "providerID": "demo", "modelID": scenario },
            "parts": [{ "type": "text", "text": "go" }],
        });
        if let (Some(message), Some(fields)) = (message, body.as_object_mut()) {
            fields.insert("messageID".into(), message.into());
        }
        self.post(&format!("/session/{session}/prompt_async"), &body).await?;
        Ok(())
    }
}
