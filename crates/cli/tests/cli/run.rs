//! Tests of `baton run`.

use protocol::{Event, EventBody};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::harness::{Harness, finish};

const HELLO: &str = "Hello from the demo model. All is well.\n";

fn events(lines: &str) -> Vec<Event> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn session_of(lines: &str) -> String {
    events(lines)[0].body.session_id().unwrap().to_string()
}

#[tokio::test]
async fn a_pipe_gets_the_answer_and_nothing_else() {
    let harness = Harness::new();
    let ended = harness.run_with_data(&["run", "hi", "--model", "demo/simple"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), HELLO));
    assert!(is_session_line(&ended.stderr), "{ended:?}");
    let tools = harness.run_with_data(&["run", "hi", "--model", "demo/read_edit"]).await;
    insta::assert_snapshot!(tools.stdout, @r"
    I'll read the README first.
    Now I'll add a line at the end.
    Done! I added one line to README.md.
    ");
    assert_eq!(tools.code, Some(0));
    assert!(is_session_line(&tools.stderr), "{tools:?}");
}

/// Returns true if the text is the line that names the session and nothing else.
fn is_session_line(text: &str) -> bool {
    let id = text.strip_prefix("session ses_").and_then(|rest| rest.strip_suffix('\n'));
    id.is_some_and(|id| id.chars().all(char::is_alphanumeric))
}

