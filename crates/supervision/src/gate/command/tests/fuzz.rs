//! The differential fuzzer: bash runs the lines that the default rules allow without a question, and none may
//! change anything.
//!
//! Each such line runs twice in throw-away projects ([`HostileProject`]): as the product runs it, and without the seal, so
//! that the seal does not hide a mistake of the judge. The environment variables `BATON_FUZZ_LINES` and
//! `BATON_FUZZ_SEED` change the number of lines and the seed.

use std::collections::HashSet;
use std::time::Duration;

use super::attacks::corpus;
use super::generator::Generator;
use super::hostile_project::{HostileProject, Run, can_run};
use super::verdict;
use crate::permission::{Permissions, Verdict, defaults};

/// Lines of an ordinary run.
const LINES: u64 = 2_000;

const SEED: u64 = 13;

/// Workers that run lines at the same time.
const WORKERS: u64 = 2;

/// Timeout of a line. Some lines sleep; their effects until then still count.
const DEADLINE: Duration = Duration::from_secs(2);

/// Timeout of a line that must have its effect.
const LONG_DEADLINE: Duration = Duration::from_mins(1);

/// Findings after which a worker stops.
const MOST_FINDINGS: usize = 10;

/// Two throw-away projects, and the findings in them.
struct Worker {
    permissions: Permissions,
    sealed: HostileProject,
    loose: HostileProject,
    seen: HashSet<String>,
    executed: usize,
    findings: Vec<String>,
}

impl Worker {
    async fn new() -> Self {
        let (sealed, loose) = tokio::join!(HostileProject::new(Run::Sealed), HostileProject::new(Run::Loose));
        assert!(sealed.is_intact() && loose.is_intact());
        Self {
            permissions: Permissions::new(defaults(), Vec::new()),
            sealed,
            loose,
            seen: HashSet::new(),
            executed: 0,
            findings: Vec::new(),
        }
    }

    /// Judges a line and runs it if it passes.
    async fn test(&mut self, name: &str, line: &str, executes: bool) {
        match verdict(&self.permissions, self.loose.root(), line) {
            Verdict::Ask => return,
            Verdict::Confined => {}
            other => self.findings.push(format!("{name}: {line:?} is {other:?}")),
        }
        if !executes || !self.seen.insert(line.to_owned()) {
            return;
        }
        self.executed += 1;
        for run in [Run::Sealed, Run::Loose] {
            let project = if run == Run::Sealed { &mut self.sealed } else { &mut self.loose };
            let damage = project.damage(line, DEADLINE).await;
            if !damage.is_empty() {
                self.findings.push(format!("{name}, {run:?}: {line:?} {damage:?}"));
                *project = HostileProject::new(run).await;
            }
        }
    }
}

/// Returns true if lines can be run. Prints a note if not, because then the lines are only judged.
fn executes() -> bool {
    let executes = can_run();
    if !executes {
        println!("NOT EXECUTED: without Landlock, seccomp and bash the lines are only judged");
    }
    executes
}

fn setting(name: &str, usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a developer sets them for a longer run")]
    let value = std::env::var(name);
    value.map_or(usual, |value| {
        value.parse().unwrap_or_else(|error| panic!("{name} must be a number and is {value:?}: {error}"))
    })
}

fn assert_none(findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} lines did more than read and print:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_lines_that_run_without_a_question_change_nothing() {
    let (lines, seed, executes) =
        (setting("BATON_FUZZ_LINES", LINES), setting("BATON_FUZZ_SEED", SEED), executes());
    let work = move |worker: u64| async move {
        let corpus: Vec<String> = corpus().into_iter().map(|case| case.line).collect();
        let mut state = Worker::new().await;
        for index in (worker..lines).step_by(usize::try_from(WORKERS).unwrap()) {
            let line = Generator::new(seed.wrapping_mul(1 << 32).wrapping_add(index), &corpus).line();
            state.test(&format!("seed {seed}, line {index}"), &line, executes).await;
            if state.findings.len() >= MOST_FINDINGS {
                break;
            }
        }
        (state.executed, state.findings)
    };
    let workers: Vec<_> = (0..WORKERS).map(|worker| tokio::spawn(work(worker))).collect();
    let (mut executed, mut findings) = (0, Vec::new());
    for worker in workers {
        let (ran, found) = worker.await.unwrap();
        executed += ran;
        findings.extend(found);
    }
    println!("seed {seed}: {lines} lines judged, {executed} of them run twice, {} findings", findings.len());
    assert_none(&findings);
    assert!(!executes || executed as u64 >= lines / 20, "only {executed} of {lines} lines were run");
}

#[tokio::test]
async fn lines_of_the_corpus_that_run_without_a_question_change_nothing() {
    let executes = executes();
    let mut worker = Worker::new().await;
    for case in corpus() {
        worker.test("corpus", &case.line, executes).await;
    }
    assert_none(&worker.findings);
}

#[tokio::test]
async fn the_loose_run_shows_the_effects_of_a_line_and_the_sealed_run_prevents_them() {
    if !executes() {
        return;
    }
    let sealed = HostileProject::new(Run::Sealed).await;
    for (line, sign) in [
        ("touch pwned", "created"),
        ("echo x >>../outside/canary", "changed"),
        ("chmod 700 a", "changed"),
        ("rm ../home/canary", "removed"),
        ("exec 3<>/dev/tcp/127.0.0.1/PORT", "TCP"),
        ("git -c core.fsmonitor=./evil status", "created"),
        ("git log -1 --output=pwned", "created"),
        ("git log -p --diff-merges=remerge", "created"),
    ] {
        let loose = HostileProject::new(Run::Loose).await;
        let damage = loose.damage(line, LONG_DEADLINE).await;
        assert!(damage.iter().any(|found| found.contains(sign)), "{line}: {damage:?}");
        assert_eq!(sealed.damage(line, LONG_DEADLINE).await, Vec::<String>::new(), "{line}");
    }
}
