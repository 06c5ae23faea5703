//! The keeper with fake processes, on a paused clock.

use std::future;

use tokio::sync::{mpsc, oneshot};
use tokio::time::advance;

use super::*;

/// A fake process that reports the calls of its methods.
struct FakeProcess {
    name: &'static str,
    told: mpsc::UnboundedSender<String>,
    rested: Option<oneshot::Receiver<IdleEvent>>,
    working: bool,
}

impl KeptProcess for FakeProcess {
    async fn rest(&mut self) -> IdleEvent {
        match &mut self.rested {
            Some(rested) => rested.await.unwrap(),
            None => future::pending().await,
        }
    }

    fn is_working(&self) -> bool {
        self.working
    }

    async fn stop(self) {
        self.told.send(format!("stopped {}", self.name)).unwrap();
    }
}

struct Scene {
    keeper: IdleProcesses<FakeProcess>,
    tell: mpsc::UnboundedSender<String>,
    told: mpsc::UnboundedReceiver<String>,
}

impl Scene {
    fn new(most: usize) -> Self {
        Self::sharing(most, IdlePool::default())
    }

    fn sharing(most: usize, pool: IdlePool) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let keeping = IdleLimits { idle: Duration::from_mins(1), most, ..IdleLimits::default() };
        let wakes = tell.clone();
        let wake: Wake = Arc::new(move |session, why| wakes.send(format!("woke {session}: {why}")).unwrap());
        Self { keeper: IdleProcesses::new(keeping, pool, wake), tell, told }
    }

    fn keep(&self, session: &str, name: &'static str) {
        self.keeper.keep(id(session), self.thing(name));
    }

    fn thing(&self, name: &'static str) -> FakeProcess {
        FakeProcess { name, told: self.tell.clone(), rested: None, working: false }
    }

    fn keep_until(&self, session: &str, name: &'static str) -> oneshot::Sender<IdleEvent> {
        let (send, rested) = oneshot::channel();
        self.keeper.keep(id(session), FakeProcess { rested: Some(rested), ..self.thing(name) });
        send
    }

    async fn take(&self, session: &str) -> Option<&'static str> {
        self.keeper.take(&id(session)).await.map(|thing| thing.name)
    }

    async fn told(&mut self) -> String {
        timeout(Duration::from_mins(10), self.told.recv()).await.unwrap().unwrap()
    }
}

