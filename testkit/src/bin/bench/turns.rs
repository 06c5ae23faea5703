//! Measures many turns at once.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use futures::future::try_join_all;
use protocol::{EventBody, PartBody, ToolState};
use testkit::{calls::Calls, process::Home, watch::Watch};

use crate::table::{Table, mebibytes, millis, percentile, rate};

const TURNS: usize = 200;
const CALLS: usize = 200;

pub(crate) async fn measure(program: &Path, table: &mut Table) -> Result<()> {
    let home = Home::new(program)?;
    let server = home.start().await?;
    let calls = Calls::new(&server.url);
    one_by_one(&calls, &server.url, table).await?;
    tool_calls(&calls, &server.url, table).await?;
    at_once(&calls, table, "simple").await?;
    at_once(&calls, table, "slow").await?;
    table.row(
        format!("resident memory after {TURNS} turns at once, twice"),
        mebibytes(server.resident()?),
        "",
    );
    server.terminate().await?;
    Ok(())
}

/// The overhead of one turn: from the prompt to the first delta, and to idle.
async fn one_by_one(calls: &Calls, url: &str, table: &mut Table) -> Result<()> {
    let mut watch = Watch::connect(url, "/global/event", None).await?;
    let (mut first_delta, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let session = calls.session().await?;
        let begun = Instant::now();
        calls.prompt(&session, "simple", None).await?;
        let mut said = false;
        loop {
            let Some(seen) = watch.next().await? else { bail!("the stream ended") };
            match seen.event.body {
                EventBody::PartDelta(_) if !said => {
                    first_delta.push(begun.elapsed());
                    said = true;
                }
                EventBody::SessionIdle(_) => break,
                _ => {}
            }
        }
        idle.push(begun.elapsed());
    }
    let spread = |samples: &mut Vec<Duration>| {
        format!("{} / {}", millis(percentile(samples, 0.5)), millis(percentile(samples, 0.95)))
    };
    table.row("prompt to first delta", spread(&mut first_delta), "p50 / p95 of 50, scenario `simple`");
    table.row("prompt to idle", spread(&mut idle), "p50 / p95 of 50, scenario `simple`");
    Ok(())
}

/// The time of a tool call that does almost nothing. It begins after the commit that shows it as running.
async fn tool_calls(calls: &Calls, url: &str, table: &mut Table) -> Result<()> {
    let mut watch = Watch::connect(url, "/global/event", None).await?;
    let mut times = Vec::new();
    for _ in 0..CALLS {
        let session = calls.session().await?;
        calls.prompt(&session, "mislabelled_stop", None).await?;
        let mut requested = None;
        loop {
            let Some(seen) = watch.next().await? else { bail!("the stream ended") };
            match seen.event.body {
                EventBody::PartUpdated(it) => match &it.part.body {
                    PartBody::Tool(tool) if matches!(tool.state, ToolState::Completed(_)) => {
                        times.extend(requested.take().map(|since: Instant| since.elapsed()));
                    }
                    PartBody::Tool(_) => drop(requested.get_or_insert_with(Instant::now)),
                    _ => {}
                },
                EventBody::SessionIdle(_) => break,
                _ => {}
            }
        }
    }
    let figure =
        format!("{} / {}", millis(percentile(&mut times, 0.5)), millis(percentile(&mut times, 0.99)));
    table.row("tool call, requested to completed", figure, format!("p50 / p99 of {CALLS}, the tool `list`"));
    Ok(())
}

async fn at_once(calls: &Calls, table: &mut Table, scenario: &str) -> Result<()> {
    let mut sessions = Vec::new();
    for _ in 0..TURNS {
        sessions.push(calls.session().await?);
    }
    let body = serde_json::json!({
        "model": { "providerID": "demo", "modelID": scenario },
        "parts": [{ "type": "text", "text": "go" }],
    });
    let begun = Instant::now();
    let body = &body;
    let turns = sessions.iter().map(|session| async move {
        let answer = calls.post(&format!("/session/{session}/message"), body).await;
        answer.map(|_| begun.elapsed())
    });
    let mut times = try_join_all(turns).await?;
    let all = begun.elapsed();
    let figure = format!(
        "all done in {}, {}, p50 {}",
        millis(all),
        rate(TURNS, all),
        millis(percentile(&mut times, 0.5))
    );
    table.row(format!("{TURNS} turns at once, `{scenario}`"), figure, "prompt to answer, blocking calls");
    Ok(())
}
