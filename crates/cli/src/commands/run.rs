//! `baton run`: runs one turn in the current directory and watches it from its prompt to its idle.

mod answers;
mod diff;
mod door;
mod follow;
mod host;
mod screen;

use std::{path::Path, pin::pin, sync::Arc, time::Duration};

use engine::{
    mint::Mint,
    ports::{SystemClock, SystemRandom},
};
use futures::StreamExt;
use protocol::{Event, EventBody, MessageError, MessageId, Session, message::ModelRef, prompt::PromptInput};
use tokio::{
    io::AsyncReadExt,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    args::Run,
    environment,
    exit::{Exit, Failure},
    logging,
    signals::{Asked, Signals},
    terminal,
    wiring::{self, Engine, Unavailable},
};
use answers::Answers;
use door::Door;
use follow::Follower;
use host::{Choice, Events, Host};
use screen::Screen;

/// Timeout for the last events of a turn after its session is known to be idle: the second event of the idle
/// pair, or both from a server that does not replay missed events.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Time without an end of standard input after which the user is told that the program waits for it.
const INPUT_NOTICE: Duration = Duration::from_secs(3);

/// Runs one turn. The exit code tells how it ended.
pub(crate) async fn run(options: Run) -> Result<Exit, Failure> {
    let signals = Signals::catch();
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let here = here.map_err(|error| Failure::usage(format!("cannot use the current directory: {error}")))?;
    let message = Mint::new(Arc::new(SystemClock), Arc::new(SystemRandom)).id::<MessageId>();
    let prompt = PromptInput { message_id: Some(message.clone()), ..prompt(&options).await? };
    let (host, engine) = host(&options, &here).await?;
    // Plugins run their shutdown hooks when the engine closes and may call the server then.
    let mut door = None;
    let ended = Box::pin(async {
        let place = Place::find(&options, &host, &here).await?;
        if let Some(engine) = &engine {
            door = Door::open(engine, &place.directory).await;
        }
        take_turn(&options, host, place, prompt, message, signals).await
    });
    let ended = ended.await;
    if let Some(engine) = engine {
        engine.close().await;
    }
    drop(door);
    ended
}

/// Session and directory of the turn; without a session it gets a new one.
struct Place {
    session: Option<Session>,
    directory: String,
}

impl Place {
    async fn find(options: &Run, host: &Host, here: &Path) -> Result<Self, Failure> {
        let here =
            here.to_str().ok_or_else(|| Failure::usage("the current directory's name is not UTF-8"))?;
        let session = host.find(&Choice::of(options), here).await?;
        let directory = session.as_ref().map_or(here, |session| session.directory.as_str()).to_owned();
        Ok(Self { session, directory })
    }
}

/// The server named by `--attach`, an engine in this process, or the server that owns the data directory.
async fn host(options: &Run, here: &Path) -> Result<(Host, Option<Engine>), Failure> {
    if let Some(address) = &options.attach {
        return Ok((Host::Remote(environment::client(address)?), None));
    }
    let places = wiring::places(&options.engine)?;
    let target = if options.engine.print_logs {
        logging::Target::Terminal
    } else {
        logging::Target::File(&places.log)
    };
    logging::start(&target, options.engine.log_level);
    match wiring::engine(&options.engine, here).await {
        Ok(engine) => Ok((Host::Local(engine.sessions.clone()), Some(engine))),
        Err(Unavailable::Owned { address: Some(address), .. }) => {
            if terminal::is_watched() {
                terminal::note(&format!("using the server at {address}"));
            }
            Ok((Host::Remote(environment::client(&address)?), None))
        }
        Err(unavailable) => {
            Err(Failure::from(unavailable).hint("use --attach URL to connect to a running server"))
        }
    }
}

/// The prompt of the command line, followed by standard input if that is a pipe or a file.
async fn prompt(options: &Run) -> Result<PromptInput, Failure> {
    let written = options.prompt.as_deref().filter(|text| *text != "-");
    if options.prompt.is_none() && !terminal::is_fed() {
        return Err(Failure::usage("there is no prompt").hint("baton run \"what is in this directory?\""));
    }
    let piped = if written.is_none() || terminal::is_fed() { piped().await? } else { String::new() };
    let text = match written {
        Some(written) if piped.trim().is_empty() => written.to_owned(),
        Some(written) => format!("{written}\n\n{piped}"),
        None => piped,
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty"));
    }
    let model = options.model.as_deref().map(model).transpose()?;
    Ok(PromptInput { model, agent: options.agent.clone(), ..PromptInput::text(text) })
}

