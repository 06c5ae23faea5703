//! The state of a fake chat service, as its user sees it.
//!
//! A fake adds every message it accepts, and every broken rule. A test acts as the user through [`Platform`], or
//! over HTTP under `/control`:
//!
//! | call | what it does |
//! |---|---|
//! | `POST /control/say` | the user sends a message: [`UserMessage`] |
//! | `POST /control/tap` | the user chooses a button: [`Tap`] |
//! | `POST /control/stop` | the user stops the turn with the service's own means: `{chat, thread}` |
//! | `POST /control/repeat` | the service delivers the last update once more |
//! | `POST /control/fault` | the next calls of a method fail: [`Planned`] |
//! | `POST /control/release` | held calls continue |
//! | `GET /control/state` | everything: [`State`]; with `?after=N`, as soon as there is a change after version N |

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Result, anyhow};
use axum::{
    Json, Router,
    extract::{Query, State as Shared},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Maximum time that a call is held, and that a test waits for a state.
const PATIENCE: Duration = Duration::from_mins(1);

/// The user's side of a fake, for tests.
pub trait Platform: Send + Sync + 'static {
    fn service_state(&self) -> &ServiceState;

    /// The user sends a message. Returns its id.
    fn say(&self, said: UserMessage) -> String;

    /// The user chooses a button.
    fn tap(&self, tap: Tap);

    /// The user stops the turn with the service's own means, where there is one.
    fn stop(&self, _chat: &str, _thread: Option<&str>) {}

    /// Delivers the last update once more, as services do when an acknowledgement is lost.
    fn repeat(&self);
}

/// A message of the user.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserMessage {
    pub chat: String,
    /// The topic or thread in the chat.
    pub thread: Option<String>,
    pub from: String,
    /// The user's display name.
    pub name: String,
    pub text: String,
    /// True if the chat is a group.
    pub is_group: bool,
    pub file: Option<GivenFile>,
}

/// A file that the user sends.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct GivenFile {
    pub name: String,
    pub mime: String,
    /// The content in base 64.
    pub base64: String,
}

/// A button that the user chooses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Tap {
    /// The message with the button.
    pub message: String,
    pub label: String,
    pub from: String,
    /// The user's display name.
    pub name: String,
}

/// A message of the bot, as the user sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    pub id: String,
    pub chat: String,
    /// The topic or thread in the chat.
    pub thread: Option<String>,
    /// The text as it was sent, in the service's markup.
    pub text: String,
    pub buttons: Vec<ShownButton>,
    pub file: Option<ShownFile>,
    /// The message that it replies to.
    pub reply_to: Option<String>,
    /// Every earlier text of an edited message.
    pub before: Vec<String>,
    /// True if the bot deleted it.
    pub is_removed: bool,
}

/// A button, as the user sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShownButton {
    pub label: String,
    /// The data that the service sends back when the button is chosen.
    pub token: String,
}

/// A file, as the user receives it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShownFile {
    pub name: String,
    pub mime: String,
    pub text: String,
}

/// A planned failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum ServiceFault {
    /// Answers 429 with `Retry-After`. The call has no effect.
    Busy {
        /// Seconds to wait.
        after: u64,
    },
    /// Answers 503. The call has no effect.
    Unavailable,
    /// Answers 500. The call has no effect, which the caller cannot know.
    Broken,
    /// Performs the call and breaks the connection before the answer.
    Cut,
    /// Holds the call until the test releases it.
    Hold,
}

/// A fault for the next calls of a method.
#[derive(Debug, Clone, Deserialize)]
pub struct Planned {
    /// The service's name of the method.
    pub method: String,
    /// Number of calls to fail.
    #[serde(default = "once")]
    pub times: usize,
    #[serde(flatten)]
    pub fault: ServiceFault,
}

fn once() -> usize {
    1
}

/// Everything that a test can observe.
#[derive(Debug, Clone, Default, Serialize)]
pub struct State {
    /// Grows with every change.
    pub version: u64,
    /// The bot's messages, oldest first.
    pub messages: Vec<Shown>,
    /// Number of typing indications in each chat.
    pub typing: BTreeMap<String, usize>,
    /// Number of calls of each method.
    pub calls: BTreeMap<String, usize>,
    /// Methods of the held calls.
    pub held: Vec<String>,
    /// Texts shown to a user who chose a button.
    pub understood: Vec<String>,
    /// Number of acknowledged updates.
    pub acknowledged: usize,
    /// Rules that the bot has broken.
    pub problems: Vec<String>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    faults: BTreeMap<String, VecDeque<ServiceFault>>,
}

/// The observable state, and the planned faults.
#[derive(Debug)]
pub struct ServiceState {
    inner: Mutex<Inner>,
    version: watch::Sender<u64>,
    releases: watch::Sender<u64>,
}

