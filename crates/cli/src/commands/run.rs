//! `baton run`: one turn in the current directory, watched from its prompt to its idle.

mod answers;
mod diff;
mod door;
mod follow;
mod host;
mod screen;

use std::{path::Path, sync::Arc, time::Duration};

use engine::{
    mint::Mint,
    ports::{SystemClock, SystemRandom},
};
use futures::StreamExt;
use protocol::{Event, EventBody, MessageError, MessageId, Session, message::ModelRef, prompt::PromptInput};
use tokio::{
    io::AsyncReadExt,
    time::{Instant, sleep_until},
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

/// How long the last words of a turn may take to arrive once its session is known to be idle: the second half
/// of the idle pair, or all of it from a server that does not replay what was missed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs one turn; the exit says how it ended.
pub(crate) async fn run(options: Run) -> Result<Exit, Failure> {
    let signals = Signals::catch();
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let here =
        here.map_err(|error| Failure::usage(format!("the current directory cannot be used: {error}")))?;
    let message = Mint::new(Arc::new(SystemClock), Arc::new(SystemRandom)).id::<MessageId>();
    let prompt = PromptInput { message_id: Some(message.clone()), ..prompt(&options).await? };
    let (host, engine) = host(&options, &here).await?;
    // Plugins say goodbye when the engine is closed, and may have something to ask then.
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

/// Where the turn runs: in a session that was chosen, or in a new one.
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

/// A server that was named, or our own engine, or the server that owns our data directory.
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
            Err(Failure::from(unavailable).hint("--attach URL uses a server that runs already"))
        }
    }
}

async fn prompt(options: &Run) -> Result<PromptInput, Failure> {
    let text = match &options.prompt {
        Some(text) if text != "-" => text.clone(),
        None if !terminal::is_fed() => {
            return Err(Failure::usage("there is no prompt").hint("baton run \"what is in this directory?\""));
        }
        _ => {
            let mut text = String::new();
            let read = tokio::io::stdin().read_to_string(&mut text).await;
            read.map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))?;
            text
        }
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty"));
    }
    let model = options.model.as_deref().map(model).transpose()?;
    Ok(PromptInput { model, agent: options.agent.clone(), ..PromptInput::text(text) })
}

fn model(name: &str) -> Result<ModelRef, Failure> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(ModelRef::new(provider, model))
        }
        _ => Err(Failure::usage(format!("\"{name}\" is no model"))
            .hint("a model is named with its provider, such as demo/baton")),
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
    // Before there is anything to see, so that the session's creation is seen, too.
    let mut events = host.events(&directory).await?;
    let session = match session {
        Some(session) => session,
        None => host.create(&directory).await?,
    };
    host.submit(&session.id, prompt).await?;
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

/// What is wrong in the directory rather than in a session: a plugin is not run, or fails.
fn about_plugins(event: &Event) -> Option<&str> {
    match &event.body {
        EventBody::SessionError(it) if it.session_id.is_none() => {
            it.error.as_ref().map(MessageError::message)
        }
        _ => None,
    }
}

/// A turn that is being watched.
struct Turn {
    host: Host,
    follower: Follower,
    screen: Screen,
    answers: Answers,
    signals: Signals,
    /// Somebody asked us to stop.
    stopping: bool,
    /// When to stop waiting for the last words.
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

    /// Shows an event, answers what it asks, and says whether the turn is over.
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

    /// True if whoever asked does not want to wait any longer.
    fn stop(&mut self, asked: Asked) -> bool {
        if std::mem::replace(&mut self.stopping, true) {
            return true;
        }
        let (host, session) = (self.host.clone(), self.follower.session().clone());
        // Its idle is what we wait for, so nobody waits for the call itself.
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
            Exit::Blocked => "blocked: something the agent needs was refused",
            Exit::Aborted => "aborted",
            Exit::Interrupted => "interrupted: the server was stopped",
            Exit::Budget => "the budget is used up",
            Exit::Completed | Exit::Error | Exit::Usage => return exit,
        };
        terminal::note(said);
        if exit == Exit::Blocked && self.answers.refuses_by_default() {
            terminal::note("hint: --yes allows what is asked for; in a terminal you are asked");
        }
        exit
    }
}
