//! Real programs with real restrictions. Where the kernel supports none, they must not run at all.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::output::OutputDirectory;
use crate::process::{Bounds, Done, Error, Exit, Spec, Spool, run, start};

const LONG: Duration = Duration::from_secs(20);

/// A project with a file beside it that must not change.
struct Harness {
    outer: TempDir,
    project: PathBuf,
}

impl Harness {
    fn new() -> Self {
        let outer = TempDir::new().unwrap();
        let project = outer.path().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        fs::write(outer.path().join("precious"), "as it was").unwrap();
        Self { outer, project }
    }

    fn sandbox(&self, network: bool) -> Sandbox {
        let writable = vec![self.project.clone()];
        Sandbox { writable, network, sealed: false, support: Support::probe() }
    }

    fn spec(&self, command: &str, sandbox: Sandbox) -> Spec {
        let mut spec = Spec::shell(command, &self.project, LONG);
        spec.sandbox = Some(sandbox);
        spec
    }

    /// Runs a command. Returns `None` where the kernel cannot restrict it, after checking that it did not run.
    async fn run(&self, command: &str, sandbox: Sandbox) -> Option<Done> {
        let needed = if sandbox.network { Support::Files } else { Support::Network };
        let able = sandbox.support >= needed;
        let done = run(self.spec(command, sandbox), &CancellationToken::new(), |_| {}).await;
        if able {
            return Some(done.unwrap());
        }
        assert!(matches!(done, Err(Error::Sandbox { .. })), "{done:?}");
        None
    }

    fn precious(&self) -> String {
        fs::read_to_string(self.outer.path().join("precious")).unwrap()
    }
}

#[tokio::test]
async fn a_program_writes_inside_and_nowhere_else() {
    let harness = Harness::new();
    let inside =
        "mkdir -p a/b && echo one >a/b/one && mv a/b/one two && ln two three && rm three && echo x >>two";
    let Some(done) = harness.run(inside, harness.sandbox(true)).await else { return };
    assert_eq!((done.exit, done.output.text().as_str()), (Exit::Code(0), ""));
    assert_eq!(fs::read_to_string(harness.project.join("two")).unwrap(), "one\nx\n");
    symlink(harness.outer.path().join("precious"), harness.project.join("link")).unwrap();
    symlink(harness.outer.path(), harness.project.join("away")).unwrap();
    for outside in [
        "echo new >../precious",
        "echo new >>../precious",
        "truncate -s 0 ../precious",
        "rm -f ../precious",
        "mv ../precious stolen",
        "ln ../precious hard && echo new >hard",
        "cp two ../precious",
        "mv two ../precious",
        "echo new >link",
        "echo new >away/precious",
        "touch ../created",
        "mkdir ../created",
        "ln -s x ../created",
        "mkfifo ../created",
        "(setsid sh -c 'echo new >../precious')",
    ] {
        let done = harness.run(outside, harness.sandbox(true)).await.unwrap();
        assert_ne!(done.exit, Exit::Code(0), "{outside}");
        assert_eq!(harness.precious(), "as it was", "{outside}");
        assert!(!harness.outer.path().join("created").exists(), "{outside}");
    }
}

#[tokio::test]
async fn ordinary_work_is_possible_in_the_sandbox() {
    let harness = Harness::new();
    let command = "cat ../precious; echo; echo gone >/dev/null; echo told >/dev/stderr; head -c 0 /dev/urandom; \
                   cat <<<text; diff <(echo a) <(echo a); exit 3";
    let Some(done) = harness.run(command, harness.sandbox(true)).await else { return };
    assert_eq!(done.output.text(), "as it was\ntold\ntext\n");
    assert_eq!(done.exit, Exit::Code(3));
}

#[tokio::test]
async fn without_a_writable_path_nothing_is_written() {
    let harness = Harness::new();
    let sandbox = Sandbox { writable: Vec::new(), ..harness.sandbox(true) };
    let Some(done) = harness.run("ls .. >/dev/null && touch here", sandbox).await else { return };
    assert_eq!(done.exit, Exit::Code(1));
    assert!(done.output.text().contains("Permission denied"), "{}", done.output.text());
    assert!(!harness.project.join("here").exists());
}

#[tokio::test]
async fn the_network_is_restricted_only_on_request() {
    let harness = Harness::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    if let Some(done) = harness.run(&command, harness.sandbox(true)).await {
        assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
    }
    if let Some(done) = harness.run(&command, harness.sandbox(false)).await {
        assert_eq!(done.exit, Exit::Code(1));
        assert!(done.output.text().contains("Permission denied"), "{}", done.output.text());
    }
}

