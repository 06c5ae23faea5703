//! Monitors the process: forwards events, pings it, and restarts it when it exits.

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

use super::open::{Open, Running, StartError, open, open_early, with_output, within};
use super::{Limits, Shared, State};

/// Time for a process that closed its output to exit by itself.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// Keeps a process running until it is stopped or exits too often.
pub(super) async fn keep(shared: Arc<Shared>, stop: CancellationToken) {
    let limits = shared.settings.limits;
    let (mut deaths, mut spoiled) = (0, HashSet::new());
    let mut early = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        early = open_early(&shared) => early,
    };
    if let Some(early) = &early {
        shared.state.send_replace(State::Running(Arc::clone(&early.running)));
    }
    loop {
        if early.is_none() {
            shared.state.send_replace(State::Starting);
        }
        let since = Instant::now();
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            opened = open(&shared, &spoiled) => opened,
        };
        if let Ok(open) = &opened {
            shared.state.send_replace(State::Running(Arc::clone(&open.running)));
        }
        if let Some(Open { running, companion, .. }) = early.take() {
            part(&limits, &running, companion).await;
        }
        let why = match opened {
            Ok(open) => {
                let Some(why) = attend(&shared, open, &stop).await else { break };
                why
            }
            Err(StartError::Spoiled { plugin, why }) => {
                shared.report(Some(plugin), "cannot be loaded", &why);
                spoiled.insert(plugin);
                continue;
            }
            Err(StartError::Hopeless(why)) => {
                shared.report(None, "cannot be started", &why);
                break;
            }
            Err(StartError::Failed(why)) => why,
        };
        deaths = if since.elapsed() < limits.steady { deaths + 1 } else { 1 };
        shared.state.send_replace(State::Dead);
        if deaths > limits.deaths {
            shared.report(
                None,
                "is not restarted",
                &format!("it exited {deaths} times in a row, the last time: {why}"),
            );
            break;
        }
        shared.report(None, "exited and is restarted", &why);
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = sleep(pause(&limits, deaths)) => {}
        }
    }
    shared.state.send_replace(State::Dead);
}

/// The pause after this many exits in a row.
fn pause(limits: &Limits, deaths: u32) -> Duration {
    limits.pause.saturating_mul(1 << deaths.saturating_sub(1).min(6))
}

/// Monitors a process until it exits, and returns the reason; `None` if the host is stopped.
async fn attend(shared: &Arc<Shared>, open: Open, stop: &CancellationToken) -> Option<String> {
    let Open { running, mut companion, .. } = open;
    let limits = shared.settings.limits;
    let _telling = running.wants_events().then(|| {
        let scope = shared.settings.bus.scope(&shared.settings.directory.to_string_lossy());
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
                // The process may be exiting; wait a moment for its exit code.
                let exit = timeout(LAST_BREATH, companion.wait()).await.ok();
                return Some(bury(exit, companion).await);
            }
            () = running.suspect.notified() => {
                if let Some(why) = feel(&running, limits.pulse).await {
                    companion.stop().await;
                    return Some(why);
                }
            }
            // Code without a pending call may block the process, such as an event handler.
            () = sleep(limits.rest) => {
                if let Some(why) = feel(&running, limits.pulse * 5).await {
                    companion.stop().await;
                    return Some(why);
                }
            }
        }
    }
}

/// Pings the process. Returns the reason to replace it if it does not answer; it cannot dispose its plugins then.
async fn feel(running: &Running, limit: Duration) -> Option<String> {
    let nothing = json!({});
    let answer = within(limit, running.wire.call("ping", &nothing)).await;
    answer.is_err().then(|| format!("it did not answer a ping within {} s", limit.as_secs_f32()))
}

/// Ends the rest of a process and returns the reason for its exit.
async fn bury(exit: Option<Result<Exit, process::Error>>, companion: Companion) -> String {
    let why = match exit {
        Some(Ok(Exit::Code(code))) => format!("its process ended with code {code}"),
        Some(Ok(Exit::Signal(signal))) => format!("its process was killed by signal {signal}"),
        Some(Ok(_)) => "its process was killed".to_owned(),
        Some(Err(error)) => error.to_string(),
        None => "its output ended or cannot be parsed".to_owned(),
    };
    let why = with_output(why, &companion);
    companion.stop().await;
    why
}

/// Lets plugins dispose themselves, then ends the process.
async fn part(limits: &Limits, running: &Running, companion: Companion) {
    let nothing = json!({});
    // A process that does not answer is ended as well.
    let _ = within(limits.goodbye, running.wire.call("dispose", &nothing)).await;
    companion.stop().await;
}

/// Forwards events to the plugins in order, as fast as the process reads. If the process falls too far behind, it
/// misses some events and continues with new ones.
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
                shared.report(None, "misses events", "it read events too slowly");
                events = shared.settings.bus.subscribe(&scope).subscription;
            }
        }
    }
}