/// Reads standard input to its end. Says so if that takes long: the writer may have forgotten to close it.
async fn piped() -> Result<String, Failure> {
    let mut text = String::new();
    let mut input = tokio::io::stdin();
    let mut read = pin!(input.read_to_string(&mut text));
    let read = if let Ok(read) = timeout(INPUT_NOTICE, &mut read).await {
        read
    } else {
        terminal::note("reading standard input to its end; `< /dev/null` gives none");
        read.await
    };
    read.map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    Ok(text)
}

fn model(name: &str) -> Result<ModelRef, Failure> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(ModelRef::new(provider, model))
        }
        _ => Err(Failure::usage(format!("\"{name}\" is not a model"))
            .hint("name a model with its provider, such as demo/baton")),
    }
}

async fn take_turn(
    options: &Run,
    host: Host,
    Place { session, directory }: Place,
    prompt: PromptInput,
    message: MessageId,
    signals: Signals,
) -> Result<Exit, Failure> {
    let host = host.at(&directory);
    // Subscribes before the session exists, so that the stream includes its creation.
    let mut events = host.events(&directory).await?;
    let (session, is_new) = match session {
        Some(session) => (session, false),
        None => (host.create(&directory).await?, true),
    };
    if let Err(refused) = host.submit(&session.id, prompt).await {
        // `--continue` would pick the empty session. If it cannot be deleted, the refusal is still the news.
        if is_new {
            let _ = host.delete(&session.id).await;
        }
        return Err(refused);
    }
    let turn = Turn {
        screen: Screen::new(options.format, &session.id),
        follower: Follower::new(session.id.clone(), message),
        answers: Answers::new(options),
        host,
        signals,
        stopping: false,
        last_words: None,
    };
    Box::pin(turn.watch(&mut events)).await
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

/// State of the turn that is being watched.
struct Turn {
    host: Host,
    follower: Follower,
    screen: Screen,
    answers: Answers,
    signals: Signals,
    /// The user or the system asked to stop.
    stopping: bool,
    /// Deadline for the last events.
    last_words: Option<Instant>,
}

impl Turn {
    async fn watch(mut self, events: &mut Events) -> Result<Exit, Failure> {
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
            let was_asking = self.answers.is_asking();
            if let Some(reply) = self.answers.see(event, &mut self.screen) {
                self.host.reply(reply).await?;
            }
            if was_asking {
                self.screen.hold(self.answers.is_asking());
            }
        }
        if self.follower.is_idle() {
            self.last_words.get_or_insert_with(|| Instant::now() + LAST_WORDS);
        }
        Ok(ended.map(|reason| self.end(reason.into())))
    }

    /// Aborts the turn. Returns true on the second signal: the user does not want to wait.
    fn stop(&mut self, asked: Asked) -> bool {
        if std::mem::replace(&mut self.stopping, true) {
            return true;
        }
        let (host, session) = (self.host.clone(), self.follower.session().clone());
        // The loop waits for the session's idle, so it need not wait for this call.
        tokio::spawn(async move {
            let stopped = match asked {
                Asked::Person => host.abort(&session).await,
                Asked::System => host.interrupt(&session).await,
            };
            if let Err(failure) = stopped {
                terminal::complain(&failure);
            }
        });
        false
    }

    fn end(&mut self, exit: Exit) -> Exit {
        self.screen.end();
        let said = match exit {
            Exit::Blocked => "blocked: a permission was denied or a question was skipped",
            Exit::Aborted => "aborted",
            Exit::Interrupted => "interrupted: the server was stopped",
            Exit::Budget => "stopped: the turn reached a budget limit",
            Exit::Completed | Exit::Error | Exit::Usage => return exit,
        };
        terminal::note(said);
        if exit == Exit::Blocked && self.answers.refuses_by_default() {
            terminal::note("hint: pass --yes to approve everything, or run in a terminal to be asked");
        }
        exit
    }
}
