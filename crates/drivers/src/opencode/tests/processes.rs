//! The server process: its start, its end, and that no process is left running.
//!
//! The program is a script that writes the address of the fake server; each test defines the rest of the script.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol::{EndReason, EventBody};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::fake::{Act, Fake};
use super::script::{answer, idle, opened, start};
use crate::external::harness::{Harness, SimulatedUser};
use crate::external::{Driver, IdlePool};
use crate::opencode::{OpenCode, Start};
use crate::roster::External;
use crate::roster::Program;

const LISTENS: &str = "echo \"opencode server listening on $FAKE_URL\"";

/// A program, with the file in which it records its process id.
struct Installed {
    directory: TempDir,
}

impl Installed {
    fn new(script: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("opencode");
        let log = directory.path().join("pids");
        std::fs::write(&file, format!("#!/bin/sh\necho $$ >> {}\n{script}\n", log.display())).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { directory }
    }

    fn runner(&self, fake: &Fake, idle: Duration) -> Driver<OpenCode> {
        fake.runner_of(self.program(fake, idle), None)
    }

    fn program(&self, fake: &Fake, idle: Duration) -> Program {
        let command = self.directory.path().join("opencode").to_str().unwrap().to_owned();
        Program { idle, ..fake.program(vec![command]) }
    }

    /// The processes that were started, in order.
    fn processes(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.directory.path().join("pids")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

fn lives(process: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn until_none_lives(processes: &[String]) {
    let gone = async {
        while processes.iter().any(|process| lives(process)) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), gone).await.expect("no process is left");
}

fn error(harness: &Harness) -> String {
    let errors = harness.seen.iter().filter(|event| matches!(event.body, EventBody::SessionError(_)));
    errors.map(|event| serde_json::to_string(event).unwrap()).collect()
}

#[tokio::test]
async fn one_process_serves_all_turns_and_ends_with_its_runner() {
    let fake = Fake::new().await;
    let installed = Installed::new(&format!("{LISTENS}\nexec sleep 600"));
    let runner = Arc::new(installed.runner(&fake, Duration::from_hours(1)));
    let mut harness = Harness::around(runner.clone()).await;
    let (one, two) = (harness.session().await, harness.session().await);
    for session in [&one, &two, &one] {
        harness.submit(session, "please").await;
        let script = [start(), answer("$A", "Hello"), idle()].concat();
        let count = fake.calls().iter().filter(|call| call.contains("prompt_async")).count();
        fake.prompted(count + 1).await;
        fake.play(script.into_iter().skip(1).collect()).await;
        assert_eq!(harness.until_idle(session, SimulatedUser::Agrees).await, EndReason::Completed);
    }
    let processes = installed.processes();
    assert_eq!(processes.len(), 1);
    assert!(lives(&processes[0]));
    let begun = fake.calls().iter().filter(|call| call.starts_with("POST /session {")).count();
    assert_eq!(begun, 2, "each session resumes its own: {:?}", fake.calls());
    runner.close().await;
    assert!(!lives(&processes[0]));
}

#[tokio::test]
async fn the_error_of_a_failed_start_quotes_the_error_output() {
    for (script, words) in [
        ("echo 'no licence' >&2; exit 3", ["before it listened", "no licence"]),
        ("exit 0", ["before it listened", "wrote nothing"]),
        ("printf 'opencode server listening on http'; exit 5", ["before it listened", "code 5"]),
        ("kill -9 $$", ["before it listened", "9"]),
        ("echo 'opencode server listening on http://['; exec sleep 600", ["invalid address", "address"]),
        ("while :; do echo noise; done", ["did not report its address", "wrote nothing"]),
        ("exec >&-; exec sleep 600", ["did not report its address", "wrote nothing"]),
        ("sleep 600 & echo $! >> $(dirname $0)/pids; exit 6", ["before it listened", "code 6"]),
        ("printf '\\377\\n'; echo 'no luck' >&2; exit 1", ["before it listened", "no luck"]),
        (
            "head -c 100000000 /dev/zero | tr '\\0' a; exec sleep 600",
            ["did not report its address", "wrote nothing"],
        ),
    ] {
        let fake = Fake::new().await;
        let installed = Installed::new(script);
        let mut harness = Harness::around(Arc::new(installed.runner(&fake, Duration::from_hours(1)))).await;
        let session = harness.session().await;
        assert_eq!(
            harness.turn(&session, "please", SimulatedUser::Agrees).await,
            EndReason::Error,
            "{script}"
        );
        let error = error(&harness);
        assert!(words.iter().all(|word| error.contains(word)), "{script}: {error}");
        until_none_lives(&installed.processes()).await;
    }
}

#[tokio::test]
async fn the_error_names_a_missing_program() {
    let fake = Fake::new().await;
    let runner = fake.runner_of(fake.program(vec!["/nowhere/opencode".into()]), None);
    let mut harness = Harness::around(Arc::new(runner)).await;
    let session = harness.session().await;
    assert_eq!(harness.turn(&session, "please", SimulatedUser::Agrees).await, EndReason::Error);
    assert!(error(&harness).contains("/nowhere/opencode"), "{}", error(&harness));
}

#[tokio::test]
async fn a_process_that_never_listens_is_given_up_and_ended() {
    let fake = Fake::new().await;
    let installed = Installed::new("trap '' TERM; sleep 600 & wait");
    let command = installed.directory.path().join("opencode").to_str().unwrap().to_owned();
    let mut start = Start::new(&fake.program(vec![command]), IdlePool::default());
    start.patience = Duration::from_millis(400);
    let server = crate::opencode::server::Server::to_start(start, Arc::new(engine::ports::SystemRandom));
    let error = server.lease("/").await.err().unwrap();
    assert!(error.contains("did not listen within"), "{error}");
    until_none_lives(&installed.processes()).await;
}

#[tokio::test]
async fn output_after_the_start_is_ignored() {
    for then in ["exec >&-", "head -c 100000000 /dev/zero", "head -c 5000000 /dev/zero >&2", "printf '\\377'"]
    {
        let fake = Fake::new().await;
        let installed = Installed::new(&format!("{LISTENS}\n{then}\nexec sleep 600"));
        let runner = Arc::new(installed.runner(&fake, Duration::from_hours(1)));
        let mut harness = Harness::around(runner.clone()).await;
        let session = harness.session().await;
        harness.submit(&session, "please").await;
        fake.play([start(), answer("$A", "Hello"), idle()].concat()).await;
        assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed, "{then}");
        runner.close().await;
        until_none_lives(&installed.processes()).await;
    }
}

#[tokio::test]
async fn a_process_that_ends_during_a_turn_ends_it_and_the_next_turn_starts_another() {
    let fake = Fake::new().await;
    let installed = Installed::new(&format!(
        "{LISTENS}\ncd $(dirname $0); while [ ! -e crash ]; do sleep 0.02; done; rm crash; echo 'out of luck' >&2; exit 7"
    ));
    let mut harness = Harness::around(Arc::new(installed.runner(&fake, Duration::from_hours(1)))).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    fake.play([start(), vec![opened("$A")]].concat()).await;
    std::fs::write(installed.directory.path().join("crash"), "").unwrap();
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Error);
    assert!(error(&harness).contains("out of luck") && error(&harness).contains('7'), "{}", error(&harness));
    harness.submit(&session, "again").await;
    fake.prompted(2).await;
    let script = [start(), answer("$A", "Hello"), idle()].concat();
    fake.play(script.into_iter().skip(1).collect()).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(installed.processes().len(), 2);
}

