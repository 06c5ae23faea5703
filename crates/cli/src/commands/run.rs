//! `baton run`: runs one turn and watches it from its prompt to its idle.

mod answers;
mod diff;
mod follow;
mod input;
mod loopback;
mod screen;
mod trouble;
mod words;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use engine::{
    mint::Mint,
    ports::{SystemClock, SystemRandom},
};
use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt, pending},
};
use owo_colors::OwoColorize;
use protocol::{Event, EventBody, MessageError, MessageId, Session};
use store::files::spelling::closest;
use tokio::time::{Instant, sleep_until};

use super::{
    host::{Choice, Events, Host},
    models,
};
use crate::{
    args::{Format, Run},
    exit::{Exit, Failure},
    signals::{SignalOrigin, Signals},
    terminal,
    wiring::Purpose,
};
use answers::Answers;
use follow::Follower;
use input::Input;
use loopback::LoopbackServer;
use screen::Screen;

/// Timeout for the last events of a turn after its session is known to be idle: the second event of the idle
/// pair, or both from a server that does not replay missed events.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs one turn. The exit code tells how it ended.
pub(crate) async fn run(options: Run) -> Result<Exit, Failure> {
    let signals = Signals::catch();
    if options.fork && options.session.is_none() && !options.resume {
        return Err(Failure::usage("--fork needs a session to copy").hint("add --continue or --session ID"));
    }
    let here = here(&options)?;
    let message = Mint::new(Arc::new(SystemClock), Arc::new(SystemRandom)).id::<MessageId>();
    let input = Input::read(&options, &message).await?;
    let (host, engine) = Host::open(&options.engine, options.attach.as_deref(), &here, Purpose::Run).await?;
    // Plugins run their shutdown hooks when the engine closes and may call the server then.
    let mut loopback = None;
    let ended = Box::pin(async {
        let place = TurnTarget::find(&options, &host, &here).await?;
        if let Some(engine) = &engine {
            loopback = LoopbackServer::open(engine, &place.directory).await;
        }
        take_turn(&options, host, place, input, message, signals).await
    });
    let ended = ended.await;
    if let Some(engine) = engine {
        engine.close().await;
    }
    drop(loopback);
    ended
}

/// The directory to work in. With `--attach` it may be one of another machine.
fn here(options: &Run) -> Result<PathBuf, Failure> {
    let wanted = options.dir.as_deref().unwrap_or(Path::new("."));
    match wanted.canonicalize() {
        Ok(here) if here.is_dir() => Ok(here),
        Ok(_) => Err(Failure::usage(format!("{} is not a directory", wanted.display()))),
        Err(_) if options.attach.is_some() && wanted.is_absolute() => Ok(wanted.to_owned()),
        Err(error) => Err(Failure::usage(format!("cannot use the directory {}: {error}", wanted.display()))),
    }
}

/// Session and directory of the turn; without a session it gets a new one.
struct TurnTarget {
    session: Option<Session>,
    directory: String,
}

impl TurnTarget {
    async fn find(options: &Run, host: &Host, here: &Path) -> Result<Self, Failure> {
        let here = here.to_str().ok_or_else(|| Failure::usage("the directory's name is not UTF-8"))?;
        let mut session = host.find(&Choice::of(options), here).await?;
        if let Some(original) = session.as_ref().filter(|_| options.fork) {
            session = Some(host.clone().at(&original.directory).fork(&original.id).await?);
        }
        let directory = session.as_ref().map_or(here, |session| session.directory.as_str()).to_owned();
        Ok(Self { session, directory })
    }
}