#[tokio::test]
async fn a_sealed_program_only_reads_and_prints() {
    let harness = Harness::new();
    let sandbox = Sandbox::sealed(Support::probe());
    if sandbox.support < Support::Sealed {
        let done = run(harness.spec("true", sandbox), &CancellationToken::new(), |_| {}).await;
        assert!(matches!(done, Err(Error::Sandbox { .. })), "{done:?}");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tcp, udp) =
        (format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), format!("exec 3<>/dev/udp/127.0.0.1/{port}"));
    let attributes = || {
        let metadata = fs::metadata(harness.outer.path().join("precious")).unwrap();
        (metadata.permissions(), metadata.modified().unwrap())
    };
    let before = attributes();
    for forbidden in [
        "echo new >../precious",
        "touch here",
        "chmod 777 ../precious",
        "touch -d @0 ../precious",
        "kill -0 $PPID",
        tcp.as_str(),
        udp.as_str(),
    ] {
        let done = harness.run(forbidden, sandbox.clone()).await.unwrap();
        assert!(matches!(done.exit, Exit::Code(code) if code != 0), "{forbidden}: {done:?}");
    }
    assert_eq!((harness.precious().as_str(), attributes()), ("as it was", before));
    let allowed = "cat ../precious; echo; ls .. | wc -l; echo $(echo nested) 2>/dev/null";
    let done = harness.run(allowed, sandbox).await.unwrap();
    assert_eq!((done.exit, done.output.text().as_str()), (Exit::Code(0), "as it was\n2\nnested\n"));
}

#[tokio::test]
async fn other_processes_are_not_restricted() {
    let harness = Harness::new();
    let Some(_) = harness.run("true", Sandbox { writable: Vec::new(), ..harness.sandbox(false) }).await
    else {
        return;
    };
    fs::write(harness.outer.path().join("mine"), "").unwrap();
    let free = Spec::shell("echo free >../theirs", &harness.project, LONG);
    assert_eq!(run(free, &CancellationToken::new(), |_| {}).await.unwrap().exit, Exit::Code(0));
}

#[tokio::test]
async fn a_sandboxed_program_is_ended_like_any_other() {
    let harness = Harness::new();
    let mut spec = harness.spec("sleep 600 & echo $!; wait", harness.sandbox(true));
    if harness.sandbox(true).support < Support::Files {
        return;
    }
    spec.deadline = Duration::from_millis(300);
    let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.exit, Exit::DeadlinePassed);
    // A process that was not reaped yet counts as ended.
    let stat = fs::read_to_string(format!("/proc/{}/stat", done.output.text().trim()));
    assert!(stat.map_or(true, |stat| stat.contains(") Z ")));
}

#[tokio::test]
async fn long_output_is_spooled_although_the_program_may_not_write() {
    let harness = Harness::new();
    let output_directory = harness.outer.path().join("output_directory");
    let mut spec = harness.spec("seq 20000", Sandbox { writable: Vec::new(), ..harness.sandbox(true) });
    spec.bounds = Bounds { head: 0, tail: 100 };
    spec.spool =
        Some(Spool { output_directory: OutputDirectory::new(&output_directory), name: "long".to_owned() });
    if harness.sandbox(true).support < Support::Files {
        return;
    }
    let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert!(fs::read_to_string(done.spooled.unwrap()).unwrap().ends_with("19999\n20000\n"));
}

#[tokio::test]
async fn without_kernel_support_a_program_is_not_started() {
    let harness = Harness::new();
    for (support, network, message) in [
        (Support::None, true, "cannot restrict what programs write; that requires Linux 6.2"),
        (Support::None, false, "cannot restrict what programs write; that requires Linux 6.2"),
        (Support::Files, false, "cannot keep programs off the network; that requires Linux 6.7"),
    ] {
        let sandbox = Sandbox { support, ..harness.sandbox(network) };
        let error =
            run(harness.spec("touch ran", sandbox), &CancellationToken::new(), |_| {}).await.unwrap_err();
        let start = "refused to start `/bin/bash` outside of its sandbox: this system ";
        assert!(error.to_string().starts_with(&format!("{start}{message}")), "{error}");
        assert!(!harness.project.join("ran").exists());
    }
}

#[tokio::test]
async fn a_project_that_became_a_link_is_refused() {
    let harness = Harness::new();
    let sandbox = harness.sandbox(true);
    if sandbox.support < Support::Files {
        return;
    }
    fs::rename(&harness.project, harness.outer.path().join("moved")).unwrap();
    symlink(harness.outer.path(), &harness.project).unwrap();
    let error =
        run(harness.spec("rm precious", sandbox), &CancellationToken::new(), |_| {}).await.unwrap_err();
    assert!(matches!(&error, Error::Sandbox { source: Refusal::Moved { .. }, .. }), "{error}");
    assert_eq!(harness.precious(), "as it was");
}

#[tokio::test]
async fn missing_writable_paths_are_ignored() {
    let harness = Harness::new();
    let mut sandbox = harness.sandbox(true);
    sandbox.writable.push(harness.project.join("never"));
    let Some(done) = harness.run("echo fine", sandbox).await else { return };
    assert_eq!(done.output.text(), "fine\n");
}

#[tokio::test]
async fn a_companion_program_is_restricted_too() {
    let harness = Harness::new();
    let sandbox = harness.sandbox(true);
    let able = sandbox.support >= Support::Files;
    let started = start(&harness.spec("echo new >../precious", sandbox));
    assert_eq!(started.is_ok(), able);
    if let Ok((mut companion, _pipes)) = started {
        assert_eq!(companion.wait().await.unwrap(), Exit::Code(1));
        assert_eq!(harness.precious(), "as it was");
    }
    let none = Sandbox { support: Support::None, ..harness.sandbox(true) };
    assert!(matches!(start(&harness.spec("true", none)), Err(Error::Sandbox { .. })));
}
