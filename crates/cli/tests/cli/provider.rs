//! Configured providers: which one is called, with which key, and which programs never see the key.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
};

use crate::harness::{Harness, Server, finish};

const KEY: &str = "sk-fake-0123456789";
const ANSWER: &str = "Hello from the fake.";

/// One call: its raw head and its body.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) head: String,
    body: Value,
}

/// A fake server compatible with `OpenAI`.
pub(crate) struct Fake {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&calls);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&heard)));
            }
        });
        Self { url, calls }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Configures this server as a provider of the project, with these models.
    fn configure_models(&self, harness: &Harness, models: &Value) {
        let config = json!({ "provider": { "fake": self.provider(models) } });
        harness.trust();
        fs::write(harness.project().join("opencode.json"), config.to_string()).unwrap();
    }

    fn provider(&self, models: &Value) -> Value {
        json!({
            "npm": "@ai-sdk/openai-compatible", "name": "Fake",
            "options": { "baseURL": self.url, "apiKey": "{env:FAKE_SECRET}" },
            "models": models,
        })
    }

    /// Configures this server as a provider of the project.
    fn configure(&self, harness: &Harness, more: &Value) {
        let models = json!({ "m": { "name": "M", "limit": { "context": 100_000, "output": 1000 } } });
        let mut config = json!({ "provider": { "fake": self.provider(&models) } });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        harness.trust();
        fs::write(harness.project().join("opencode.json"), config.to_string()).unwrap();
    }
}

async fn answer(mut stream: TcpStream, calls: Arc<Mutex<Vec<Call>>>) {
    let mut text = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        text.extend_from_slice(&piece[..read]);
        let said = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = said.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Value>(body)
        {
            break (head.to_owned(), body);
        }
    };
    calls.lock().unwrap().push(Call { head, body });
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        format!("data: {}\n\n", json!({ "id": "1", "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let said = [
        chunk(json!({ "role": "assistant", "content": ANSWER }), Value::Null),
        chunk(json!({}), "stop".into()),
        "data: [DONE]\n\n".to_owned(),
    ];
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(format!("{head}{}", said.concat()).as_bytes()).await;
}

fn with_key(mut command: Command) -> Command {
    command.env("FAKE_SECRET", KEY);
    command
}

#[tokio::test]
async fn a_configured_provider_answers_and_gets_its_key() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    fake.configure(&harness, &json!({}));
    let ended = finish(with_key(harness.with_data(&["run", "--model", "fake/m", "hi"])), "").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), format!("{ANSWER}\n").as_str()), "{ended:?}");
    let calls = fake.calls();
    assert!(!calls.is_empty());
    for call in &calls {
        assert!(call.head.starts_with("POST /v1/chat/completions "), "{}", call.head);
        let bearer = format!("authorization: bearer {KEY}");
        assert!(call.head.to_lowercase().contains(&bearer), "{}", call.head);
        assert_eq!(call.body["model"], "m");
    }
    // The only provider is also the default.
    let ended = finish(with_key(harness.with_data(&["run", "hi"])), "").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), format!("{ANSWER}\n").as_str()), "{ended:?}");
    let log = fs::read_to_string(harness.data().join("log/baton.log")).unwrap_or_default();
    assert!(!log.contains(KEY), "{log}");
}

