//! Real processes. Each test waits for the event itself; the time limits only catch hangs.

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::output::OutputDirectory;

/// Slack for a loaded machine, on top of the promised times.
const SLACK: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(20);

async fn shell(command: &str) -> (Done, Duration) {
    shell_until(command, LONG, &CancellationToken::new()).await
}

async fn shell_until(command: &str, deadline: Duration, cancel: &CancellationToken) -> (Done, Duration) {
    let directory = TempDir::new().unwrap();
    let start = Instant::now();
    let done = run(Spec::shell(command, directory.path(), deadline), cancel, |_| {}).await.unwrap();
    (done, start.elapsed())
}

/// Returns true if a process exists and is not a zombie.
pub(crate) fn lives(id: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

fn end(id: &str) {
    let id = rustix::process::Pid::from_raw(id.parse().unwrap()).unwrap();
    let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
}

#[tokio::test]
async fn both_streams_arrive_in_the_order_they_were_written() {
    let (done, _) = shell("echo one; echo two >&2; echo three; exit 3").await;
    assert_eq!(done.exit, Exit::Code(3));
    assert_eq!(done.output.text(), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_running_program_reports_its_output() {
    let directory = TempDir::new().unwrap();
    let go = directory.path().join("go");
    // The program waits until its output was reported.
    let spec = Spec::shell("echo begun; until [ -e go ]; do sleep 0.01; done", directory.path(), LONG);
    let mut reported = Vec::new();
    let progress = |output: &Output| {
        reported.push(output.text());
        std::fs::write(&go, "").unwrap();
    };
    let done = run(spec, &CancellationToken::new(), progress).await.unwrap();
    assert_eq!((done.exit, reported.first().map(String::as_str)), (Exit::Code(0), Some("begun\n")));
}

#[tokio::test]
async fn kept_files_are_restored_after_all_descendants_have_ended() {
    let directory = TempDir::new().unwrap();
    let top = directory.path().canonicalize().unwrap();
    std::fs::write(top.join("kept"), "as it was").unwrap();
    // The background process would change the file again after each restoration.
    let line = "echo changed > kept; echo free > free; \
        (while :; do echo late > kept; sleep 0.01; done) > /dev/null 2>&1 & echo $!";
    let mut spec = Spec::shell(line, &top, LONG);
    spec.kept = vec![SavedPath { path: top.join("kept"), contents: true }];
    let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.exit, Exit::Code(0));
    assert_eq!(done.restored, [Restored { path: top.join("kept"), outcome: RestoreOutcome::PutBack }]);
    assert!(!lives(done.output.text().trim()));
    assert_eq!(std::fs::read_to_string(top.join("kept")).unwrap(), "as it was");
    assert_eq!(std::fs::read_to_string(top.join("free")).unwrap(), "free\n");
}

#[tokio::test]
async fn the_end_of_the_output_is_not_lost() {
    let (done, _) = shell("printf 'x%.0s' $(seq 20000); echo end").await;
    assert!(done.output.text().ends_with("xend\n"));
    assert_eq!(done.output.total(), 20_004);
}

#[tokio::test]
async fn a_background_child_does_not_hold_the_caller() {
    for command in ["sleep 600 & echo $!", "setsid sleep 600 & echo $!", "(sleep 600 & echo $!) ; true"] {
        let (done, took) = shell(command).await;
        assert_eq!(done.exit, Exit::Code(0), "{command}");
        assert!(took < DRAIN + SLACK, "{command} took {took:?}");
        let background = done.output.text();
        assert!(lives(background.trim()), "a terminal would let it run on: {command}");
        end(background.trim());
    }
}

#[tokio::test]
async fn a_deadline_ends_the_whole_tree() {
    for command in [
        "sleep 600 & echo $!; wait",
        "setsid sleep 600 & echo $!; sleep 600",
        "env -i /bin/sh -c 'sleep 600 & echo $!; wait'",
        "(setsid sh -c 'sleep 600 & echo $!' &); sleep 600",
    ] {
        let (done, took) = shell_until(command, Duration::from_millis(400), &CancellationToken::new()).await;
        assert_eq!(done.exit, Exit::DeadlinePassed, "{command}");
        assert!(took < Duration::from_millis(400) + GRACE + DRAIN + SLACK, "{command} took {took:?}");
        assert!(!lives(done.output.text().trim()), "{command} left a process behind");
    }
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed() {
    let command = "trap '' TERM; echo $$; while true; do sleep 0.05; done";
    let (done, took) = shell_until(command, Duration::from_millis(300), &CancellationToken::new()).await;
    assert_eq!(done.exit, Exit::DeadlinePassed);
    assert!(took < Duration::from_millis(300) + GRACE + DRAIN + SLACK, "{took:?}");
    assert!(!lives(done.output.text().trim()));
}

#[tokio::test]
async fn cancelling_ends_it_within_a_second() {
    let cancel = CancellationToken::new();
    let directory = TempDir::new().unwrap();
    let spec = Spec::shell("trap '' TERM; echo up; sleep 600", directory.path(), LONG);
    let mut cancelled_at = None;
    let done = run(spec, &cancel, |output| {
        // Cancels only once it runs, because a cancelled token would also prevent its start.
        if output.text().contains("up") && cancelled_at.is_none() {
            cancelled_at = Some(Instant::now());
            cancel.cancel();
        }
    })
    .await
    .unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    assert!(cancelled_at.unwrap().elapsed() < GRACE + DRAIN + SLACK);
}

#[tokio::test]
async fn dropping_the_future_kills_the_tree() {
    let directory = TempDir::new().unwrap();
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    let spec = Spec::shell("setsid sleep 600 & echo $!; wait", directory.path(), LONG);
    let future = run(spec, &cancel, |output| {
        let _ = told.send(output.text());
    });
    let background = tokio::select! {
        _ = future => panic!("it should still run"),
        text = heard.recv() => text.unwrap(),
    };
    assert!(!lives(background.trim()));
}

#[tokio::test]
async fn endless_output_costs_a_fixed_amount() {
    let (done, _) = shell_until("yes", Duration::from_millis(500), &CancellationToken::new()).await;
    let bounds = Bounds::default();
    assert!(done.output.total() > 1_000_000, "{}", done.output.total());
    assert!(done.output.text().len() < bounds.head + bounds.tail + 100);
    assert!(done.output.omitted() > 0);
}

#[tokio::test]
async fn a_program_that_closes_its_output_is_still_waited_for() {
    let (done, _) = shell("exec >&- 2>&-; sleep 0.2; exit 7").await;
    assert_eq!(done.exit, Exit::Code(7));
}

#[tokio::test]
async fn input_is_empty_and_hidden_variables_are_not_inherited() {
    let directory = TempDir::new().unwrap();
    // The first is set in every test; the second is added explicitly.
    let hidden = ["CARGO_MANIFEST_DIR", "GIVEN"];
    let command = "cat; echo \"[$CARGO_MANIFEST_DIR][$GIVEN]\"";
    let mut spec = Spec::shell(command, directory.path(), LONG).hide(hidden);
    spec.environment = vec![("GIVEN".into(), "yes".into())];
    let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.output.text(), "[][yes]\n");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let directory = TempDir::new().unwrap();
    let spec = Spec::new("no-such-program", directory.path(), LONG);
    let error = run(spec, &CancellationToken::new(), |_| {}).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot start `no-such-program`: "), "{error}");
}

fn spooling(bounds: Bounds, output_directory: &OutputDirectory) -> Spec {
    let mut spec = Spec::shell("", "/", LONG);
    spec.bounds = bounds;
    spec.spool = Some(Spool { output_directory: output_directory.clone(), name: "test".to_owned() });
    spec
}

#[tokio::test]
async fn output_that_does_not_fit_is_in_a_file() {
    let directory = TempDir::new().unwrap();
    let output_directory = OutputDirectory::new(directory.path());
    for (command, spooled) in [("seq 100", false), ("seq 20000", true)] {
        let mut spec = spooling(Bounds { head: 100, tail: 1000 }, &output_directory);
        spec.args = vec!["-c".into(), command.into()];
        let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!(done.spooled.is_some(), spooled, "{command}");
        if let Some(path) = done.spooled {
            let expected: String = (1..=20000).map(|number| number.to_string() + "\n").collect();
            assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
            assert_eq!(done.output.lines(), 20000);
            assert!(expected.ends_with(&done.output.end()));
        }
    }
}

#[tokio::test]
async fn the_output_file_is_bounded() {
    let directory = TempDir::new().unwrap();
    let mut spec = spooling(Bounds::default(), &OutputDirectory::new(directory.path()));
    spec.args = vec!["-c".into(), "head -c 100000000 /dev/zero | tr '\\0' x".into()];
    let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.output.total(), 100_000_000);
    let size = std::fs::metadata(done.spooled.unwrap()).unwrap().len();
    assert!((MAX_SPOOL..MAX_SPOOL + 100).contains(&size), "{size}");
}

#[tokio::test]
async fn a_program_runs_although_its_output_cannot_be_spooled() {
    let mut spec = spooling(Bounds { head: 0, tail: 10 }, &OutputDirectory::new("/proc/no/such/place"));
    spec.args = vec!["-c".into(), "seq 100".into()];
    let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!((done.exit, done.spooled), (Exit::Code(0), None));
}
