//! The choice of the agent and the model for a prompt.

use drivers::roster::About;
use engine::ports::{SystemClock, SystemRandom};
use engine::session::Turn;
use llm::demo::Demo;
use native::{Native, Options, built_in};
use protocol::TurnEnd;
use protocol::agent::Abilities;
use serde_json::json;

use super::*;

fn roster() -> Roster {
    let model: Arc<dyn Model> = Arc::new(Demo::built_in().unwrap());
    let models = BTreeMap::from([("demo".to_owned(), model)]);
    let native =
        Native::new(models.clone(), Arc::new(SystemClock), Arc::new(SystemRandom), Options::default());
    Roster {
        agents: built_in(&[]).into_iter().chain([stranger().agent()]).collect(),
        commands: commands::all(Vec::new(), &[]),
        mcp: Servers::default(),
        models,
        model: ModelRef::new("demo", "baton"),
        missing: Arc::new(|provider| (provider == "acme").then(|| "set ACME_KEY".to_owned())),
        runner: Arc::new(native),
        external: vec![Arc::new(Stranger(stranger()))],
        snapshots: None,
        budget: Budget::default(),
        continuation: ContinuationPolicy { todos: true, ..ContinuationPolicy::default() },
    }
}

/// An external agent that never does anything.
struct Stranger(About);

impl Runner for Stranger {
    fn run(&self, _turn: Turn) -> BoxFuture<'static, TurnEnd> {
        future::ready(TurnEnd::Completed).boxed()
    }
}

impl External for Stranger {
    fn about(&self) -> &About {
        &self.0
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        future::ready(()).boxed()
    }
}

fn stranger() -> About {
    About {
        id: "stranger".into(),
        name: "Stranger".into(),
        description: "Somebody else.".into(),
        models: vec!["default".into(), "large".into()],
        has_providers: false,
        abilities: Abilities::LEAST,
    }
}

fn session(more: &serde_json::Value) -> Session {
    let mut session = json!({
        "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/", "title": "t", "version": "0",
        "time": { "created": 1, "updated": 1 },
    });
    session.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(session).unwrap()
}

fn resolve(session: &Session, agent: Option<&str>, model: Option<&ModelRef>) -> Result<String, String> {
    let resolved = roster().choose(&Wanted { session, agent, model });
    let shown = |it: Resolved| format!("{} {}/{}", it.agent, it.model.provider_id, it.model.model_id);
    resolved.map(shown).map_err(|error| error.to_string())
}

#[test]
fn only_agents_that_may_edit_continue_with_their_todos() {
    let plain = session(&json!({}));
    let goes_on = |agent| {
        let wanted = Wanted { session: &plain, agent: Some(agent), model: None };
        roster().choose(&wanted).unwrap().continuation.todos
    };
    assert!(goes_on("build") && goes_on("stranger"));
    assert!(!goes_on("plan") && !goes_on("explore"));
}

#[test]
fn a_prompt_gets_the_agent_and_model_it_names_or_the_defaults() {
    let plain = session(&json!({}));
    let used = session(&json!({ "agent": "plan", "model": { "id": "slow", "providerID": "demo" } }));
    assert_eq!(resolve(&plain, None, None).unwrap(), "build demo/baton");
    assert_eq!(resolve(&used, None, None).unwrap(), "build demo/slow");
    let simple = ModelRef::new("demo", "simple");
    assert_eq!(resolve(&used, Some("build"), Some(&simple)).unwrap(), "build demo/simple");
    assert_eq!(resolve(&plain, Some("general"), None).unwrap(), "general demo/baton");
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let plain = session(&json!({}));
    let error = resolve(&plain, Some("nobody"), None).unwrap_err();
    assert!(error.contains("nobody") && error.contains("build, plan, general, explore"), "{error}");
    for (provider, model, reason) in [
        ("demo", "no_such", "demo has no such model"),
        ("nowhere", "baton", "there is no provider \"nowhere\""),
        ("acme", "large", "set ACME_KEY"),
    ] {
        let error = resolve(&plain, None, Some(&ModelRef::new(provider, model))).unwrap_err();
        let name = format!("{provider}/{model}");
        assert!([&name, reason, "demo/..."].iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn an_external_agent_runs_only_its_own_models() {
    let plain = session(&json!({}));
    let used = session(&json!({ "model": { "id": "large", "providerID": "stranger" } }));
    assert_eq!(resolve(&plain, Some("stranger"), None).unwrap(), "stranger stranger/default");
    let large = ModelRef::new("stranger", "large");
    assert_eq!(resolve(&plain, Some("stranger"), Some(&large)).unwrap(), "stranger stranger/large");
    assert_eq!(resolve(&plain, None, Some(&large)).unwrap(), "build stranger/large");
    assert_eq!(resolve(&used, None, None).unwrap(), "build stranger/large", "the session goes on with it");
    let roster = roster();
    let native = Arc::as_ptr(&roster.runner).cast::<()>();
    let runs = |model: &ModelRef| Arc::as_ptr(&roster.runner(model)).cast::<()>() == native;
    assert!(runs(&ModelRef::new("demo", "baton")) && !runs(&large));
    for (model, reason) in [
        (ModelRef::new("demo", "baton"), "works with its own models, such as stranger/default"),
        (ModelRef::new("stranger", "small"), "stranger has no such model"),
    ] {
        let error = resolve(&plain, Some("stranger"), Some(&model)).unwrap_err();
        assert!(error.contains(reason) && error.contains("stranger/..."), "{error}");
    }
}
