//! The checker against recordings of OpenCode.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use client::{
    check::{self, Checker, End, Kind, Report, Severity},
    recording::{Observed, Recording, Stream},
};
use proptest::prelude::*;
use protocol::EventBody;

fn recordings() -> BTreeMap<String, Recording> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/tests/fixtures/opencode");
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            all.insert(name, Recording::parse(&fs::read(&path).unwrap()).unwrap());
        }
    }
    all
}

fn check(stream: &Stream) -> Report {
    let mut checker = Checker::new();
    for observed in &stream.events {
        checker.observe(observed.time, &observed.event);
    }
    // In a recording with named streams, the recorder or the server was stopped on purpose.
    checker.finish(if stream.name.is_empty() { End::Complete } else { End::Cut })
}

fn report(name: &str) -> Report {
    check(&recordings()[name].streams[0])
}

fn kinds(report: &Report, severity: Severity) -> BTreeMap<Kind, usize> {
    let mut kinds = BTreeMap::new();
    for finding in report.findings.iter().filter(|finding| finding.severity == severity) {
        *kinds.entry(finding.kind).or_default() += 1;
    }
    kinds
}

fn list(kinds: &BTreeMap<Kind, usize>) -> String {
    let items: Vec<_> = kinds
        .iter()
        .map(|(kind, count)| if *count == 1 { kind.to_string() } else { format!("{kind} x{count}") })
        .collect();
    if items.is_empty() { "-".into() } else { items.join(", ") }
}

#[test]
fn every_recording_is_judged_as_in_this_table() {
    let mut table = String::from("recording | turns | idle pairs | violations | warnings\n");
    for (name, recording) in recordings() {
        for stream in &recording.streams {
            let report = check(stream);
            let roots = report.sessions.values().filter(|session| session.parent.is_none());
            let (turns, idles) = roots.fold((0, 0), |sum, it| (sum.0 + it.turns, sum.1 + it.idle_pairs));
            let name = format!("{name} {}", stream.name);
            writeln!(
                table,
                "{} | {turns} | {idles} | {} | {}",
                name.trim_end(),
                list(&kinds(&report, Severity::Violation)),
                list(&kinds(&report, Severity::Warning)),
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn double_idles_are_found() {
    for name in ["error_400", "error_401", "error_500_forever", "abort", "abort_tool", "abort_permission"] {
        let found = kinds(&report(name), Severity::Violation);
        assert!(found.contains_key(&Kind::IdleTwice), "{name}: {found:?}");
        assert!(found.contains_key(&Kind::IdleTooEarly), "{name}: {found:?}");
    }
}

/// Recordings of OpenCode's turns that end well.
const CLEAN: [&str; 10] = [
    "simple",
    "reasoning",
    "read_edit",
    "parallel_tools",
    "retry_429",
    "todo",
    "subagent",
    "question",
    "permission",
    "queue",
];

#[test]
fn turns_that_end_well_pass() {
    for name in CLEAN {
        let report = report(name);
        let violations: Vec<_> = report.violations().map(ToString::to_string).collect();
        assert!(report.passed(), "{name}: {violations:#?}");
    }
}

#[test]
fn the_sentences_describe_the_violations() {
    let report = report("abort_permission");
    let lines: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn idle_pairs_are_counted_for_root_sessions_only() {
    let recordings = recordings();
    let count = |name: &str| -> Vec<usize> {
        let events = recordings[name].streams[0].events.iter().map(|observed| &observed.event);
        check::idle_pairs(events).into_values().collect()
    };
    assert_eq!(count("simple"), [1]);
    assert_eq!(count("error_400"), [2]);
    assert_eq!(count("subagent"), [1], "the child's own idle is not counted");
    assert_eq!(count("delete_busy"), [0]);
}

/// The violations in a clean recording after a change.
fn planted(name: &str, plant: impl Fn(&mut Vec<Observed>, usize)) -> BTreeMap<Kind, usize> {
    let mut stream = recordings()[name].streams[0].clone();
    let idle = stream.events.iter().rposition(
        |it| matches!(&it.event.body, EventBody::SessionStatus(change) if change.status.is_idle()),
    );
    plant(&mut stream.events, idle.unwrap());
    kinds(&check(&stream), Severity::Violation)
}

#[test]
fn a_second_idle_planted_in_any_clean_recording_is_caught() {
    for name in CLEAN {
        let found = planted(name, |events, idle| {
            let pair = events[idle..idle + 2].to_vec();
            events.extend(pair);
        });
        assert_eq!(found, BTreeMap::from([(Kind::IdleTwice, 1)]), "{name}");
    }
}

#[test]
fn an_idle_taken_out_of_any_clean_recording_is_missed() {
    for name in CLEAN {
        let found = planted(name, |events, idle| drop(events.drain(idle..idle + 2)));
        assert_eq!(found, BTreeMap::from([(Kind::BusyNeverReleased, 1)]), "{name}");
    }
}

#[test]
fn an_idle_per_message_planted_in_any_clean_recording_is_caught() {
    for name in CLEAN {
        let found = planted(name, |events, idle| {
            let pair = events[idle..idle + 2].to_vec();
            let completed = events.iter().position(|it| {
                matches!(&it.event.body, EventBody::MessageUpdated(message)
                    if matches!(&message.info, protocol::Message::Assistant(it) if it.time.completed.is_some()))
            });
            events.splice(completed.unwrap()..completed.unwrap(), pair);
        });
        assert!(
            found.contains_key(&Kind::IdleTooEarly) || found.contains_key(&Kind::IdleBeforeChild),
            "{name}: {found:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_in_any_order_is_judged_without_a_panic(order in any::<proptest::sample::Index>(), keep in any::<u64>()) {
        thread_local! {
            static STREAMS: Vec<Stream> = recordings().into_values().flat_map(|it| it.streams).collect();
        }
        let mut stream = STREAMS.with(|streams| order.get(streams).clone());
        let length = stream.events.len();
        for index in 0..length {
            let other = usize::try_from(keep.rotate_left(u32::try_from(index % 64).unwrap()) % length as u64).unwrap();
            stream.events.swap(index, other);
        }
        let report = check(&stream);
        prop_assert_eq!(report.events, length);
    }
}