#[tokio::test]
async fn a_variant_applies_to_the_model_that_answers() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    let model = json!({
        "limit": { "context": 100_000, "output": 1000 },
        "variants": { "careful": { "reasoningEffort": "high" } },
    });
    fake.configure_models(&harness, &json!({ "m": model }));
    let efforts = async |words: &[&str]| {
        let begun = fake.calls().len();
        let ended = finish(with_key(harness.with_data(words)), "").await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        // The call for a title does not offer tools.
        let calls = fake.calls().into_iter().skip(begun).filter(|call| call.body.get("tools").is_some());
        calls.map(|call| call.body["reasoning_effort"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(efforts(&["run", "hi", "--model", "fake/m"]).await, [Value::Null]);
    assert_eq!(efforts(&["run", "hi", "--model", "fake/m", "--variant", "careful"]).await, ["high"]);
    assert_eq!(efforts(&["run", "hi", "--variant", "careful"]).await, ["high"], "the default model, too");
    assert_eq!(efforts(&["run", "again", "--continue"]).await, ["high"], "the session keeps its variant");
}

#[tokio::test]
async fn clients_start_with_the_demo_and_not_with_an_external_agent() {
    let harness = Harness::new();
    let mut command = harness.with_data(&["serve", "--port", "0"]);
    let agent = json!({ "acp": { "mine": { "command": ["/bin/sh"] } } });
    command.env("OPENCODE_CONFIG_CONTENT", agent.to_string());
    let server = Server::start(command).await;
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    let configured = server.calls.get("/config/providers").await.unwrap();
    assert_eq!(ids(&configured["providers"]), ["demo", "acp:mine"]);
    assert_eq!(configured["default"], json!({ "demo": "baton" }));
    let models = configured["providers"][0]["models"].as_object().unwrap();
    assert_eq!(models.keys().collect::<Vec<_>>(), ["baton"]);
    let all = server.calls.get("/provider").await.unwrap();
    assert_eq!(ids(&all["all"])[..2], ["demo", "acp:mine"]);
    assert_eq!(
        (&all["connected"], &all["default"]),
        (&json!(["demo", "acp:mine"]), &json!({ "demo": "baton" }))
    );
    let newer = server.calls.get("/api/model").await.unwrap();
    assert_eq!(ids(&newer["data"])[0], "baton");
    server.stop().await;
}

#[tokio::test]
async fn clients_see_the_provider_but_not_its_key() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    fake.configure(&harness, &json!({}));
    let command = harness.with_data(&["serve", "--port", "0", "--log-level", "trace"]);
    let server = Server::start(with_key(command)).await;
    let listed = server.calls.get("/config/providers").await.unwrap();
    let found = listed["providers"].as_array().unwrap().iter().find(|it| it["id"] == "fake").unwrap();
    assert_eq!((&found["name"], &found["source"]), (&json!("Fake"), &json!("config")));
    assert_eq!(found["models"]["m"]["limit"]["context"], 100_000);
    assert_eq!(found["models"]["m"]["api"]["url"], fake.url);
    assert_eq!(listed["default"], json!({ "fake": "m" }));
    let session = server.calls.session().await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    let answer = server.calls.post(&format!("/session/{session}/message"), &prompt).await.unwrap();
    assert_eq!(answer["info"]["providerID"], "fake");
    for path in ["/config/providers", "/provider", "/config", "/agent"] {
        let answer = server.calls.get(path).await.unwrap().to_string();
        assert!(!answer.contains(KEY), "{path}: {answer}");
    }
    server.stop().await;
    let log = fs::read_to_string(harness.data().join("log/baton.log")).unwrap();
    assert!(!log.contains(KEY), "{log}");
}

#[tokio::test]
async fn instructions_agents_and_skills_reach_the_model() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    let project = harness.project();
    fake.configure(
        &harness,
        &json!({
            "default_agent": "poet", "instructions": ["docs/*.md"],
            "agent": { "poet": { "prompt": "You answer in verse.", "temperature": 0.25 } },
        }),
    );
    fs::write(project.join("AGENTS.md"), "Wear a green hat.").unwrap();
    for (path, text) in [
        ("docs/style.md", "Mind the gap."),
        (".opencode/skills/knots/SKILL.md", "---\nname: knots\ndescription: Ties knots\n---\nOver, under."),
    ] {
        fs::create_dir_all(project.join(path).parent().unwrap()).unwrap();
        fs::write(project.join(path), text).unwrap();
    }
    let ended = finish(with_key(harness.with_data(&["run", "hi"])), "").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let calls = fake.calls();
    let asked = calls.iter().find(|call| call.body["tools"].is_array()).unwrap();
    let system = asked.body["messages"][0].to_string();
    for text in ["Wear a green hat.", "Mind the gap.", "You answer in verse."] {
        assert!(system.contains(text), "{text}: {system}");
    }
    assert!(asked.body["tools"].to_string().contains("Ties knots"), "{}", asked.body["tools"]);
}

#[tokio::test]
async fn commands_do_not_see_keys() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    fake.configure(&harness, &json!({ "permission": { "bash": "allow" } }));
    let file = harness.path("more.json");
    let scenario = json!({ "spy": { "about": "looks around", "steps": [
        [
            { "do": "tool", "name": "bash", "input": { "command": "env > seen.txt", "description": "Look" } },
            { "do": "finish", "reason": "tool-calls" },
        ],
        [{ "do": "text", "text": "Seen." }, { "do": "finish", "reason": "stop" }],
    ] } });
    fs::write(&file, scenario.to_string()).unwrap();
    let args = ["run", "hi", "--model", "demo/spy", "--scenario-file", file.to_str().unwrap()];
    let mut command = with_key(harness.with_data(&args));
    command.env("ANTHROPIC_API_KEY", "sk-ant-0123456789").env("HARMLESS", "yes");
    let ended = finish(command, "").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let seen = fs::read_to_string(harness.project().join("seen.txt")).unwrap();
    assert!(seen.contains("HARMLESS=yes"), "{seen}");
    assert!(!seen.contains(KEY) && !seen.contains("sk-ant-"), "{seen}");
}