async fn take_turn(
    options: &Run,
    host: Host,
    TurnTarget { session, directory }: TurnTarget,
    input: Input,
    message: MessageId,
    signals: Signals,
) -> Result<Exit, Failure> {
    let host = host.at(&directory);
    // Subscribes before the session exists, so that the stream includes its creation.
    let mut events = host.events(&directory).await?;
    let (session, is_new) = match session {
        Some(session) => (session, options.fork),
        None => (host.create(&directory, options.title.clone()).await?, true),
    };
    let command: BoxFuture<'static, Result<(), Failure>> = match input {
        Input::Prompt(prompt) => {
            if let Err(refused) = host.submit(&session.id, *prompt).await {
                let refused = suggest(options, &host, &directory, refused).await;
                return Err(withdraw(&host, &session, is_new, refused).await);
            }
            pending().boxed()
        }
        Input::Command(command) => {
            let (host, id) = (host.clone(), session.id.clone());
            async move { host.command(&id, *command).await }.boxed()
        }
    };
    let turn = Turn {
        screen: Screen::new(options, &session.id),
        follower: Follower::new(session.id.clone(), message),
        answers: Answers::new(options),
        format: options.format,
        host: host.clone(),
        directory,
        signals,
        stopping: false,
        last_words: None,
    };
    match Box::pin(turn.watch(&mut events, command)).await {
        Err(Refused::Command(refused)) => Err(withdraw(&host, &session, is_new, refused).await),
        Err(Refused::Failed(failure)) => Err(failure),
        Ok(exit) => Ok(exit),
    }
}

/// Deletes a new session whose prompt was refused, because `--continue` would pick the empty session. If it cannot be
/// deleted, the refusal is still the news.
async fn withdraw(host: &Host, session: &Session, is_new: bool, refused: Failure) -> Failure {
    if is_new {
        let _ = host.delete(&session.id).await;
    }
    refused
}

/// Adds the model that the user probably meant, if the prompt was refused because of its model.
async fn suggest(options: &Run, host: &Host, directory: &str, refused: Failure) -> Failure {
    let named = options.model.as_deref().filter(|_| refused.exit == Exit::Usage);
    let Some(name) = refused.unknown_model().or(named).map(str::to_owned) else { return refused };
    // Without the list there is only the refusal.
    let Ok(providers) = host.providers(directory).await else { return refused };
    let models = models::names(providers);
    if models.contains(&name) {
        return refused;
    }
    let refused = match closest(&name, &models) {
        Some(meant) => refused.hint(format!("did you mean {meant}?")),
        None => refused,
    };
    refused.hint("`baton models` lists the models that can be used")
}

/// Error message about the directory instead of a session, such as a plugin that was skipped or failed.
fn about_plugins(event: &Event) -> Option<&str> {
    match &event.body {
        EventBody::SessionError(it) if it.session_id.is_none() => {
            it.error.as_ref().map(MessageError::message)
        }
        _ => None,
    }
}

/// A turn that did not run to its end.
enum Refused {
    /// The slash command was refused, so nothing was stored.
    Command(Failure),
    /// A call or an output failed.
    Failed(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// State of the turn that is being watched.
struct Turn {
    host: Host,
    directory: String,
    follower: Follower,
    screen: Screen,
    answers: Answers,
    format: Format,
    signals: Signals,
    /// The user or the system asked to stop.
    stopping: bool,
    /// Deadline for the last events.
    last_words: Option<Instant>,
}

impl Turn {
    /// Watches the turn, and runs the slash command that starts it, if it is one.
    async fn watch(
        mut self,
        events: &mut Events,
        mut command: BoxFuture<'static, Result<(), Failure>>,
    ) -> Result<Exit, Refused> {
        self.warn().await;
        self.screen.wait();
        loop {
            let patience = self.last_words.unwrap_or_else(Instant::now);
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => {
                        if let Some(exit) = self.see(&event?).await? {
                            return Ok(exit);
                        }
                    }
                    None => return Ok(self.end(Exit::Interrupted)),
                },
                ran = &mut command => {
                    command = pending().boxed();
                    match ran {
                        Err(refused) if !self.follower.is_accepted() => return Err(Refused::Command(refused)),
                        // A command such as `/stop` changes the session without a turn.
                        Ok(()) if !self.follower.is_accepted() => return Ok(self.end(Exit::Completed)),
                        // The session's idle follows.
                        Ok(()) | Err(_) => {}
                    }
                }
                line = self.answers.line() => {
                    if let Some(reply) = self.answers.take(line) {
                        self.host.reply(reply).await?;
                    }
                    self.screen.hold(self.answers.is_asking());
                }
                asked = self.signals.next() => {
                    if self.stop(asked) {
                        return Ok(self.end(Exit::Aborted));
                    }
                }
                () = sleep_until(patience), if self.last_words.is_some() => {
                    return Ok(self.end(self.follower.reason().into()));
                }
            }
        }
    }

