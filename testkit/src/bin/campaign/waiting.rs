//! Open requests across a crash: they are listed again, and each answer runs its call once.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Context as _, Result};
use protocol::EndReason;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    follow::{Heard, Moment},
    judge::{Promise, Violation},
    line::Line,
    load,
    script::{EFFECTS, Script},
    site::Site,
};

/// Number of concurrent requests, each in a session of its own.
const REQUESTS: usize = 4;
/// Time for the model to ask.
const ASKED: Duration = Duration::from_mins(1);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(50);

/// Prompts whose request was open across a kill.
#[derive(Debug)]
pub(crate) struct Waiting(Vec<(String, Script)>);

/// Opens permissions and questions, kills the server, and sends the answers to the next one.
pub(crate) async fn survive(site: &mut Site) -> Result<(Waiting, Vec<Violation>)> {
    let line = site.line();
    let mut prompts = Vec::new();
    for number in 0..REQUESTS {
        let created = line.post("/session", &json!({ "title": "waiting" })).await.ok();
        let session = created.and_then(|answer| answer.id()).context("no session was created")?;
        let script = if number % 2 == 0 { Script::Ask } else { Script::Question };
        let id = format!("msg_zwaiting{number}");
        load::submit(&line, &site.ledger, &session, &id, script, &load::prompt(&id, script)).await;
        prompts.push((id, script));
    }
    let before = listed(&line).await?;
    site.kill().await?;
    site.start().await?;
    let after = ids(&line).await?;
    let mut found = Vec::new();
    if before != after {
        let detail = format!("before the kill {before:?} waited for a user, and after it {after:?}");
        found.push(Violation::new(Promise::Accepted, detail));
    }
    found.extend(site.drain().await);
    Ok((Waiting(prompts), found))
}

impl Waiting {
    /// Checks that each prompt was completed after its answer, and that each command ran once.
    pub(crate) fn judge(&self, site: &Site, heard: &Heard) -> Vec<Violation> {
        let effects = fs::read_to_string(site.home.project().join(EFFECTS)).unwrap_or_default();
        let mut found = Vec::new();
        for (id, script) in &self.0 {
            let moments = heard.prompts.get(id).map(Vec::as_slice).unwrap_or_default();
            if moments.last() != Some(&Moment::Ended(EndReason::Completed)) {
                let detail = format!("{id} waited for a user, was answered, and then: {moments:?}");
                found.push(Violation::new(Promise::Accepted, detail));
            }
            let times = effects.lines().filter(|line| line == id).count();
            if *script == Script::Ask && times != 1 {
                let detail = format!("the command of {id} was allowed and ran {times} times");
                found.push(Violation::new(Promise::Once, detail));
            }
        }
        found
    }
}

/// The ids of all requests, once all of them are open.
async fn listed(line: &Line) -> Result<BTreeSet<String>> {
    let deadline = Instant::now() + ASKED;
    loop {
        let ids = ids(line).await?;
        if ids.len() >= REQUESTS {
            return Ok(ids);
        }
        anyhow::ensure!(Instant::now() < deadline, "only {} of {REQUESTS} requests were made", ids.len());
        sleep(LOOK).await;
    }
}

async fn ids(line: &Line) -> Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for kind in ["permission", "question"] {
        let waiting = line.get(&format!("/{kind}")).await.ok().context("no list of requests")?;
        ids.extend(
            waiting.list().iter().filter_map(|it| Some(it.get("id").and_then(Value::as_str)?.to_owned())),
        );
    }
    Ok(ids)
}