#[tokio::test]
async fn the_configured_key_precedes_the_stored_one_and_that_the_environments() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    let used = async || {
        let mut command = with_key(harness.with_data(&["run", "hi", "--model", "fake/m"]));
        command.env("FAKE_API_KEY", "sk-environment");
        let ended = finish(command, "").await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let head = fake.calls().last().unwrap().head.clone();
        let key = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
        key.unwrap_or_else(|| panic!("{head}")).to_owned()
    };
    let configure = |options: Value| {
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible", "env": ["FAKE_API_KEY"], "options": options, "models": { "m": {} },
        });
        let config = json!({ "provider": { "fake": provider } });
        fs::write(harness.project().join("opencode.json"), config.to_string()).unwrap();
        harness.trust();
    };
    configure(json!({ "baseURL": fake.url }));
    assert_eq!(used().await, "sk-environment");
    fs::write(harness.data().join("auth.json"), r#"{"fake":{"type":"api","key":"sk-stored"}}"#).unwrap();
    assert_eq!(used().await, "sk-stored");
    configure(json!({ "baseURL": fake.url, "apiKey": "{env:FAKE_SECRET}" }));
    assert_eq!(used().await, KEY);
}

#[tokio::test]
async fn a_key_that_a_client_stores_counts_from_the_next_prompt_on_and_is_never_shown() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "env": ["FAKE_API_KEY"], "options": { "baseURL": fake.url },
        "models": { "m": {} },
    });
    let config = json!({ "provider": { "fake": provider } });
    fs::write(harness.project().join("opencode.json"), config.to_string()).unwrap();
    harness.trust();
    let server = harness.serve().await;
    let session = server.calls.session().await.unwrap();
    let prompt = |provider: &str, model: &str| {
        let model = json!({ "providerID": provider, "modelID": model });
        json!({ "model": model, "parts": [{ "type": "text", "text": "hello" }] })
    };
    let path = format!("/session/{session}/message");
    let refused = server.calls.post(&path, &prompt("openai", "gpt-5")).await.unwrap_err().to_string();
    assert!(refused.contains("400") && refused.contains("OPENAI_API_KEY"), "{refused}");
    assert!(refused.contains("PUT /auth/openai"), "{refused}");
    let connected = async || server.calls.get("/provider").await.unwrap();
    let before = connected().await;
    assert!(!before["connected"].as_array().unwrap().contains(&json!("openai")));
    let all = before["all"].as_array().unwrap();
    let openai: Vec<&Value> = all.iter().filter(|provider| provider["id"] == "openai").collect();
    assert_eq!(openai.len(), 1, "listed once");
    assert!(openai[0]["models"].as_object().unwrap().contains_key("gpt-5"));

    let key = json!({ "type": "api", "key": KEY });
    for provider in ["fake", "openai"] {
        assert_eq!(server.calls.put(&format!("/auth/{provider}"), &key).await.unwrap(), true);
    }
    let answer = server.calls.post(&path, &prompt("fake", "m")).await.unwrap();
    assert_eq!(answer["info"]["providerID"], "fake");
    let head = fake.calls().last().unwrap().head.to_lowercase();
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    assert!(connected().await["connected"].as_array().unwrap().contains(&json!("openai")));
    for path in ["/provider", "/provider/auth", "/config/providers", "/config"] {
        assert!(!server.calls.get(path).await.unwrap().to_string().contains(KEY), "{path}");
    }
    let file = harness.data().join("auth.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    for body in [json!({ "type": "api", "key": " " }), json!({ "type": "api" }), json!({ "type": "other" })] {
        let refused = server.calls.put("/auth/fake", &body).await.unwrap_err().to_string();
        assert!(refused.contains("400"), "{refused}");
    }
    assert_eq!(server.calls.delete("/auth/openai").await.unwrap(), true);
    assert!(!connected().await["connected"].as_array().unwrap().contains(&json!("openai")));
    server.stop().await;
    let log = fs::read_to_string(harness.data().join("log/baton.log")).unwrap();
    assert!(!log.contains(KEY), "{log}");
}

/// Serves the same text `times` times, then closes its port.
async fn site(text: &'static str, times: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/rules.md?key=sk-rules", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for _ in 0..times {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let length = text.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/markdown\r\ncontent-length: {length}");
            let _ = stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n{text}").as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn instructions_at_an_address_stay_in_effect_when_it_is_unreachable() {
    let (harness, fake) = (Harness::new(), Fake::start().await);
    let url = site("Use tabs, everywhere.", 1).await;
    fake.configure(&harness, &json!({ "instructions": [url] }));
    let allowed = json!({ "webfetch": { "private_addresses": true } });
    let directory = harness.path("home/.config/opencode");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("baton.json"), allowed.to_string()).unwrap();
    let server = Server::start(with_key(harness.with_data(&["serve", "--port", "0"]))).await;
    let session = server.calls.session().await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    for _ in 0..2 {
        server.calls.post(&format!("/session/{session}/message"), &prompt).await.unwrap();
    }
    let told = |call: &Call| call.body["messages"].to_string().contains("Use tabs, everywhere.");
    let with_tools = |call: &&Call| call.body["tools"].is_array();
    let calls = fake.calls();
    assert_eq!(calls.iter().filter(with_tools).filter(|call| told(call)).count(), 2, "{calls:?}");
    server.stop().await;
    let log = fs::read_to_string(harness.data().join("log/baton.log")).unwrap();
    assert!(log.contains("cannot fetch instructions"), "the second time: {log}");
    assert!(!log.contains("sk-rules"), "an address may hold a key: {log}");
}