#[tokio::test]
async fn a_prompt_needs_no_quotes_and_a_session_can_have_a_title() {
    let harness = Harness::new();
    let args = ["run", "what", "is", "this", "--title", "My title", "--format", "json", "-m", "demo/simple"];
    let ended = harness.run_with_data(&args).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains(r#""text":"what is this""#), "{}", ended.stdout);
    let listed = harness.run_with_data(&["sessions"]).await;
    let session = session_of(&ended.stdout);
    assert!(listed.stdout.starts_with(&session) && listed.stdout.ends_with("My title\n"), "{listed:?}");
}

#[tokio::test]
async fn a_slash_command_runs_with_its_arguments() {
    let harness = Harness::new();
    let commands = harness.project().join(".opencode/command");
    std::fs::create_dir_all(&commands).unwrap();
    std::fs::write(commands.join("greet.md"), "Say hello to $ARGUMENTS.").unwrap();
    let run = ["run", "--command", "greet", "Ada", "Lovelace", "--format", "json", "-m", "demo/simple"];
    let local = harness.run_with_data(&run).await;
    assert_eq!(local.code, Some(0), "{local:?}");
    assert!(local.stdout.contains("Say hello to Ada Lovelace."), "{}", local.stdout);

    let unknown = harness.run_with_data(&["run", "--command", "nosuch", "-m", "demo/simple"]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("greet"), "the known commands: {}", unknown.stderr);
    assert_eq!(
        harness.run_with_data(&["sessions"]).await.stdout.lines().count(),
        1,
        "no empty session is left"
    );

    let server = harness.serve().await;
    let attached = [&run[..], &["--attach", &server.url]].concat();
    let remote = harness.run(&attached).await;
    assert_eq!(remote.code, Some(0), "{remote:?}");
    server.stop().await;
}

#[tokio::test]
async fn files_are_attached() {
    let harness = Harness::new();
    std::fs::write(harness.path("notes.txt"), "remember the milk").unwrap();
    let notes = harness.path("notes.txt");
    let notes = notes.to_str().unwrap();
    let run = ["run", "read this", "--file", notes, "--format", "json", "-m", "demo/simple"];
    let ended = harness.run_with_data(&run).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("remember the milk"), "the model gets the text: {}", ended.stdout);
    std::fs::write(harness.path("data.bin"), [0xff, 0xfe, 0]).unwrap();
    for wrong in [harness.path("missing"), harness.path("data.bin"), harness.project()] {
        let refused = harness.run_with_data(&["run", "hi", "--file", wrong.to_str().unwrap()]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("cannot attach"), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn another_directory_can_be_chosen() {
    let harness = Harness::new();
    let other = harness.path("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.canonicalize().unwrap();
    let other = other.to_str().unwrap();
    let ended =
        harness.run_with_data(&["run", "hi", "--dir", other, "--format", "json", "-m", "demo/simple"]).await;
    assert!(ended.stdout.contains(&format!(r#""directory":"{other}""#)), "{ended:?}");
    assert!(
        harness.run_with_data(&["sessions"]).await.stdout.is_empty(),
        "it is not a session of this directory"
    );
    let missing = harness.run_with_data(&["run", "hi", "--dir", "no/such"]).await;
    assert_eq!(missing.code, Some(2), "{missing:?}");
}

#[tokio::test]
async fn a_fork_leaves_the_session_as_it_is() {
    let harness = Harness::new();
    let run = async |more: &[&str]| {
        let args = [&["run", "hi", "--format", "json", "-m", "demo/simple"], more].concat();
        harness.run_with_data(&args).await
    };
    let first = session_of(&run(&[]).await.stdout);
    let forked = run(&["--session", &first, "--fork"]).await;
    assert_eq!(forked.code, Some(0), "{forked:?}");
    let copy = events(&forked.stdout).last().unwrap().body.session_id().unwrap().to_string();
    assert_ne!(copy, first);
    let nothing = harness.run_with_data(&["run", "hi", "--fork"]).await;
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

#[tokio::test]
async fn reasoning_is_shown_on_request() {
    let harness = Harness::new();
    let quiet = harness.run_with_data(&["run", "hi", "-m", "demo/reasoning"]).await;
    let thinking = harness.run_with_data(&["run", "hi", "-m", "demo/reasoning", "--thinking"]).await;
    assert!(is_session_line(&quiet.stderr), "{quiet:?}");
    assert_eq!(thinking.stdout, quiet.stdout);
    assert!(thinking.stderr.contains("the answer can be short"), "{}", thinking.stderr);
}

#[tokio::test]
async fn a_log_names_the_denied_permission_and_the_rule_that_allows_it() {
    let harness = Harness::new();
    let ended = harness.run_with_data(&["run", "hi", "-m", "demo/permission"]).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let said: Vec<&str> = ended.stderr.lines().filter(|line| !line.starts_with("session ")).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    denied: permission for `touch demo-permission.txt && echo approved`, because there is no terminal to ask on
    hint: --yes approves everything, or "permission": { "bash": { "touch *": "allow", "echo *": "allow" } } in opencode.json allows this
    blocked: permission for `touch demo-permission.txt && echo approved` was denied
    "#);
    let question = harness.run_with_data(&["run", "hi", "-m", "demo/question", "--deny"]).await;
    assert!(
        question.stderr.contains("blocked: the question \"Which colour do you want?\" was skipped"),
        "{question:?}"
    );
}

#[tokio::test]
async fn answers_that_are_cut_off_or_empty_are_reported() {
    let harness = Harness::new();
    for (model, warning) in [("demo/length", "cut off"), ("demo/empty", "empty answer")] {
        let ended = harness.run_with_data(&["run", "hi", "-m", model]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("warning: the ") && ended.stderr.contains(warning), "{ended:?}");
    }
}

#[tokio::test]
async fn a_summary_is_not_printed_as_the_answer() {
    let harness = Harness::new();
    let ended = harness.run_with_data(&["run", "hi", "-m", "demo/context_overflow_final"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "That was a long story.\n"), "{ended:?}");
}

#[tokio::test]
async fn a_retry_shows_the_time_of_the_next_attempt() {
    let harness = Harness::new();
    let ended = harness.run_with_data(&["run", "hi", "-m", "demo/overloaded_529"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = ended.stderr.lines().next().unwrap();
    assert!(
        line.starts_with("retry: ") && line.contains("; next try in ") && line.contains("(1 of "),
        "{line}"
    );
}

#[tokio::test]
async fn a_refused_key_names_provider_and_model() {
    let harness = Harness::new();
    let ended = harness.run_with_data(&["run", "hi", "-m", "demo/error_401"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let expected = "error: the provider demo does not accept the key (demo/error_401): ";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}

#[tokio::test]
async fn a_misspelt_model_gets_a_suggestion() {
    let harness = Harness::new();
    let ended = harness.run_with_data(&["run", "hi", "-m", "demo/batn"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("hint: did you mean demo/baton?"), "{}", ended.stderr);
    assert!(ended.stderr.contains("`baton models`"), "{}", ended.stderr);
    let models = harness.run_with_data(&["models", "BATON"]).await;
    assert_eq!((models.code, models.stdout.as_str()), (Some(0), "demo/baton\n"), "{models:?}");
    std::fs::write(harness.project().join("opencode.json"), r#"{ "model": "demo/bton" }"#).unwrap();
    let configured = harness.run_with_data(&["run", "hi"]).await;
    assert_eq!(configured.code, Some(2), "{configured:?}");
    assert!(configured.stderr.contains("did you mean demo/baton?"), "{}", configured.stderr);
}

#[tokio::test]
async fn a_warning_about_the_configuration_is_printed() {
    let harness = Harness::new();
    harness.trust();
    let config = r#"{ "instructions": ["{env:BATON_TEST_UNSET}"] }"#;
    std::fs::write(harness.project().join("opencode.json"), config).unwrap();
    let ended = harness.run_with_data(&["run", "hi", "-m", "demo/simple"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stderr.starts_with("warning: ") && ended.stderr.contains("BATON_TEST_UNSET"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_prompt_can_be_piped_in() {
    let harness = Harness::new();
    for args in [&["run", "-m", "demo/simple"][..], &["run", "-", "-m", "demo/simple"]] {
        let ended = finish(harness.with_data(args), "hi\n").await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), HELLO), "{ended:?}");
    }
    let empty = finish(harness.with_data(&["run"]), "\n").await;
    assert_eq!(empty.code, Some(2), "{empty:?}");
}

#[tokio::test]
async fn piped_input_follows_the_prompt() {
    let harness = Harness::new();
    let command = harness.with_data(&["run", "review this", "--format", "json", "-m", "demo/simple"]);
    let ended = finish(command, "a diff\n").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains(r#""review this\n\na diff\n""#), "{}", ended.stdout);
}

#[tokio::test]
async fn a_refused_prompt_leaves_no_session_to_continue() {
    let harness = Harness::new();
    let refused = harness.run_with_data(&["run", "hi", "-m", "demo/no_such"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let none = harness.run_with_data(&["run", "hi", "-m", "demo/simple", "--continue"]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
}

#[tokio::test]
async fn json_is_one_event_per_line_from_creation_to_idle() {
    let harness = Harness::new();
    let ended =
        harness.run_with_data(&["run", "hi", "--format", "json", "-m", "demo/subagent", "--yes"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = events(&ended.stdout);
    assert_eq!(events.first().unwrap().body.kind(), "session.created");
    assert_eq!(events.last().unwrap().body.kind(), "session.idle");
    let sessions = events.iter().filter(|event| matches!(event.body, EventBody::SessionCreated(_))).count();
    assert_eq!(sessions, 2, "the child's events, too");
    let recording = harness.path("run.jsonl");
    std::fs::write(&recording, &ended.stdout).unwrap();
    let checked = harness.run(&["check", recording.to_str().unwrap()]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[tokio::test]
async fn the_exit_code_reports_the_end_of_the_turn() {
    let harness = Harness::new();
    let failed = harness.run_with_data(&["run", "hi", "-m", "demo/error_400"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.starts_with("error: "), "{}", failed.stderr);

    let blocked = harness.run_with_data(&["run", "hi", "-m", "demo/permission"]).await;
    assert_eq!(blocked.code, Some(3), "{blocked:?}");
    assert!(blocked.stderr.contains("blocked") && blocked.stderr.contains("--yes"), "{}", blocked.stderr);
    let denied = harness.run_with_data(&["run", "hi", "-m", "demo/question", "--deny"]).await;
    assert_eq!(denied.code, Some(3), "{denied:?}");
    for scenario in ["demo/permission", "demo/question"] {
        let allowed = harness.run_with_data(&["run", "hi", "-m", scenario, "--yes"]).await;
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
        let ended = harness.run_with_data(args).await;
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_session_is_continued_on_request() {
    let harness = Harness::new();
    let none = harness.run_with_data(&["run", "hi", "--continue"]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
    let run = async |more: &[&str]| {
        let args = [&["run", "hi", "--format", "json", "-m", "demo/simple"], more].concat();
        session_of(&harness.run_with_data(&args).await.stdout)
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
    let harness = Harness::new();
    let server = harness.serve().await;
    let attached = harness.run(&["run", "hi", "-m", "demo/simple", "--attach", &server.url]).await;
    assert_eq!((attached.code, attached.stdout.as_str()), (Some(0), HELLO), "{attached:?}");
    let found = harness.run_with_data(&["run", "hi", "-m", "demo/simple", "--continue"]).await;
    assert_eq!(
        (found.code, found.stdout.as_str()),
        (Some(0), HELLO),
        "the server of the data directory: {found:?}"
    );
    let sessions = server.calls.get("/session").await.unwrap();
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    let blocked = harness.run(&["run", "hi", "-m", "demo/permission", "--attach", &server.url]).await;
    assert_eq!(blocked.code, Some(3), "{blocked:?}");
    let unknown = harness.run(&["run", "hi", "-m", "demo/no_such", "--attach", &server.url]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let (url, ()) = (server.url.clone(), server.stop().await);
    let nobody = harness.run(&["run", "hi", "--attach", &url]).await;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
}

async fn stop_with(signal: Signal, more: &[&str], harness: &Harness) -> (Option<i32>, Vec<Event>) {
    let args = [&["run", "hi", "--format", "json", "-m", "demo/slow:10000@20"], more].concat();
    let mut child = harness.with_data(&args).spawn().unwrap();
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
    let harness = Harness::new();
    let (code, events) = stop_with(Signal::INT, &[], &harness).await;
    assert_eq!(code, Some(4));
    assert_eq!(events.last().unwrap().body.kind(), "session.idle");
    let (code, events) = stop_with(Signal::TERM, &[], &harness).await;
    assert_eq!(code, Some(5));
    assert_eq!(events.last().unwrap().body.kind(), "session.idle");

    let server = harness.serve().await;
    let (code, _) = stop_with(Signal::INT, &[], &harness).await;
    assert_eq!(code, Some(4));
    assert_eq!(server.calls.get("/session/status").await.unwrap(), serde_json::json!({}));
    server.stop().await;
}
