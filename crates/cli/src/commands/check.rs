//! `baton check`: watches a stream of events and reports where it would mislead a client.

use std::{collections::BTreeSet, future::pending, mem, path::Path, time::Duration};

use client::{
    Received, Scope,
    check::{Checker, End, Finding, Report, Severity},
    recording::Recording,
};
use engine::ports::{Clock, SystemClock};
use futures::StreamExt;
use owo_colors::OwoColorize;
use protocol::{EventBody, SessionId};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    time::{Instant, sleep_until},
};

use crate::{
    args::{Check, Format},
    environment,
    exit::{Exit, Failure, chain},
    signals::Signals,
    terminal,
};

/// Time that `--until-idle` keeps watching after the last idle, because late events follow soon.
const AFTERMATH: Duration = Duration::from_millis(500);

/// Checks a server or a recording. Exits with an error if there was a violation.
pub(crate) async fn check(options: Check) -> Result<Exit, Failure> {
    let mut paper = FindingsWriter { format: options.format, told: 0, failed: false };
    if options.target.starts_with("http://") || options.target.starts_with("https://") {
        watch(&options, &mut paper).await?;
    } else {
        read(&options.target, &mut paper).await?;
    }
    Ok(if paper.failed { Exit::Error } else { Exit::Completed })
}

/// Checks each stream of a recording separately.
async fn read(file: &str, paper: &mut FindingsWriter) -> Result<(), Failure> {
    let bytes = if file == "-" {
        let mut bytes = Vec::new();
        tokio::io::stdin().read_to_end(&mut bytes).await.map(|_| bytes)
    } else {
        tokio::fs::read(Path::new(file)).await
    };
    let bytes = bytes.map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
    let recording = Recording::parse(&bytes)
        .map_err(|error| Failure::usage(format!("{file} is not a recording of events: {}", chain(&error))))?;
    if recording.streams.is_empty() {
        return Err(Failure::usage(format!("{file} contains no events")));
    }
    for stream in recording.streams {
        let mut checker = Checker::new();
        for observed in &stream.events {
            paper.findings(&stream.name, checker.observe(observed.time, &observed.event))?;
        }
        paper.end(&stream.name, checker, End::Complete)?;
    }
    Ok(())
}

/// Checks the events that a server sends from now on.
async fn watch(options: &Check, paper: &mut FindingsWriter) -> Result<(), Failure> {
    let mut signals = Signals::catch();
    let deadline = options.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut events = environment::client(&options.target)?.events(Scope::Global, None);
    let mut live = Live::default();
    let end = loop {
        let over = live.over_since.filter(|_| options.until_idle).map(|since| since + AFTERMATH);
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(received)) => live.receive(&received, paper)?,
                Some(Err(error)) if live.connections == 0 => {
                    let hint = "check that the server is running and that the address is right";
                    return Err(Failure::usage(chain(&error)).hint(hint));
                }
                Some(Err(error)) => paper.remark(&chain(&error)),
                None => break End::Cut,
            },
            _ = signals.next() => break End::Cut,
            () = passed(deadline) => break End::Cut,
            () = passed(over) => break End::Complete,
        }
    };
    paper.end("", live.checker, end)
}

