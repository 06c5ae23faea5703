//! Agents that misbehave, each in the same ways. Every turn ends exactly once, with an error that names the cause, everything
//! that it opened is closed, and no process is left.
//!
//! A row is a scenario of [`scenario_harness`](super::scenario_harness), which has a script of it for each agent. The
//! misbehaviour that only one protocol allows is tested beside that agent.

use std::time::Duration;

use protocol::EndReason::{self, Aborted, Completed, Error};

use super::scenario_harness::{ScenarioHarness, Tune, each};
use crate::external::harness::SimulatedUser;
use crate::roster::known::Kind;

/// One misbehaviour.
struct Row {
    scene: &'static str,
    /// The user aborts the turn after this text; empty if not.
    abort: &'static str,
    /// The expected ends of the turns, each with a part of its error.
    programs: &'static [(EndReason, &'static str)],
    /// The same for a server. Empty if a server cannot misbehave like that.
    server: &'static [(EndReason, &'static str)],
    /// Shortens the timeout that the row waits for.
    tune: Tune,
}

const FINE: &[(EndReason, &str)] = &[(Completed, "")];
const STOPPED: &[(EndReason, &str)] = &[(Aborted, "")];

/// A row whose turn ends by itself.
const fn row(
    scene: &'static str,
    programs: &'static [(EndReason, &'static str)],
    server: &'static [(EndReason, &'static str)],
) -> Row {
    Row { scene, abort: "", programs, server, tune: |options| options.bounds.line = 1024 * 1024 }
}

/// A row in which the agent hangs until a timeout.
const fn hangs(
    scene: &'static str,
    programs: &'static [(EndReason, &'static str)],
    server: &'static [(EndReason, &'static str)],
) -> Row {
    let tune: Tune = |options| {
        let hasty = Duration::from_secs(2);
        (options.timeouts.start, options.timeouts.answer, options.timeouts.silence) = (hasty, hasty, hasty);
    };
    Row { tune, ..row(scene, programs, server) }
}

