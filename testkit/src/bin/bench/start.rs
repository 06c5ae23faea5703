//! Measures start-up and memory.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use testkit::{calls::Calls, process::Home};

use crate::table::{Table, mebibytes, millis, percentile};

const STARTS: usize = 10;
const SESSIONS: u64 = 1_000;

pub(crate) async fn measure(program: &Path, table: &mut Table) -> Result<()> {
    let (mut cold, mut again) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let home = Home::new(program)?;
        cold.push(healthy(&home).await?);
        again.push(healthy(&home).await?);
    }
    let spread = |samples: &mut Vec<Duration>| {
        format!("{} / {}", millis(percentile(samples, 0.0)), millis(percentile(samples, 0.5)))
    };
    table.row(
        "start to healthy, empty directory",
        spread(&mut cold),
        format!("min / p50 of {STARTS}, process start to 200"),
    );
    table.row("start to healthy, existing database", spread(&mut again), format!("min / p50 of {STARTS}"));
    memory(program, table).await
}

async fn healthy(home: &Home) -> Result<Duration> {
    let begun = Instant::now();
    let server = home.start().await?;
    Calls::new(&server.url).get("/global/health").await?;
    let elapsed = begun.elapsed();
    server.terminate().await?;
    Ok(elapsed)
}

async fn memory(program: &Path, table: &mut Table) -> Result<()> {
    let home = Home::new(program)?;
    let server = home.start().await?;
    let calls = Calls::new(&server.url);
    calls.get("/global/health").await?;
    let idle = server.resident()?;
    table.row("resident memory, idle", mebibytes(idle), "after the first answer");
    // One turn each, so that a session has everything a used one has; the first warms the caches.
    let mut after_one = 0;
    for count in 0..SESSIONS {
        let session = calls.session().await?;
        let body = serde_json::json!({
            "model": { "providerID": "demo", "modelID": "simple" },
            "parts": [{ "type": "text", "text": "go" }],
        });
        calls.post(&format!("/session/{session}/message"), &body).await?;
        if count == 0 {
            after_one = server.resident()?;
        }
    }
    let full = server.resident()?;
    table.row("resident memory, 1 session, 1 turn", mebibytes(after_one), "");
    table.row(format!("resident memory, {SESSIONS} sessions, 1 turn each"), mebibytes(full), "");
    let each = full.saturating_sub(after_one) / SESSIONS / 1024;
    table.row("memory per idle session", format!("{each} KiB"), "growth from 1 session, divided");
    let stored = home.stored_bytes() / SESSIONS / 1024;
    table.row("disk per session of 1 turn", format!("{stored} KiB"), "database, log and write-ahead log");
    server.terminate().await?;
    Ok(())
}