#[tokio::test]
async fn an_idle_process_is_stopped_and_started_again() {
    let fake = Fake::new().await;
    let installed = Installed::new(&format!("{LISTENS}\ntrap '' TERM; sleep 600 & wait; wait"));
    let mut harness = Harness::around(Arc::new(installed.runner(&fake, Duration::from_millis(50)))).await;
    let session = harness.session().await;
    for turn in 1..=2 {
        harness.submit(&session, "please").await;
        fake.prompted(turn).await;
        let script: Vec<Act> = [start(), answer("$A", "Hello"), idle()].concat();
        fake.play(script.into_iter().skip(1).collect()).await;
        assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
        let processes = installed.processes();
        assert_eq!(processes.len(), turn);
        until_none_lives(&processes).await;
    }
}

#[tokio::test]
async fn a_process_makes_room_for_those_of_other_agents() {
    let fake = Fake::new().await;
    let installed = Installed::new(&format!("{LISTENS}\nexec sleep 600"));
    let pool = IdlePool::default().with_limit(1);
    let start = Start::new(&installed.program(&fake, Duration::from_hours(1)), pool.clone());
    let server = crate::opencode::server::Server::to_start(start, Arc::new(engine::ports::SystemRandom));
    let lease = server.lease("/").await.unwrap();
    let processes = installed.processes();
    let other = pool.enter();
    assert!(lives(&processes[0]), "a process in use is not idle");
    drop(lease);
    assert!(other.evicted().is_cancelled());
    assert!(lives(&processes[0]));
    let _another = pool.enter();
    until_none_lives(&processes).await;
}

#[tokio::test]
async fn a_runner_that_is_dropped_leaves_no_process() {
    let fake = Fake::new().await;
    let installed = Installed::new(&format!(
        "{LISTENS}\ntrap '' TERM; setsid sleep 600 & echo $! >> $(dirname $0)/pids; wait"
    ));
    let agent = fake.agent_of(installed.program(&fake, Duration::from_hours(1)), None);
    let lease = agent.server.lease("/").await.unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while installed.processes().len() < 2 && Instant::now() < until {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(installed.processes().len(), 2, "the process and its grandchild");
    drop(lease);
    drop(agent);
    until_none_lives(&installed.processes()).await;
}
