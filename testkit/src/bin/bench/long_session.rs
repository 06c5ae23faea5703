//! Measures a session that is much larger than a server should keep in memory.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use testkit::{
    calls::Calls,
    process::{Baton, Home},
};

use crate::table::{Table, mebibytes, millis, percentile};

/// Default number of messages; the command line overrides it.
pub(crate) const MESSAGES: usize = 20_000;

/// Size of each message.
const BYTES: usize = 20_000;

/// Number of clients that write the session.
const WRITERS: usize = 8;

/// Number of clients that read the whole session at once.
const READERS: usize = 4;

/// Interval at which memory is sampled and another client requests short lists.
const EVERY: Duration = Duration::from_millis(20);

/// The server has given back what it can when the files have kept their size for this long.
const STABLE: Duration = Duration::from_secs(5);

/// The longest wait for that.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) async fn measure(program: &Path, table: &mut Table, messages: usize) -> Result<()> {
    let home = Home::new(program)?;
    let session = write(&home, messages, table).await?;
    // A restarted server has not written the session, so its memory shows only the cost of reading.
    let server = home.start().await?;
    let calls = Calls::new(&server.url);
    calls.get("/session?limit=10").await?;
    let rest = server.resident()?;
    table.row("resident memory, at rest", mebibytes(rest), "restarted, after the first answer");
    for (name, path) in [
        ("all messages", format!("/session/{session}/message")),
        ("context", format!("/api/session/{session}/context")),
    ] {
        let paths = vec![path; READERS];
        let done = try_join_all(paths.iter().map(|path| calls.drain(path)));
        let (bytes, figures) = Figures::during(&server, &calls, &session, rest, done).await?;
        let size = mebibytes(bytes?.first().copied().unwrap_or_default());
        figures.tell(table, &format!("{READERS} clients read {name} at once"), &format!("{size} each"));
    }
    let (path, nothing) = (format!("/session/{session}/fork"), json!({}));
    let fork = calls.post(&path, &nothing);
    let (fork, figures) = Figures::during(&server, &calls, &session, rest, fork).await?;
    let fork = fork?.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    figures.tell(table, "fork", "");
    let prompt = json!({
        "model": { "providerID": "demo", "modelID": "simple" },
        "parts": [{ "type": "text", "text": "go" }],
    });
    let path = format!("/session/{session}/message");
    let ask = calls.post(&path, &prompt);
    let (asked, figures) = Figures::during(&server, &calls, &session, rest, ask).await?;
    asked?;
    figures.tell(table, "one turn in it", "scenario `simple`");
    let full = home.stored_bytes();
    for session in [&session, &fork] {
        calls.delete(&format!("/session/{session}")).await?;
    }
    let (left, after) = settle(&home).await;
    table.row(
        "stored, before and after deleting both",
        format!("{}, {}", mebibytes(full), mebibytes(left)),
        format!("database and write-ahead log, {} s later", after.as_secs()),
    );
    table.row("resident memory, after all of it", mebibytes(server.resident()?), "");
    server.terminate().await?;
    Ok(())
}

async fn write(home: &Home, messages: usize, table: &mut Table) -> Result<String> {
    let server = home.start().await?;
    let calls = Calls::new(&server.url);
    let session = calls.session().await?;
    let body = json!({ "noReply": true, "parts": [{ "type": "text", "text": "x".repeat(BYTES) }] });
    let begun = Instant::now();
    let path = format!("/session/{session}/message");
    let writers = (0..WRITERS).map(|writer| {
        let (calls, body, path) = (&calls, &body, &path);
        async move {
            for _ in (writer..messages).step_by(WRITERS) {
                calls.post(path, body).await?;
            }
            anyhow::Ok(())
        }
    });
    try_join_all(writers).await?;
    table.row(
        format!("a session of {messages} messages of {BYTES} bytes"),
        format!("{} stored", mebibytes(home.stored_bytes())),
        format!("written in {:.0} s", begun.elapsed().as_secs_f64()),
    );
    server.terminate().await?;
    Ok(session)
}

/// The cost of an operation, and its effect on other clients.
struct Figures {
    took: Duration,
    /// Maximum memory above the value at rest.
    above: u64,
    /// Times that another client waited for ten sessions, and for ten messages.
    lists: Vec<Duration>,
}

impl Figures {
    /// Samples the server until `work` is done.
    async fn during<T>(
        server: &Baton,
        calls: &Calls,
        session: &str,
        rest: u64,
        work: impl Future<Output = T>,
    ) -> Result<(T, Self)> {
        let begun = Instant::now();
        let mut figures = Self { took: Duration::ZERO, above: 0, lists: Vec::new() };
        let (mut work, messages) = (std::pin::pin!(work), format!("/session/{session}/message?limit=10"));
        let mut tick = tokio::time::interval(EVERY);
        let done = loop {
            let look = async {
                tick.tick().await;
                let timed = ["/session?limit=10", messages.as_str()].map(|path| async move {
                    let begun = Instant::now();
                    calls.drain(path).await.map(|_| begun.elapsed())
                });
                join_all(timed).await
            };
            tokio::select! {
                biased;
                done = &mut work => break done,
                times = look => {
                    for time in times {
                        figures.lists.push(time?);
                    }
                    figures.above = figures.above.max(server.resident()?.saturating_sub(rest));
                }
            }
        };
        figures.took = begun.elapsed();
        Ok((done, figures))
    }

    fn tell(mut self, table: &mut Table, name: &str, remark: &str) {
        let figure = format!("{:.1} s, {} above rest", self.took.as_secs_f64(), mebibytes(self.above));
        table.row(name, figure, remark);
        let spread = [0.5, 0.99, 1.0].map(|share| millis(percentile(&mut self.lists, share)));
        table.row(
            "meanwhile, ten sessions or ten messages for another client",
            spread.join(" / "),
            format!("p50 / p99 / longest of {}", self.lists.len()),
        );
    }
}

/// Waits until the stored files no longer shrink; their size, and how long that took.
async fn settle(home: &Home) -> (u64, Duration) {
    let begun = Instant::now();
    let (mut left, mut shrunk) = (home.stored_bytes(), begun);
    while shrunk.elapsed() < STABLE && begun.elapsed() < PATIENCE {
        tokio::time::sleep(EVERY).await;
        let now = home.stored_bytes();
        if now != left {
            (left, shrunk) = (now, Instant::now());
        }
    }
    (left, shrunk - begun)
}
