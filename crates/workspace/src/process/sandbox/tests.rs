//! Real programs with real restrictions. Where the kernel supports none, they must not run at all.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::output::Shelf;
use crate::process::{Bounds, Done, Error, Exit, Spec, Spool, run, start};

const LONG: Duration = Duration::from_secs(20);

/// A project with a file beside it that must not change.
struct World {
    outer: TempDir,
    project: PathBuf,
}

impl World {
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
    let world = World::new();
    let inside =
        "mkdir -p a/b && echo one >a/b/one && mv a/b/one two && ln two three && rm three && echo x >>two";
    let Some(done) = world.run(inside, world.sandbox(true)).await else { return };
    assert_eq!((done.exit, done.output.text().as_str()), (Exit::Code(0), ""));
    assert_eq!(fs::read_to_string(world.project.join("two")).unwrap(), "one\nx\n");
    symlink(world.outer.path().join("precious"), world.project.join("link")).unwrap();
    symlink(world.outer.path(), world.project.join("away")).unwrap();
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
        let done = world.run(outside, world.sandbox(true)).await.unwrap();
        assert_ne!(done.exit, Exit::Code(0), "{outside}");
        assert_eq!(world.precious(), "as it was", "{outside}");
        assert!(!world.outer.path().join("created").exists(), "{outside}");
    }
}

#[tokio::test]
async fn ordinary_work_is_possible_in_the_sandbox() {
    let world = World::new();
    let command = "cat ../precious; echo; echo gone >/dev/null; echo told >/dev/stderr; head -c 0 /dev/urandom; \
                   cat <<<text; diff <(echo a) <(echo a); exit 3";
    let Some(done) = world.run(command, world.sandbox(true)).await else { return };
    assert_eq!(done.output.text(), "as it was\ntold\ntext\n");
    assert_eq!(done.exit, Exit::Code(3));
}

#[tokio::test]
async fn without_a_writable_path_nothing_is_written() {
    let world = World::new();
    let sandbox = Sandbox { writable: Vec::new(), ..world.sandbox(true) };
    let Some(done) = world.run("ls .. >/dev/null && touch here", sandbox).await else { return };
    assert_eq!(done.exit, Exit::Code(1));
    assert!(done.output.text().contains("Permission denied"), "{}", done.output.text());
    assert!(!world.project.join("here").exists());
}

#[tokio::test]
async fn the_network_is_restricted_only_on_request() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    if let Some(done) = world.run(&command, world.sandbox(true)).await {
        assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
    }
    if let Some(done) = world.run(&command, world.sandbox(false)).await {
        assert_eq!(done.exit, Exit::Code(1));
        assert!(done.output.text().contains("Permission denied"), "{}", done.output.text());
    }
}

#[tokio::test]
async fn a_sealed_program_only_reads_and_prints() {
    let world = World::new();
    let sandbox = Sandbox::sealed(Support::probe());
    if sandbox.support < Support::Sealed {
        let done = run(world.spec("true", sandbox), &CancellationToken::new(), |_| {}).await;
        assert!(matches!(done, Err(Error::Sandbox { .. })), "{done:?}");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tcp, udp) =
        (format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), format!("exec 3<>/dev/udp/127.0.0.1/{port}"));
    let attributes = || {
        let metadata = fs::metadata(world.outer.path().join("precious")).unwrap();
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
        let done = world.run(forbidden, sandbox.clone()).await.unwrap();
        assert!(matches!(done.exit, Exit::Code(code) if code != 0), "{forbidden}: {done:?}");
    }
    assert_eq!((world.precious().as_str(), attributes()), ("as it was", before));
    let allowed = "cat ../precious; echo; ls .. | wc -l; echo $(echo nested) 2>/dev/null";
    let done = world.run(allowed, sandbox).await.unwrap();
    assert_eq!((done.exit, done.output.text().as_str()), (Exit::Code(0), "as it was\n2\nnested\n"));
}

#[tokio::test]
async fn other_processes_are_not_restricted() {
    let world = World::new();
    let Some(_) = world.run("true", Sandbox { writable: Vec::new(), ..world.sandbox(false) }).await else {
        return;
    };
    fs::write(world.outer.path().join("mine"), "").unwrap();
    let free = Spec::shell("echo free >../theirs", &world.project, LONG);
    assert_eq!(run(free, &CancellationToken::new(), |_| {}).await.unwrap().exit, Exit::Code(0));
}

#[tokio::test]
async fn a_sandboxed_program_is_ended_like_any_other() {
    let world = World::new();
    let mut spec = world.spec("sleep 600 & echo $!; wait", world.sandbox(true));
    if world.sandbox(true).support < Support::Files {
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
    let world = World::new();
    let shelf = world.outer.path().join("shelf");
    let mut spec = world.spec("seq 20000", Sandbox { writable: Vec::new(), ..world.sandbox(true) });
    spec.bounds = Bounds { head: 0, tail: 100 };
    spec.spool = Some(Spool { shelf: Shelf::new(&shelf), name: "long".to_owned() });
    if world.sandbox(true).support < Support::Files {
        return;
    }
    let done = run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert!(fs::read_to_string(done.spooled.unwrap()).unwrap().ends_with("19999\n20000\n"));
}

#[tokio::test]
async fn without_kernel_support_a_program_is_not_started() {
    let world = World::new();
    for (support, network, message) in [
        (Support::None, true, "cannot restrict what programs write; that requires Linux 6.2"),
        (Support::None, false, "cannot restrict what programs write; that requires Linux 6.2"),
        (Support::Files, false, "cannot keep programs off the network; that requires Linux 6.7"),
    ] {
        let sandbox = Sandbox { support, ..world.sandbox(network) };
        let error =
            run(world.spec("touch ran", sandbox), &CancellationToken::new(), |_| {}).await.unwrap_err();
        let start = "refused to start `/bin/bash` outside of its sandbox: this system ";
        assert!(error.to_string().starts_with(&format!("{start}{message}")), "{error}");
        assert!(!world.project.join("ran").exists());
    }
}

#[tokio::test]
async fn a_project_that_became_a_link_is_refused() {
    let world = World::new();
    let sandbox = world.sandbox(true);
    if sandbox.support < Support::Files {
        return;
    }
    fs::rename(&world.project, world.outer.path().join("moved")).unwrap();
    symlink(world.outer.path(), &world.project).unwrap();
    let error = run(world.spec("rm precious", sandbox), &CancellationToken::new(), |_| {}).await.unwrap_err();
    assert!(matches!(&error, Error::Sandbox { source: Refusal::Moved { .. }, .. }), "{error}");
    assert_eq!(world.precious(), "as it was");
}

#[tokio::test]
async fn missing_writable_paths_are_ignored() {
    let world = World::new();
    let mut sandbox = world.sandbox(true);
    sandbox.writable.push(world.project.join("never"));
    let Some(done) = world.run("echo fine", sandbox).await else { return };
    assert_eq!(done.output.text(), "fine\n");
}

#[tokio::test]
async fn a_companion_program_is_restricted_too() {
    let world = World::new();
    let sandbox = world.sandbox(true);
    let able = sandbox.support >= Support::Files;
    let started = start(&world.spec("echo new >../precious", sandbox));
    assert_eq!(started.is_ok(), able);
    if let Ok((mut companion, _pipes)) = started {
        assert_eq!(companion.wait().await.unwrap(), Exit::Code(1));
        assert_eq!(world.precious(), "as it was");
    }
    let none = Sandbox { support: Support::None, ..world.sandbox(true) };
    assert!(matches!(start(&world.spec("true", none)), Err(Error::Sandbox { .. })));
}