async fn passed(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

/// State of a live check.
#[derive(Debug, Default)]
struct Live {
    checker: Checker,
    /// Sessions that are busy.
    busy: BTreeSet<SessionId>,
    /// Time at which the last busy session became idle.
    over_since: Option<Instant>,
    connections: usize,
    /// The server sends event ids, so a reconnect leaves no gap.
    has_cursors: bool,
}

impl Live {
    fn receive(&mut self, received: &Received, paper: &mut FindingsWriter) -> Result<(), Failure> {
        let Received { cursor, event, .. } = received;
        self.has_cursors |= cursor.is_some();
        match &event.body {
            EventBody::ServerConnected(_) => {
                self.connections += 1;
                if self.connections > 1 && !self.has_cursors {
                    // Without cursors the events during the gap are lost, so the check starts anew.
                    paper.end("until the connection broke", mem::take(&mut self.checker), End::Cut)?;
                    self.busy.clear();
                }
            }
            EventBody::SessionStatus(it) if !it.status.is_idle() => {
                self.busy.insert(it.session_id.clone());
                self.over_since = None;
            }
            // Waits for `session.idle`, the second event of the pair; the first alone would be a violation.
            EventBody::SessionIdle(it) if self.busy.remove(&it.session_id) && self.busy.is_empty() => {
                self.over_since = Some(Instant::now());
            }
            _ => {}
        }
        paper.findings("", self.checker.observe(Some(SystemClock.now()), event))
    }
}

/// Output of the findings.
#[derive(Debug)]
struct FindingsWriter {
    format: Format,
    /// Findings of this stream that are already printed.
    told: usize,
    failed: bool,
}

impl FindingsWriter {
    fn findings(&mut self, stream: &str, findings: &[Finding]) -> Result<(), Failure> {
        self.told += findings.len();
        findings.iter().try_for_each(|finding| match self.format {
            Format::Text => line(&shown(stream, finding)),
            Format::Json => line(&coded(stream, finding).to_string()),
        })
    }

    fn remark(&self, text: &str) {
        if self.format == Format::Text {
            terminal::note(text);
        }
    }

    fn end(&mut self, stream: &str, checker: Checker, end: End) -> Result<(), Failure> {
        let report = checker.finish(end);
        let told = mem::take(&mut self.told);
        self.findings(stream, report.findings.get(told..).unwrap_or_default())?;
        self.told = 0;
        self.failed |= !report.passed();
        line(&match self.format {
            Format::Text => summary(stream, &report),
            Format::Json => coded_summary(stream, &report).to_string(),
        })
    }
}

fn line(text: &str) -> Result<(), Failure> {
    terminal::line(text).map_err(|error| Failure::error(format!("cannot print the findings: {error}")))
}

fn shown(stream: &str, finding: &Finding) -> String {
    let Finding { kind, severity, session, position, sentence, .. } = finding;
    let severity = match severity {
        Severity::Violation => severity.red().bold().to_string(),
        Severity::Warning => severity.yellow().to_string(),
    };
    format!("{}{severity} {kind} at event {position}: {session} {sentence}", prefix(stream))
}

fn summary(stream: &str, report: &Report) -> String {
    let turns: usize = report.sessions.values().map(|session| session.turns).sum();
    let idles: usize = report.sessions.values().map(|session| session.idle_pairs).sum();
    let violations = report.violations().count();
    let verdict = match violations {
        0 => "passed".green().bold().to_string(),
        _ => format!("{} {}", "failed:".red().bold(), count(violations, "violation")),
    };
    let warnings = match report.findings.len() - violations {
        0 => String::new(),
        warnings => format!(", {}", count(warnings, "warning")),
    };
    let (events, sessions) = (count(report.events, "event"), count(report.sessions.len(), "session"));
    let (turns, idles) = (count(turns, "turn"), count(idles, "idle pair"));
    format!("{}{events}, {sessions}, {turns}, {idles}: {verdict}{warnings}", prefix(stream))
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn prefix(stream: &str) -> String {
    if stream.is_empty() { String::new() } else { format!("[{stream}] ") }
}

fn coded(stream: &str, finding: &Finding) -> Value {
    let Finding { kind, severity, session, position, time, sentence } = finding;
    json!({
        "stream": stream, "severity": severity.to_string(), "kind": kind.name(), "session": session,
        "position": position, "time": time, "sentence": sentence,
    })
}

fn coded_summary(stream: &str, report: &Report) -> Value {
    let violations = report.violations().count();
    let sessions: Vec<Value> = report
        .sessions
        .iter()
        .map(|(id, it)| {
            json!({ "id": id, "parent": it.parent, "turns": it.turns, "idlePairs": it.idle_pairs })
        })
        .collect();
    json!({ "summary": {
        "stream": stream, "events": report.events, "sessions": sessions, "violations": violations,
        "warnings": report.findings.len() - violations, "passed": report.passed(),
    } })
}
