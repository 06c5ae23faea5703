//! What happens on a chat service, seen by a person who uses it.
//!
//! A fake puts every message it accepts here, and every rule that was broken. A test plays the person through
//! [`Platform`], or over HTTP under `/control`:
//!
//! | call | what it does |
//! |---|---|
//! | `POST /control/say` | a person says something: [`Said`] |
//! | `POST /control/tap` | a person chooses a button: [`Tap`] |
//! | `POST /control/stop` | a person uses the service's own way to stop: `{chat, thread}` |
//! | `POST /control/repeat` | the service delivers the last update once more |
//! | `POST /control/fault` | the next calls of a method go wrong: [`Planned`] |
//! | `POST /control/release` | calls that are held go on |
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

/// How long a call is held, and how long a look at the state waits, at most.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a fake lets a test do.
pub trait Platform: Send + Sync + 'static {
    /// What a person sees.
    fn stage(&self) -> &Stage;

    /// A person says something. Returns the message's id.
    fn say(&self, said: Said) -> String;

    /// A person chooses a button.
    fn tap(&self, tap: Tap);

    /// A person uses the service's own way to stop what is running, where there is one.
    fn stop(&self, _chat: &str, _thread: Option<&str>) {}

    /// Delivers the last update once more, as services do when they are not sure.
    fn repeat(&self);
}

/// What a person says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Said {
    /// In which chat.
    pub chat: String,
    /// In which topic or thread of it.
    pub thread: Option<String>,
    /// Who, by their id.
    pub from: String,
    /// Who, for people.
    pub name: String,
    /// The words.
    pub text: String,
    /// Whether others are in the chat.
    pub is_group: bool,
    /// What comes with the words.
    pub file: Option<GivenFile>,
}

/// A file that a person sends.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct GivenFile {
    /// Its name.
    pub name: String,
    /// Its media type.
    pub mime: String,
    /// Its bytes, in base 64.
    pub base64: String,
}

/// A button that a person chooses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Tap {
    /// The message that has it.
    pub message: String,
    /// What is written on it.
    pub label: String,
    /// Who, by their id.
    pub from: String,
    /// Who, for people.
    pub name: String,
}

/// A message of the bot, as a person sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its id.
    pub id: String,
    /// In which chat.
    pub chat: String,
    /// In which topic or thread of it.
    pub thread: Option<String>,
    /// The words, as they were sent, in the service's markup.
    pub text: String,
    /// The buttons.
    pub buttons: Vec<ShownButton>,
    /// The file.
    pub file: Option<ShownFile>,
    /// The message it answers.
    pub reply_to: Option<String>,
    /// Every text it had before.
    pub before: Vec<String>,
    /// Whether it was taken back.
    pub is_removed: bool,
}

/// A button, as a person sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShownButton {
    /// What is written on it.
    pub label: String,
    /// What it carries.
    pub token: String,
}

/// A file, as a person gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShownFile {
    /// Its name.
    pub name: String,
    /// Its media type.
    pub mime: String,
    /// Its text.
    pub text: String,
}

/// Something that goes wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Fault {
    /// 429, to be tried again after so many seconds. Nothing is done.
    Busy {
        /// How many.
        after: u64,
    },
    /// 503. Nothing is done.
    Unavailable,
    /// 500. Nothing is done, which the caller cannot know.
    Broken,
    /// It is done, and the connection breaks before the answer.
    Cut,
    /// Nothing is done until the test says so.
    Hold,
}

/// What is to go wrong.
#[derive(Debug, Clone, Deserialize)]
pub struct Planned {
    /// The method, in the service's words.
    pub method: String,
    /// How often.
    #[serde(default = "once")]
    pub times: usize,
    /// What.
    #[serde(flatten)]
    pub fault: Fault,
}

fn once() -> usize {
    1
}

