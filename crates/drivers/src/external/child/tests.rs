//! Programs that misuse their pipes in every way.

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A timeout that must not expire. It turns a hanging test into a failing one.
const LONG: Duration = Duration::from_secs(20);

struct Scene {
    child: Child,
    _directory: TempDir,
}

fn shell(script: &str) -> Scene {
    let directory = TempDir::new().unwrap();
    let mut launch = Launch::new("/bin/sh", ["-c", script], directory.path());
    launch.bounds = Bounds {
        line: 1_000_000,
        errors: 64,
        write: Duration::from_millis(200),
        linger: Duration::from_millis(100),
    };
    Scene { child: Child::start(&launch).unwrap(), _directory: directory }
}

impl Scene {
    async fn next(&mut self) -> Result<OutputLine, ProgramFailure> {
        timeout(LONG, self.child.next()).await.unwrap()
    }

    async fn number(&mut self) -> u32 {
        match self.next().await.unwrap() {
            OutputLine::Json(value) => value.as_u64().unwrap().try_into().unwrap(),
            noise @ OutputLine::Noise { .. } => panic!("{noise:?}"),
        }
    }

    async fn failure(&mut self) -> String {
        self.next().await.unwrap_err().to_string()
    }
}

fn lives(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn lines_of_json_are_exchanged() {
    let mut scene = shell("while read -r line; do echo \"[$line]\"; done; exit 7");
    for word in ["one", "two"] {
        scene.child.say(&json!({ "word": word })).await;
        assert_eq!(scene.next().await.unwrap(), OutputLine::Json(json!([{ "word": word }])));
    }
    scene.child.input().close();
    assert_eq!(scene.failure().await, "`/bin/sh` exited with code 7");
    assert_eq!(scene.failure().await, "`/bin/sh` exited with code 7");
}

#[tokio::test]
async fn an_invalid_line_is_reported_and_reading_continues() {
    let mut scene = shell("echo hello; printf '\"\\377\"\\n'; printf '\\n{\"a\":\\n1\\n'");
    let mut whys = Vec::new();
    for _ in 0..3 {
        let OutputLine::Noise { text, why } = scene.next().await.unwrap() else { panic!("it made sense") };
        whys.push(format!("{text}: {}", why.split(':').next().unwrap()));
    }
    assert_eq!(whys, ["hello: it is not JSON", "\"\u{fffd}\": it is not UTF-8", "{\"a\":: it is not JSON"]);
    assert_eq!(scene.number().await, 1);
}

#[tokio::test]
async fn the_exit_is_reported_with_the_error_output() {
    for (script, expected) in [
        ("exit 0", "`/bin/sh` exited with code 0"),
        ("echo no key >&2; exit 1", "`/bin/sh` exited with code 1; it said: no key"),
        ("kill -9 $$", "`/bin/sh` was ended by signal 9"),
        ("printf '{\"type\":'; exit 3", "`/bin/sh` exited with code 3 in the middle of a line ({\"type\":)"),
    ] {
        assert_eq!(shell(script).failure().await, expected);
    }
    let flood = "head -c 100000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1";
    let failure = shell(flood).failure().await;
    assert!(failure.ends_with("the end") && failure.len() < 200, "{failure}");
}

#[tokio::test]
async fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let mut scene = shell("head -c 100000000 /dev/zero | tr '\\0' x; sleep 600");
    assert_eq!(scene.failure().await, "`/bin/sh` wrote a line of more than 1000000 bytes, so it was ended");
    assert!(scene.child.lines.rest().len() < 1_000_000 + 2 * CHUNK);
}

#[tokio::test]
async fn a_program_that_closes_its_output_and_runs_on_is_ended() {
    let mut scene = shell("echo 1; exec >&-; echo sulking >&2; sleep 600");
    assert_eq!(scene.number().await, 1);
    let expected = "`/bin/sh` closed its output and went on running, so it was ended; it said: sulking";
    assert_eq!(scene.failure().await, expected);
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_is_ended() {
    let mut scene = shell("echo 1; sleep 600");
    assert_eq!(scene.number().await, 1);
    scene.child.say(&json!("x".repeat(1_000_000))).await;
    let expected = "`/bin/sh` did not read its input for 200ms, so it was ended";
    assert_eq!(scene.failure().await, expected);
    let mut scene = shell("exec <&-; echo 1; sleep 600");
    assert_eq!(scene.number().await, 1);
    scene.child.say(&json!("hello")).await;
    let failure = scene.failure().await;
    assert!(failure.starts_with("`/bin/sh` closed its input ("), "{failure}");
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipes_does_not_delay_the_exit() {
    let mut scene = shell("sleep 600 & echo $!; printf '2\\n'; exit 4");
    let grandchild = scene.number().await;
    assert_eq!(scene.number().await, 2);
    assert_eq!(scene.failure().await, "`/bin/sh` exited with code 4");
    assert!(lives(grandchild));
    drop(scene);
    assert!(!lives(grandchild));
}

#[tokio::test]
async fn a_grandchild_that_never_stops_writing_does_not_delay_the_exit() {
    let mut scene = shell("while :; do echo 5; done & exit 4");
    let ended = async {
        loop {
            match scene.child.next().await {
                Ok(heard) => assert_eq!(heard, OutputLine::Json(json!(5))),
                Err(failure) => break failure.to_string(),
            }
        }
    };
    // The output may end in the middle of a line.
    let ended = timeout(LONG, ended).await.unwrap();
    assert!(ended.starts_with("`/bin/sh` exited with code 4"), "{ended}");
}

#[tokio::test]
async fn no_process_is_left_after_a_drop_or_a_stop() {
    for asked in [true, false] {
        let mut scene =
            shell("trap '' TERM INT HUP; setsid sleep 600 & echo $!; sleep 600 & echo $!; wait; wait");
        let mut processes = vec![scene.child.id().unwrap()];
        processes.extend([scene.number().await, scene.number().await]);
        assert!(processes.iter().all(|id| lives(*id)));
        if asked {
            timeout(LONG, scene.child.stop()).await.unwrap();
        } else {
            drop(scene);
        }
        assert!(!processes.iter().any(|id| lives(*id)), "asked: {asked}");
    }
}

#[tokio::test]
async fn a_missing_program_cannot_be_started() {
    let launch = Launch::new("/nonexistent/agent", [""; 0], "/");
    let failure = Child::start(&launch).unwrap_err().to_string();
    assert!(failure.starts_with("cannot start `/nonexistent/agent`: "), "{failure}");
    assert!(failure.ends_with("; is it installed and on the PATH?"), "{failure}");
}
