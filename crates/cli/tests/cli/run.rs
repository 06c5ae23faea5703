//! Tests of `baton run`.

use protocol::{Event, EventBody};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::world::{World, finish};

const HELLO: &str = "Hello from the demo model. All is well.\n";

fn events(lines: &str) -> Vec<Event> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn session_of(lines: &str) -> String {
    events(lines)[0].body.session_id().unwrap().to_string()
}

#[tokio::test]
async fn a_pipe_gets_the_answer_and_nothing_else() {
    let world = World::new();
    let ended = world.run_with_data(&["run", "hi", "--model", "demo/simple"]).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), HELLO, ""));
    let tools = world.run_with_data(&["run", "hi", "--model", "demo/read_edit"]).await;
    insta::assert_snapshot!(tools.stdout, @r"
    I'll read the README first.
    Now I'll add a line at the end.
    Done! I added one line to README.md.
    ");
    assert_eq!((tools.code, tools.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_prompt_can_be_piped_in() {
    let world = World::new();
    for args in [&["run", "-m", "demo/simple"][..], &["run", "-", "-m", "demo/simple"]] {
        let ended = finish(world.with_data(args), "hi\n").await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), HELLO), "{ended:?}");
    }
    let empty = finish(world.with_data(&["run"]), "\n").await;
    assert_eq!(empty.code, Some(2), "{empty:?}");
}

#[tokio::test]
async fn piped_input_follows_the_prompt() {
    let world = World::new();
    let command = world.with_data(&["run", "review this", "--format", "json", "-m", "demo/simple"]);
    let ended = finish(command, "a diff\n").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains(r#""review this\n\na diff\n""#), "{}", ended.stdout);
}

#[tokio::test]
async fn a_refused_prompt_leaves_no_session_to_continue() {
    let world = World::new();
    let refused = world.run_with_data(&["run", "hi", "-m", "demo/no_such"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let none = world.run_with_data(&["run", "hi", "-m", "demo/simple", "--continue"]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
}

#[tokio::test]
async fn json_is_one_event_per_line_from_the_sessions_birth_to_its_idle() {
    let world = World::new();
    let ended = world.run_with_data(&["run", "hi", "--format", "json", "-m", "demo/subagent", "--yes"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = events(&ended.stdout);
    assert_eq!(events.first().unwrap().body.kind(), "session.created");
    assert_eq!(events.last().unwrap().body.kind(), "session.idle");
    let sessions = events.iter().filter(|event| matches!(event.body, EventBody::SessionCreated(_))).count();
    assert_eq!(sessions, 2, "the child's events, too");
    let recording = world.path("run.jsonl");
    std::fs::write(&recording, &ended.stdout).unwrap();
    let checked = world.run(&["check", recording.to_str().unwrap()]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[tokio::test]
async fn the_exit_code_says_how_the_turn_ended() {
    let world = World::new();
    let failed = world.run_with_data(&["run", "hi", "-m", "demo/error_400"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.starts_with("error: "), "{}", failed.stderr);

    let blocked = world.run_with_data(&["run", "hi", "-m", "demo/permission"]).await;
    assert_eq!(blocked.code, Some(3), "{blocked:?}");
    assert!(blocked.stderr.contains("blocked") && blocked.stderr.contains("--yes"), "{}", blocked.stderr);
    let denied = world.run_with_data(&["run", "hi", "-m", "demo/question", "--deny"]).await;
    assert_eq!(denied.code, Some(3), "{denied:?}");
    for scenario in ["demo/permission", "demo/question"] {
        let allowed = world.run_with_data(&["run", "hi", "-m", scenario, "--yes"]).await;
        assert_eq!(allowed.code, Some(0), "{allowed:?}");
    }

    for args in [
        &["run", "hi", "-m", "demo/no_such"][..],
        &["run", "hi", "-m", "nonsense"],
        &["run", "hi", "--agent", "nobody"],
        &["run", "hi", "--session", "ses_00000000000000000000000000"],
        &["run", "hi", "--session", "nonsense"],
        &["run", "hi", "--format", "xml"],
    ] {
        let ended = world.run_with_data(args).await;
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_session_is_continued_on_request() {
    let world = World::new();
    let none = world.run_with_data(&["run", "hi", "--continue"]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
    let run = async |more: &[&str]| {
        let args = [&["run", "hi", "--format", "json", "-m", "demo/simple"], more].concat();
        session_of(&world.run_with_data(&args).await.stdout)
    };
    let first = run(&[]).await;
    assert_eq!(run(&["--continue"]).await, first);
    let second = run(&[]).await;
    assert_ne!(second, first);
    assert_eq!(run(&["--session", &first]).await, first);
    assert_eq!(run(&["--continue"]).await, first, "the latest is the one that was used last");
}

#[tokio::test]
async fn a_server_can_run_the_turn() {
    let world = World::new();
    let server = world.serve().await;
    let attached = world.run(&["run", "hi", "-m", "demo/simple", "--attach", &server.url]).await;
    assert_eq!((attached.code, attached.stdout.as_str()), (Some(0), HELLO), "{attached:?}");
    let found = world.run_with_data(&["run", "hi", "-m", "demo/simple", "--continue"]).await;
    assert_eq!(
        (found.code, found.stdout.as_str()),
        (Some(0), HELLO),
        "the server of the data directory: {found:?}"
    );
    let sessions = server.calls.get("/session").await.unwrap();
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    let blocked = world.run(&["run", "hi", "-m", "demo/permission", "--attach", &server.url]).await;
    assert_eq!(blocked.code, Some(3), "{blocked:?}");
    let unknown = world.run(&["run", "hi", "-m", "demo/no_such", "--attach", &server.url]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let (url, ()) = (server.url.clone(), server.stop().await);
    let nobody = world.run(&["run", "hi", "--attach", &url]).await;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
}

async fn stop_with(signal: Signal, more: &[&str], world: &World) -> (Option<i32>, Vec<Event>) {
    let args = [&["run", "hi", "--format", "json", "-m", "demo/slow:10000@20"], more].concat();
    let mut child = world.with_data(&args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut seen, mut stopped) = (String::new(), false);
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("message.part.delta") && !std::mem::replace(&mut stopped, true) {
            let pid = i32::try_from(child.id().unwrap()).unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    (child.wait().await.unwrap().code(), events(&seen))
}

#[tokio::test]
async fn stopping_it_stops_the_turn_and_waits_for_its_idle() {
    let world = World::new();
    let (code, events) = stop_with(Signal::INT, &[], &world).await;
    assert_eq!(code, Some(4));
    assert_eq!(events.last().unwrap().body.kind(), "session.idle");
    let (code, events) = stop_with(Signal::TERM, &[], &world).await;
    assert_eq!(code, Some(5));
    assert_eq!(events.last().unwrap().body.kind(), "session.idle");

    let server = world.serve().await;
    let (code, _) = stop_with(Signal::INT, &[], &world).await;
    assert_eq!(code, Some(4));
    assert_eq!(server.calls.get("/session/status").await.unwrap(), serde_json::json!({}));
    server.stop().await;
}