fn id(session: &str) -> SessionId {
    session.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_kept_process_can_be_taken_once() {
    let scene = Scene::new(4);
    assert_eq!(scene.take("ses_1").await, None);
    scene.keep("ses_1", "one");
    scene.keep("ses_2", "two");
    assert_eq!(scene.take("ses_1").await, Some("one"));
    assert_eq!(scene.take("ses_1").await, None);
    assert_eq!(scene.take("ses_2").await, Some("two"));
}

#[tokio::test(start_paused = true)]
async fn an_unused_process_is_stopped_after_its_idle_time() {
    let mut scene = Scene::new(4);
    scene.keep("ses_1", "one");
    advance(Duration::from_secs(59)).await;
    assert_eq!(scene.take("ses_1").await, Some("one"));
    scene.keep("ses_1", "again");
    assert_eq!(scene.told().await, "stopped again");
    assert_eq!(scene.take("ses_1").await, None);
    assert!(scene.keeper.0.state().kept.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_working_process_is_kept_longer() {
    let mut scene = Scene::new(4);
    scene.keeper.keep(id("ses_1"), FakeProcess { working: true, ..scene.thing("busy") });
    advance(Duration::from_hours(5)).await;
    assert_eq!(scene.take("ses_1").await, Some("busy"));
    scene.keeper.keep(id("ses_1"), FakeProcess { working: true, ..scene.thing("busy") });
    advance(Duration::from_hours(6)).await;
    assert_eq!(scene.told().await, "stopped busy");
}

#[tokio::test(start_paused = true)]
async fn one_process_per_session_is_kept_up_to_a_limit() {
    let mut scene = Scene::new(2);
    scene.keep("ses_1", "old");
    scene.keep("ses_1", "new");
    assert_eq!(scene.told().await, "stopped old");
    scene.keep("ses_2", "two");
    scene.keep("ses_3", "three");
    assert_eq!(scene.told().await, "stopped new");
    assert_eq!(scene.take("ses_3").await, Some("three"));
    scene.keeper.forget(&id("ses_2")).await;
    assert_eq!(scene.told().await, "stopped two");
}

#[tokio::test(start_paused = true)]
async fn the_idle_processes_of_all_agents_share_a_limit() {
    let pool = IdlePool::default();
    let mut claude = Scene::sharing(16, pool.clone());
    let mut codex = Scene::sharing(16, pool.with_limit(2));
    claude.keep("ses_1", "first");
    claude.keeper.keep(id("ses_2"), FakeProcess { working: true, ..claude.thing("working") });
    claude.keep("ses_3", "second");
    codex.keep("ses_4", "third");
    assert_eq!(claude.told().await, "stopped first");
    assert_eq!(claude.take("ses_3").await, Some("second"));
    codex.keep("ses_5", "fourth");
    codex.keep("ses_6", "fifth");
    assert_eq!(codex.told().await, "stopped third", "a process in use does not count");
    assert_eq!(claude.take("ses_2").await, Some("working"), "a process at work does not count");
    let (fourth, fifth) = (codex.take("ses_5").await, codex.take("ses_6").await);
    assert_eq!((fourth, fifth), (Some("fourth"), Some("fifth")));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_keeps_no_process() {
    let mut scene = Scene::sharing(16, IdlePool::default().with_limit(0));
    scene.keep("ses_1", "one");
    assert_eq!(scene.told().await, "stopped one");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_wakes_up_waits_for_its_turn() {
    let mut scene = Scene::new(4);
    let rested = scene.keep_until("ses_1", "one");
    rested.send(IdleEvent::Woke("its task ended".into())).unwrap();
    assert_eq!(scene.told().await, "woke ses_1: its task ended");
    assert_eq!(scene.take("ses_1").await, Some("one"));
    let rested = scene.keep_until("ses_1", "one");
    rested.send(IdleEvent::Ended("exited".into())).unwrap();
    assert_eq!(scene.told().await, "stopped one");
    assert_eq!(scene.take("ses_1").await, None);
}

#[tokio::test(start_paused = true)]
async fn all_processes_end_with_the_server() {
    for asked in [true, false] {
        let mut scene = Scene::new(4);
        scene.keep("ses_1", "one");
        scene.keep("ses_2", "two");
        if asked {
            scene.keeper.close().await;
            scene.keep("ses_3", "late");
        } else {
            let closing = scene.keeper.0.closing.clone();
            scene.keeper =
                IdleProcesses::new(IdleLimits::default(), IdlePool::default(), Arc::new(|_, _| {}));
            assert!(closing.is_cancelled());
        }
        let expected = if asked { 3 } else { 2 };
        for _ in 0..expected {
            assert!(scene.told().await.starts_with("stopped "));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_pause_grows_with_failures_and_success_resets_it() {
    let scene = Scene::new(4);
    let pause = || scene.keeper.pause(&id("ses_1")).map(|pause| pause.as_secs());
    assert_eq!(pause(), None);
    let mut pauses = Vec::new();
    for _ in 0..7 {
        scene.keeper.failed(&id("ses_1"));
        pauses.extend(pause());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    advance(Duration::from_secs(29)).await;
    assert_eq!(pause(), Some(1));
    advance(Duration::from_secs(1)).await;
    assert_eq!(pause(), None);
    scene.keep("ses_1", "one");
    scene.keeper.failed(&id("ses_1"));
    assert_eq!(pause(), Some(1));
}