    /// Shows an event and answers its request. Returns the exit code once the turn is over.
    async fn see(&mut self, event: &Event) -> Result<Option<Exit>, Failure> {
        if matches!(event.body, EventBody::ServerConnected(_) | EventBody::ServerResync(_)) {
            if self.host.is_idle(self.follower.session()).await? {
                self.last_words = Some(Instant::now() + LAST_WORDS);
            }
            return Ok(None);
        }
        let ended = self.follower.observe(event);
        if let Some(trouble) = about_plugins(event) {
            self.screen.warn(trouble);
        }
        if self.follower.concerns(event) {
            self.screen.show(event)?;
            self.complain(event).await;
            let was_asking = self.answers.is_asking();
            let child = self.follower.child(event);
            if let Some(reply) = self.answers.see(event, child, &mut self.screen) {
                self.host.reply(reply).await?;
            }
            if was_asking {
                self.screen.hold(self.answers.is_asking());
            }
        }
        if self.follower.is_idle() {
            self.last_words.get_or_insert_with(|| Instant::now() + LAST_WORDS);
        }
        let Some(reason) = ended else { return Ok(None) };
        // MCP servers and plugins start with the turn, so some warnings are only known now.
        self.warn().await;
        Ok(Some(self.end(reason.into())))
    }

    /// Prints the warnings about the directory's configuration that are not on the screen yet.
    async fn warn(&mut self) {
        // A server that does not report warnings has none to show.
        for warning in self.host.diagnostics(&self.directory).await.unwrap_or_default() {
            self.screen.warn(&warning);
        }
    }

    /// Prints the error of the turn. An abort is no error.
    async fn complain(&mut self, event: &Event) {
        let EventBody::SessionError(it) = &event.body else { return };
        let Some(error) = it.error.as_ref().filter(|it| !matches!(it, MessageError::Aborted { .. })) else {
            return;
        };
        if self.format == Format::Json || it.session_id.as_ref() != Some(self.follower.session()) {
            return;
        }
        self.screen.end();
        let model = self.screen.model();
        let failure = match trouble::refused_key(error, model) {
            None => trouble::of_turn(error),
            Some(provider) => {
                // Without the list of providers the error only lacks the source of the key.
                let known = self.host.providers(&self.directory).await.unwrap_or_default();
                trouble::key_refused(error, provider, model, &known)
            }
        };
        terminal::complain(&failure);
    }

    /// Aborts the turn. Returns true on the second signal: the user does not want to wait.
    fn stop(&mut self, asked: SignalOrigin) -> bool {
        if std::mem::replace(&mut self.stopping, true) {
            return true;
        }
        let (host, session) = (self.host.clone(), self.follower.session().clone());
        // The loop waits for the session's idle, so it need not wait for this call.
        tokio::spawn(async move {
            let stopped = match asked {
                SignalOrigin::User => host.abort(&session).await,
                SignalOrigin::System => host.interrupt(&session).await,
            };
            if let Err(failure) = stopped {
                terminal::complain(&failure);
            }
        });
        false
    }

    /// Says how the turn ended, if the answer does not show it, and which session it belongs to.
    fn end(&mut self, exit: Exit) -> Exit {
        self.screen.end();
        if self.format == Format::Json {
            return exit;
        }
        let said = match exit {
            Exit::Blocked => Some(self.answers.blocked()),
            Exit::Aborted => Some("aborted".to_owned()),
            Exit::Interrupted => Some("interrupted: the server was stopped".to_owned()),
            Exit::Budget => Some("stopped: the turn reached a budget limit".to_owned()),
            Exit::Completed => self.screen.shortfall().map(|why| format!("{} {why}", "warning:".yellow())),
            Exit::Error | Exit::Usage | Exit::Lost => None,
        };
        let session = format!("session {}", self.follower.session()).dimmed().to_string();
        self.screen.report(&said.into_iter().chain([session]).collect::<Vec<_>>());
        exit
    }
}