impl Default for ServiceState {
    fn default() -> Self {
        Self { inner: Mutex::default(), version: watch::Sender::new(0), releases: watch::Sender::new(0) }
    }
}

impl ServiceState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes all waiting tests.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner.state);
        inner.state.version += 1;
        self.version.send_replace(inner.state.version);
        result
    }

    pub fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// Adds a message.
    pub fn show(&self, message: Shown) {
        self.change(|state| state.messages.push(message));
    }

    /// Edits the message with this id; returns false if it does not exist or was deleted.
    pub fn edit(&self, id: &str, edit: impl FnOnce(&mut Shown)) -> bool {
        self.change(|state| {
            let found = state.messages.iter_mut().find(|it| it.id == id && !it.is_removed);
            found.map(edit).is_some()
        })
    }

    /// Records a broken rule.
    pub fn problem(&self, problem: impl Into<String>) {
        self.change(|state| state.problems.push(problem.into()));
    }

    /// Records a typing indication.
    pub fn typing(&self, chat: &str) {
        self.change(|state| *state.typing.entry(chat.to_owned()).or_default() += 1);
    }

    pub fn plan(&self, planned: &Planned) {
        let mut inner = self.lock();
        let faults = inner.faults.entry(planned.method.clone()).or_default();
        faults.extend(std::iter::repeat_n(planned.fault, planned.times));
    }

    /// Counts a call of a method and returns the fault planned for it. A held call returns `None` once it is
    /// released.
    pub async fn call(&self, method: &str) -> Option<ServiceFault> {
        self.change(|state| *state.calls.entry(method.to_owned()).or_default() += 1);
        let fault = self.lock().faults.get_mut(method).and_then(VecDeque::pop_front)?;
        if fault != ServiceFault::Hold {
            return Some(fault);
        }
        let mut releases = self.releases.subscribe();
        self.change(|state| state.held.push(method.to_owned()));
        // If the caller disconnects, this future is dropped.
        let _ = tokio::time::timeout(PATIENCE, releases.changed()).await;
        None
    }

    /// Releases all held calls, and drops planned holds.
    pub fn release(&self) {
        for faults in self.lock().faults.values_mut() {
            faults.retain(|fault| *fault != ServiceFault::Hold);
        }
        self.change(|state| state.held.clear());
        self.releases.send_modify(|count| *count += 1);
    }

    /// Waits until `look` returns something; fails after a minute.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut(&State) -> Option<T>) -> Result<T> {
        let mut version = self.version.subscribe();
        let waiting = async {
            loop {
                version.mark_unchanged();
                if let Some(found) = look(&self.lock().state) {
                    return found;
                }
                if version.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        found.map_err(|_| anyhow!("{what} did not come: {:#?}", self.state()))
    }

    /// The state; with a version, as soon as there is a newer one.
    async fn after(&self, version: Option<u64>) -> State {
        let Some(version) = version else { return self.state() };
        let mut versions = self.version.subscribe();
        let newer = versions.wait_for(|now| *now > version);
        let _ = tokio::time::timeout(Duration::from_secs(10), newer).await;
        self.state()
    }
}

#[derive(Debug, Deserialize)]
struct Look {
    after: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Stop {
    chat: String,
    thread: Option<String>,
}

type Fake<P> = Shared<Arc<P>>;

/// The control interface of a fake, to be served beside its protocol.
pub fn control<P: Platform>(platform: Arc<P>) -> Router {
    Router::new()
        .route(
            "/control/say",
            post(async |Shared(it): Fake<P>, Json(said)| Json(json!({"id": it.say(said)}))),
        )
        .route("/control/tap", post(async |Shared(it): Fake<P>, Json(tap)| done(|| it.tap(tap))))
        .route(
            "/control/stop",
            post(async |Shared(it): Fake<P>, Json(stop): Json<Stop>| {
                done(|| it.stop(&stop.chat, stop.thread.as_deref()))
            }),
        )
        .route("/control/repeat", post(async |Shared(it): Fake<P>| done(|| it.repeat())))
        .route(
            "/control/fault",
            post(async |Shared(it): Fake<P>, Json(planned): Json<Planned>| {
                done(|| it.service_state().plan(&planned))
            }),
        )
        .route("/control/release", post(async |Shared(it): Fake<P>| done(|| it.service_state().release())))
        .route(
            "/control/state",
            get(async |Shared(it): Fake<P>, Query(look): Query<Look>| {
                Json(it.service_state().after(look.after).await)
            }),
        )
        .with_state(platform)
}

fn done(action: impl FnOnce()) -> Json<Value> {
    action();
    Json(json!({}))
}
