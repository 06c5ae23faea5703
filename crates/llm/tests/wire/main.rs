//! Models over real HTTP on a loopback port, answered by a scripted server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod answers;
mod carried;
mod fake;
mod refusals;
mod silences;

use futures::StreamExt as _;
use llm::catalogue::Provider;
use llm::{Client, Error, HttpModel, Message, Model as _, ModelEvent, ModelRef, Request, UserContent};
use serde_json::{Value, json};

use fake::Fake;

/// Looks like a key, so that a leak would be noticed.
const KEY: &str = "sk-0123456789abcdef";

/// Packages of the four dialects, with a model of each.
const DIALECTS: [(&str, &str); 4] = [
    ("@ai-sdk/anthropic", "claude-test"),
    ("@ai-sdk/openai", "gpt-test"),
    ("@ai-sdk/openai-compatible", "any-test"),
    ("@ai-sdk/google", "gemini-test"),
];

/// Recorded responses in the order of the dialects.
const RECORDINGS: [&str; 4] = [
    include_str!("../../src/dialect/tests/recordings/anthropic.sse"),
    include_str!("../../src/dialect/tests/recordings/responses.sse"),
    include_str!("../../src/dialect/tests/recordings/chat.sse"),
    include_str!("../../src/dialect/tests/recordings/gemini.sse"),
];

/// The fake as a provider with the dialect of a package.
fn model(fake: &Fake, npm: &str, options: &Value) -> HttpModel {
    let mut options = options.clone();
    options["baseURL"] = fake.url.clone().into();
    options["apiKey"] = KEY.into();
    let config = json!({ "npm": npm, "options": options });
    HttpModel::new(Client::default(), Provider::named("fake").configured(&config).unwrap())
}

fn request(model: &str) -> Request {
    let mut request = Request::new(ModelRef::new("fake", model));
    request.messages = vec![Message::User(vec![UserContent::Text("Hello?".to_owned())])];
    request
}

/// Events of one call.
async fn ask(model: &HttpModel, request: Request) -> Result<Vec<Result<ModelEvent, Error>>, Error> {
    Ok(model.stream(request).await?.collect().await)
}

/// Events of one call in a dialect.
async fn ask_fake(fake: &Fake, dialect: usize) -> Result<Vec<Result<ModelEvent, Error>>, Error> {
    let (npm, name) = DIALECTS[dialect];
    ask(&model(fake, npm, &json!({})), request(name)).await
}
