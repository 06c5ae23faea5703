//! Watching over the process: what it needs while it runs, and what happens when it dies.

use std::collections::HashSet;
use std::sync::Arc;

use engine::bus::{Scope, Subscription};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use workspace::process::{Companion, Exit};

use super::open::{Open, Running, Unopened, open, told, within};
use super::{Limits, Shared, State};

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
fn pause(limits: &Limits, deaths: u32) -> std::time::Duration {
    limits.pause.saturating_mul(1 << deaths.saturating_sub(1).min(6))
}

/// Watches over a process until it dies, which is told why, or somebody stops it.
async fn attend(shared: &Arc<Shared>, open: Open, stop: &CancellationToken) -> Option<String> {
    let Open { running, mut companion, .. } = open;
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
                part(&shared.settings.limits, &running, companion).await;
                return None;
            }
            exit = companion.wait() => {
                let why = match exit {
                    Ok(Exit::Code(code)) => format!("its process ended with code {code}"),
                    Ok(Exit::Signal(signal)) => format!("its process was ended by signal {signal}"),
                    Ok(_) => "its process was ended".to_owned(),
                    Err(error) => error.to_string(),
                };
                let why = told(why, &companion);
                companion.stop().await;
                return Some(why);
            }
            () = running.suspect.notified() => {
                let (nothing, limit) = (json!({}), shared.settings.limits.pulse);
                if within(limit, running.wire.call("ping", &nothing)).await.is_err() {
                    // Nothing that runs in it can be reached any more, so nobody could say goodbye.
                    let why = format!("it gave no sign of life for {} s", limit.as_secs_f32());
                    companion.stop().await;
                    return Some(why);
                }
            }
        }
    }
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
                    let sent =
                        timeout(shared.settings.limits.hook, running.wire.notify("event", &event)).await;
                    match sent {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return,
                        Err(_) => running.suspect.notify_one(),
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
