//! Measures searches and snapshots of a large tree and edits of a large file, beside `rg` where it is
//! installed.
//!
//! `cargo run --release -p workspace --example measure -- <directory> <pattern>`

#![expect(clippy::print_stdout, reason = "prints a table")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use workspace::files::{self, Replacement};
use workspace::git::Repository;
use workspace::process::{self, Exit, Spec};
use workspace::search::{self, SearchScope};
use workspace::snapshot::{SnapshotStore, SnapshotTimeouts};

/// Each figure is the best of this many rounds, so that caches are warm.
const ROUNDS: usize = 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned())).canonicalize()?;
    let pattern = arguments.next().unwrap_or_else(|| "fn [a-z]+".to_owned());
    let scope = || {
        let mut scope = SearchScope::new(&directory);
        scope.deadline = Duration::from_mins(5);
        scope
    };
    let mut figures = [None; 4];
    let rg_files = ["--files", "--hidden", "-g", "*.rs"];
    let rg_lines = ["--hidden", "-n", &pattern];
    // Takes turns, so that the rest of the machine's load affects all alike.
    for _ in 0..ROUNDS {
        let times = [
            Some(timed(|| search::glob("*.rs", &scope()).is_ok())),
            rg(&directory, &rg_files).await,
            Some(timed(|| search::grep(&pattern, None, &scope()).is_ok())),
            rg(&directory, &rg_lines).await,
        ];
        for (fastest, time) in figures.iter_mut().zip(times) {
            *fastest = [*fastest, time].into_iter().flatten().min();
        }
    }
    let [glob, rg_files, grep, rg_lines] = figures.map(shown);
    println!("| what | Baton | `{}` |\n|---|---|---|", version(&directory).await);
    println!("| `glob *.rs` | {glob}, newest first | {rg_files}, in the order of the walk |");
    println!("| `grep {pattern}` | {grep}, newest first | {rg_lines} |");
    edits()?;
    snapshots(&directory).await
}

fn shown(time: Option<Duration>) -> String {
    time.map_or_else(|| "not installed".to_owned(), |time| format!("{} ms", time.as_millis()))
}

/// The version line of `rg`.
async fn version(directory: &Path) -> String {
    let spec = Spec::new("rg", directory, Duration::from_secs(10)).args(["--version"]);
    let done = process::run(spec, &CancellationToken::new(), |_| {}).await;
    let line = done.ok().and_then(|done| done.output.text().lines().next().map(str::to_owned));
    line.unwrap_or_else(|| "rg".to_owned())
}

/// Snapshots of the directory, if it is in a repository: the first, one without changes, one with a new file.
async fn snapshots(directory: &Path) -> Result<(), Box<dyn Error>> {
    let Some(repository) = Repository::find(directory).await else { return Ok(()) };
    let data = std::env::temp_dir().join(format!("baton-measure-snapshots-{}", std::process::id()));
    let cancel = CancellationToken::new();
    let start = Instant::now();
    let (closed, timeouts) = (workspace::files::Closed::default(), SnapshotTimeouts::default());
    let shadow = SnapshotStore::open(data.clone(), &repository, &closed, timeouts, &cancel).await?;
    let before = shadow.track(&cancel).await?;
    println!("| first snapshot | {} | |", shown(Some(start.elapsed())));
    let (mut same, mut other) = (Duration::MAX, Duration::MAX);
    let new = repository.worktree.join(format!("baton-measure-{}.txt", std::process::id()));
    for round in 0..ROUNDS {
        let start = Instant::now();
        shadow.track(&cancel).await?;
        same = same.min(start.elapsed());
        std::fs::write(&new, round.to_string())?;
        let start = Instant::now();
        let after = shadow.track(&cancel).await?;
        shadow.changed(&before, &after, &cancel).await?;
        other = other.min(start.elapsed());
    }
    println!("| snapshot of nothing new | {} | |", shown(Some(same)));
    println!("| snapshot of one new file, compared | {} | |", shown(Some(other)));
    std::fs::remove_file(&new)?;
    std::fs::remove_dir_all(&data)?;
    Ok(())
}

fn timed(work: impl FnOnce() -> bool) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

async fn rg(directory: &Path, args: &[&str]) -> Option<Duration> {
    let start = Instant::now();
    let spec = Spec::new("rg", directory, Duration::from_mins(5)).args(args.iter().copied()).args(["."]);
    let done = process::run(spec, &CancellationToken::new(), |_| {}).await.ok()?;
    matches!(done.exit, Exit::Code(0 | 1)).then(|| start.elapsed())
}

/// Edits the last lines of a 10 MB file, with quotes of decreasing accuracy.
fn edits() -> Result<(), Box<dyn Error>> {
    let line = "    let value = compute(first, second); // and some words to make it longer\n";
    let text = line.repeat(10 * 1024 * 1024 / line.len()) + "    if needle {\n        found();\n    }\n";
    let path = std::env::temp_dir().join(format!("baton-measure-{}", std::process::id()));
    for (old, how) in [
        ("needle {\n        found();", "quoted exactly"),
        ("if needle {\nfound();\n}", "wrong indentation"),
        ("if needle { found(); }", "wrong spaces and line breaks"),
        ("not there\nat all", "not there in any way"),
    ] {
        let edit = || {
            std::fs::write(&path, &text)?;
            Ok::<Duration, std::io::Error>(timed(|| {
                files::edit(&path, Replacement { old, new: "x", all: false }).is_ok()
            }))
        };
        let times = (0..ROUNDS).map(|_| edit()).collect::<Result<Vec<Duration>, _>>()?;
        println!("| edit of 10 MB, {how} | {} | |", shown(times.into_iter().min()));
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