/// Everything there is to see.
#[derive(Debug, Clone, Default, Serialize)]
pub struct State {
    /// Grows with every change.
    pub version: u64,
    /// The bot's messages, oldest first.
    pub messages: Vec<Shown>,
    /// How often each chat was told that the bot is typing.
    pub typing: BTreeMap<String, usize>,
    /// How often each method was called.
    pub calls: BTreeMap<String, usize>,
    /// Which calls are held.
    pub held: Vec<String>,
    /// Words that were shown to a person who chose a button.
    pub understood: Vec<String>,
    /// How many updates were acknowledged.
    pub acknowledged: usize,
    /// Rules that were broken.
    pub problems: Vec<String>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    faults: BTreeMap<String, VecDeque<Fault>>,
}

/// What happens, and what is to go wrong.
#[derive(Debug)]
pub struct Stage {
    inner: Mutex<Inner>,
    version: watch::Sender<u64>,
    releases: watch::Sender<u64>,
}

impl Default for Stage {
    fn default() -> Self {
        Self { inner: Mutex::default(), version: watch::Sender::new(0), releases: watch::Sender::new(0) }
    }
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what there is to see.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner.state);
        inner.state.version += 1;
        self.version.send_replace(inner.state.version);
        result
    }

    /// What there is to see now.
    pub fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// Shows a message.
    pub fn show(&self, message: Shown) {
        self.change(|state| state.messages.push(message));
    }

    /// Changes a message, if there is one with this id that was not taken back.
    pub fn edit(&self, id: &str, edit: impl FnOnce(&mut Shown)) -> bool {
        self.change(|state| {
            let found = state.messages.iter_mut().find(|it| it.id == id && !it.is_removed);
            found.map(edit).is_some()
        })
    }

    /// Writes down that a rule was broken.
    pub fn problem(&self, problem: impl Into<String>) {
        self.change(|state| state.problems.push(problem.into()));
    }

    /// Notes that the bot is typing.
    pub fn typing(&self, chat: &str) {
        self.change(|state| *state.typing.entry(chat.to_owned()).or_default() += 1);
    }

    /// Plans that something goes wrong.
    pub fn plan(&self, planned: &Planned) {
        let mut inner = self.lock();
        let faults = inner.faults.entry(planned.method.clone()).or_default();
        faults.extend(std::iter::repeat_n(planned.fault, planned.times));
    }

    /// Counts a call of a method and says what is to go wrong with it. A call that is to be held has been, when this
    /// returns: nothing more is wrong with it.
    pub async fn call(&self, method: &str) -> Option<Fault> {
        self.change(|state| *state.calls.entry(method.to_owned()).or_default() += 1);
        let fault = self.lock().faults.get_mut(method).and_then(VecDeque::pop_front)?;
        if fault != Fault::Hold {
            return Some(fault);
        }
        let mut releases = self.releases.subscribe();
        self.change(|state| state.held.push(method.to_owned()));
        // A caller that goes away ends this, too.
        let _ = tokio::time::timeout(PATIENCE, releases.changed()).await;
        None
    }

    /// Lets calls that are held go on, and holds no more.
    pub fn release(&self) {
        for faults in self.lock().faults.values_mut() {
            faults.retain(|fault| *fault != Fault::Hold);
        }
        self.change(|state| state.held.clear());
        self.releases.send_modify(|count| *count += 1);
    }

    /// Waits until there is something to see; an error if it does not come.
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

    /// Everything there is to see; if a version is given, as soon as there is something newer.
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

/// The control interface of a fake, to be served beside its wire.
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
                done(|| it.stage().plan(&planned))
            }),
        )
        .route("/control/release", post(async |Shared(it): Fake<P>| done(|| it.stage().release())))
        .route(
            "/control/state",
            get(async |Shared(it): Fake<P>, Query(look): Query<Look>| {
                Json(it.stage().after(look.after).await)
            }),
        )
        .with_state(platform)
}

fn done(action: impl FnOnce()) -> Json<Value> {
    action();
    Json(json!({}))
}
