//! Real servers that are killed: this test program starts itself again as the server.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::tests::lives;
use super::super::{Companion, Output, Pipes, Spec, run, start};
use super::GUARD;

/// Says that this process is the server.
const SERVER: &str = "BATON_TEST_SERVER";

/// Catches hangs; the tests do not measure time.
const LONG: Duration = Duration::from_mins(2);

/// A program that ignores polite signals and starts two processes: one that leaves its group, and one that stays in the
/// group and has no mark.
const PROGRAM: &str = "trap '' TERM HUP; setsid sleep 600 & echo $!; \
    env -i /bin/sleep 600 & echo $!; echo $$; wait";

fn is_server() -> bool {
    #[expect(clippy::disallowed_methods, reason = "the test tells its second process apart")]
    std::env::var_os(SERVER).is_some()
}

async fn line(output: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    let count = timeout(LONG, output.read_line(&mut line)).await.unwrap().unwrap();
    (count > 0).then(|| line.trim().to_owned())
}

/// Starts a program and prints its processes.
async fn program() -> (Companion, BufReader<ChildStdout>) {
    let (companion, pipes) = start(&Spec::shell(PROGRAM, "/", Duration::MAX)).unwrap();
    let mut output = BufReader::new(pipes.output);
    for _ in 0..3 {
        println!("process {}", line(&mut output).await.unwrap());
    }
    (companion, output)
}

/// Runs a test of this module as a server in another process, kills the server once it has reported its processes, and
/// waits for the end of all of them.
async fn kill_server(test: &str, expected: usize) {
    let own = std::env::current_exe().unwrap();
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let mut spec = Spec::new(own, "/", Duration::MAX).args([name.as_str(), "--exact", "--nocapture"]);
    spec.environment = vec![(SERVER.into(), "yes".into())];
    let (server, Pipes { input: _input, output }) = start(&spec).unwrap();
    let mut output = BufReader::new(output);
    let mut processes = Vec::new();
    while processes.len() < expected {
        let line = line(&mut output).await.unwrap_or_else(|| panic!("{}", server.errors().text()));
        processes.extend(line.strip_prefix("process ").map(str::to_owned));
    }
    assert!(processes.iter().all(|id| lives(id)));
    let id = i32::try_from(server.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    let gone = async {
        while processes.iter().any(|id| lives(id)) {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, gone).await.unwrap();
}

#[tokio::test]
async fn forty_programs_end_with_a_killed_server() {
    if !is_server() {
        return kill_server("forty_programs_end_with_a_killed_server", 40 * 3).await;
    }
    let mut programs = Vec::new();
    for _ in 0..40 {
        programs.push(program().await);
    }
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_command_ends_with_a_killed_server() {
    if !is_server() {
        return kill_server("a_command_ends_with_a_killed_server", 3).await;
    }
    let mut reported = 0;
    let report = |output: &Output| {
        for process in output.text().lines().skip(reported) {
            println!("process {process}");
            reported += 1;
        }
    };
    run(Spec::shell(PROGRAM, "/", LONG), &CancellationToken::new(), report).await.unwrap();
}

#[tokio::test]
async fn a_guard_that_was_killed_is_replaced() {
    if !is_server() {
        return kill_server("a_guard_that_was_killed_is_replaced", 2 * 3).await;
    }
    let _first = program().await;
    if let Some(shell) = &mut GUARD.lock().shell {
        shell.process.kill().unwrap();
        shell.process.wait().unwrap();
    }
    let _second = program().await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_program_that_ended_is_off_the_list() {
    let (companion, pipes) = start(&Spec::shell("read line", "/", Duration::MAX)).unwrap();
    let entry = companion.watched.as_ref().unwrap().0.clone();
    assert!(GUARD.lock().watched.contains(&entry));
    drop(pipes);
    companion.stop().await;
    assert!(!GUARD.lock().watched.contains(&entry));
}
