//! Watching over the process: what it needs while it runs, and what happens when it dies.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::bus::{Scope, Subscription};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use workspace::process::{self, Companion, Exit};

use super::open::{Open, Running, Unopened, open, told, within};
use super::{Limits, Shared, State};

/// How long a process that went silent is given to end by itself.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// Keeps a process until it is stopped, or dies too often.
pub(super) async fn keep(shared: Arc<Shared>, stop: CancellationToken) {
    let limits = shared.settings.limits;
    let (mut deaths, mut spoiled) = (0, HashSet::new());
    loop {
        shared.state.send_replace(State::Starting);
        let since = Instant::now();
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            opened = open(&shared, &spoiled) => opened,
        };
        let why = match opened {
            Ok(open) => {
                shared.state.send_replace(State::Running(Arc::clone(&open.running)));
                let Some(why) = attend(&shared, open, &stop).await else { break };
                why
            }
            Err(Unopened::Spoiled { plugin, why }) => {
                shared.report(Some(plugin), "cannot be loaded", &why);
                spoiled.insert(plugin);
                continue;
            }
            Err(Unopened::Hopeless(why)) => {
                shared.report(None, "cannot be started", &why);
                break;
            }
            Err(Unopened::Failed(why)) => why,
        };
        deaths = if since.elapsed() < limits.steady { deaths + 1 } else { 1 };
        shared.state.send_replace(State::Dead);
        if deaths > limits.deaths {
            shared.report(
                None,
                "stays dead",
                &format!("it died {deaths} times in a row, the last time because {why}"),
            );
            break;
        }
        shared.report(None, "died and is started again", &why);
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = sleep(pause(&limits, deaths)) => {}
        }
    }
    shared.state.send_replace(State::Dead);
}

/// How long is waited after so many deaths in a row.
fn pause(limits: &Limits, deaths: u32) -> Duration {
    limits.pause.saturating_mul(1 << deaths.saturating_sub(1).min(6))
}

/// Watches over a process until it dies, which is told why, or somebody stops it.
async fn attend(shared: &Arc<Shared>, open: Open, stop: &CancellationToken) -> Option<String> {
    let Open { running, mut companion, .. } = open;
    let limits = shared.settings.limits;
    let _telling = running.wants_events().then(|| {
        let scope = Scope { directory: Some(shared.settings.directory.to_string_lossy().into()) };
        let joined = shared.settings.bus.subscribe(&scope);
        let telling = tell(Arc::clone(shared), Arc::clone(&running), scope, joined.subscription);
        AbortOnDropHandle::new(tokio::spawn(telling))
    });
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                part(&limits, &running, companion).await;
                return None;
            }
            exit = companion.wait() => return Some(bury(Some(exit), companion).await),
            () = running.wire.ended() => {
                // It may be ending; how is worth knowing.
                let exit = timeout(LAST_BREATH, companion.wait()).await.ok();
                return Some(bury(exit, companion).await);
            }
            () = running.suspect.notified() => {
                if let Some(why) = feel(&running, limits.pulse).await {
                    companion.stop().await;
                    return Some(why);
                }
            }
            // Something may be spinning in it that nobody waits for, such as a handler of events.
            () = sleep(limits.rest) => {
                if let Some(why) = feel(&running, limits.pulse * 5).await {
                    companion.stop().await;
                    return Some(why);
                }
            }
        }
    }
}

/// Waits for a sign of life; why it is taken for dead if there is none. Nobody in it could say goodbye then.
async fn feel(running: &Running, limit: Duration) -> Option<String> {
    let nothing = json!({});
    let answer = within(limit, running.wire.call("ping", &nothing)).await;
    answer.is_err().then(|| format!("it gave no sign of life for {} s", limit.as_secs_f32()))
}

/// Ends what is left of a process; why it died.
async fn bury(exit: Option<Result<Exit, process::Error>>, companion: Companion) -> String {
    let why = match exit {
        Some(Ok(Exit::Code(code))) => format!("its process ended with code {code}"),
        Some(Ok(Exit::Signal(signal))) => format!("its process was ended by signal {signal}"),
        Some(Ok(_)) => "its process was ended".to_owned(),
        Some(Err(error)) => error.to_string(),
        None => "it says nothing more that can be understood".to_owned(),
    };
    let why = told(why, &companion);
    companion.stop().await;
    why
}

/// Lets plugins say goodbye, then ends the process.
async fn part(limits: &Limits, running: &Running, companion: Companion) {
    let nothing = json!({});
    // Whoever does not answer is ended all the same.
    let _ = within(limits.goodbye, running.wire.call("dispose", &nothing)).await;
    companion.stop().await;
}

/// Tells plugins what happens, in order. They are told as fast as the process reads; if it falls too far behind, it
/// misses something and goes on with what happens then.
async fn tell(shared: Arc<Shared>, running: Arc<Running>, scope: Scope, mut events: Subscription) {
    loop {
        match events.next().await {
            Ok(frames) if frames.is_empty() => return,
            Ok(frames) => {
                for frame in frames {
                    let event = serde_json::from_slice::<Box<RawValue>>(frame.json());
                    let Ok(event) = event else { continue };
                    match running.wire.notify("event", event, shared.settings.limits.hook).await {
                        Ok(()) => {}
                        Err(jsonrpc::Error::Late { .. }) => running.suspect.notify_one(),
                        Err(_) => return,
                    }
                }
            }
            Err(_) => {
                shared.report(None, "misses events", "it did not keep up with what happens");
                events = shared.settings.bus.subscribe(&scope).subscription;
            }
        }
    }
}
