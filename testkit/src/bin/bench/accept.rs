//! Measures the time until an accepted prompt is on disk.

use std::{path::Path, time::Instant};

use anyhow::Result;
use futures::future::try_join_all;
use testkit::{calls::Calls, process::Home};

use crate::table::{Table, millis, percentile, rate};

const ONE_BY_ONE: usize = 500;
const TOGETHER: usize = 32;
const ROUNDS: usize = 20;

pub(crate) async fn measure(program: &Path, table: &mut Table) -> Result<()> {
    let home = Home::new(program)?;
    let server = home.start().await?;
    let calls = Calls::new(&server.url);
    let mut alone = Vec::new();
    for _ in 0..ONE_BY_ONE {
        let session = calls.session().await?;
        let begun = Instant::now();
        calls.prompt(&session, "simple", None).await?;
        alone.push(begun.elapsed());
    }
    let figure =
        format!("{} / {}", millis(percentile(&mut alone, 0.5)), millis(percentile(&mut alone, 0.99)));
    table.row(
        "prompt accepted (204), one at a time",
        figure,
        format!("p50 / p99 of {ONE_BY_ONE}, synced to disk before the answer"),
    );

    let mut sessions = Vec::new();
    for _ in 0..TOGETHER {
        sessions.push(calls.session().await?);
    }
    let (mut together, begun) = (Vec::new(), Instant::now());
    for _ in 0..ROUNDS {
        let calls = &calls;
        let prompts = sessions.iter().map(|session| async move {
            let begun = Instant::now();
            calls.prompt(session, "simple", None).await.map(|()| begun.elapsed())
        });
        together.extend(try_join_all(prompts).await?);
    }
    let all = begun.elapsed();
    let figure = format!(
        "{} / {}, {}",
        millis(percentile(&mut together, 0.5)),
        millis(percentile(&mut together, 0.99)),
        rate(together.len(), all)
    );
    table.row(
        format!("prompt accepted, {TOGETHER} at once"),
        figure,
        "p50 / p99 and rate, the turns running meanwhile",
    );
    server.terminate().await?;
    Ok(())
}