/// A row in which the user aborts the turn after the text `One`.
const fn aborted(scene: &'static str, server: &'static [(EndReason, &'static str)]) -> Row {
    Row { abort: "One", ..row(scene, STOPPED, server) }
}

const ROWS: &[Row] = &[
    // The agent does not begin.
    row(
        "refuses",
        &[(Error, "exited with code 7; it said: no licence")],
        &[(Error, "cannot create a session")],
    ),
    row("kill -9 $$", &[(Error, "was ended by signal 9")], &[]),
    // Each protocol has its own first answer; all of them have a deadline.
    hangs(
        "hangs",
        &[(Error, "initialize was not answered within 2s|did not begin to work on the prompt within 2s")],
        &[],
    ),
    // The agent ends.
    row("prompted; dies", &[(Error, "exited with code 7")], &[(Error, "is lost")]),
    row("prompted; opens One; dies", &[(Error, "exited with code 7")], &[(Error, "is lost")]),
    row("prompted; opens One; kill -9 $$", &[(Error, "was ended by signal 9")], &[]),
    row("prompted; opens One; breaks", &[(Error, "in the middle of a line")], &[(Error, "is lost")]),
    row("prompted; wants; dies", &[(Error, "exited with code 7")], &[(Error, "is lost")]),
    row("prompted; opens One; leaves; dies", &[(Error, "exited with code 7")], &[]),
    row("prompted; says One; finish; dies", &[(Completed, ""), (Completed, "")], &[]),
    // The agent is silent. Only OpenCode's report ends its turn, so the user decides about a silent server.
    hangs("prompted; hangs", &[(Error, "sent nothing for 2s")], &[]),
    hangs("prompted; opens One; hangs", &[(Error, "sent nothing for 2s")], &[]),
    hangs("prompted; wants; hangs", &[(Error, "sent nothing for 2s")], &[]),
    hangs("stubborn; prompted; opens One; hangs", &[(Error, "sent nothing for 2s")], &[]),
    row("prompted; opens One; mutes", &[(Error, "closed its output and went on running")], &[]),
    // The agent sends frames that cannot be read.
    row("prompted; garbles; says One; finish; linger", FINE, FINE),
    row("prompted; babbles", &[(Error, "lines that cannot be read")], &[]),
    row(
        "prompted; opens One; floods",
        &[(Error, "a line of more than 1048576 bytes")],
        &[(Error, "is lost")],
    ),
    row("prompted; complains; says One; finish; linger", FINE, &[]),
    // The agent loses its order.
    row("prompted; finish; linger", FINE, FINE),
    row("prompted; says One; finish; finish; linger", FINE, FINE),
    row("prompted; wants; finish; linger", FINE, FINE),
    row("prompted; wants; returns; returns; says One; finish; linger", FINE, FINE),
    row("prompted; wants; finish; returns; linger", FINE, FINE),
    // The user aborts the turn.
    aborted("prompted; opens One; stopped; linger", STOPPED),
    aborted("prompted; opens One; hangs", STOPPED),
    aborted("stubborn; prompted; opens One; hangs", &[]),
    aborted("prompted; leaves; opens One; hangs", &[]),
    aborted("prompted; opens One; interrupted; dies", STOPPED),
    aborted("prompted; opens One; interrupted; hangs", STOPPED),
    aborted("prompted; opens One; interrupted; opens More; opens More; hangs", STOPPED),
    aborted("prompted; opens One; interrupted; while :; do opens More; done", &[]),
];

/// Plays the rows with every kind of agent, all kinds of one row at once.
async fn play(rows: &[Row]) {
    for row in rows {
        each(async |kind| {
            let ends = if kind == Kind::OpenCode { row.server } else { row.programs };
            if !ends.is_empty() {
                judge(kind, row, ends).await;
            }
        })
        .await;
    }
}

async fn judge(kind: Kind, row: &Row, ends: &[(EndReason, &str)]) {
    let case = format!("{kind:?}, {:?}", row.scene);
    let mut stage = ScenarioHarness::tuned(kind, row.scene, row.tune).await;
    let session = stage.harness.session().await;
    for (end, says) in ends {
        stage.harness.submit(&session, "please").await;
        if !row.abort.is_empty() {
            stage.until_said(row.abort).await;
            stage.harness.sessions.abort(&session.id).await.unwrap();
        }
        let ended = stage.harness.until_idle(&session, SimulatedUser::Agrees).await;
        let error = stage.harness.errors().pop().unwrap_or_default();
        assert_eq!(ended, *end, "{case}: {error}");
        assert!(says.split('|').any(|says| error.contains(says)), "{case}: {error:?} does not say {says:?}");
        stage.harness.assert_all_is_closed(&session).await;
        for part in stage.harness.messages(&session).await.iter().flat_map(|message| &message.parts) {
            assert!(!part.is_open(), "{case}: {part:?}");
        }
    }
    assert_eq!(stage.end(&session).await, ends.len(), "{case}");
}

#[tokio::test]
async fn an_agent_that_does_not_work_ends_its_turn_once() {
    play(&ROWS[..10]).await;
}

#[tokio::test]
async fn an_agent_that_is_silent_or_unreadable_ends_its_turn_once() {
    play(&ROWS[10..19]).await;
}

#[tokio::test]
async fn an_agent_that_loses_its_order_ends_its_turn_once() {
    play(&ROWS[19..24]).await;
}

#[tokio::test]
async fn an_agent_that_is_aborted_ends_its_turn_once() {
    play(&ROWS[24..]).await;
}

#[tokio::test]
async fn the_error_names_a_missing_program() {
    each(async |kind| {
        let tune: Tune = |options| options.program.command = vec!["/nonexistent/agent".to_owned()];
        if kind == Kind::OpenCode {
            return;
        }
        let mut stage = ScenarioHarness::tuned(kind, "hangs", tune).await;
        let session = stage.harness.session().await;
        assert_eq!(stage.harness.turn(&session, "please", SimulatedUser::Agrees).await, Error, "{kind:?}");
        let error = stage.harness.errors().pop().unwrap();
        assert!(
            error.contains("cannot start `/nonexistent/agent`") && error.contains("PATH"),
            "{kind:?}: {error}"
        );
        assert_eq!(stage.end(&session).await, 1, "{kind:?}");
    })
    .await;
}
