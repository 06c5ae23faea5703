//! Measures many users who write at once, through the gateway.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testkit::{
    platforms::{
        service_state::{Platform as _, Shown, UserMessage},
        telegram::{Options, Telegram},
    },
    process::{Baton, Home},
};

use crate::table::{Table, mebibytes, millis, percentile, rate};

/// Default number of chats; the second argument overrides it.
pub(crate) const CHATS: usize = 500;

/// The prompts of each chat, and the beginnings of their answers. They differ, so that their order is visible.
const PROMPTS: [(&str, &str); 2] = [
    ("[[scenario:simple]] Hello.", "Hello from the demo model."),
    ("[[scenario:reasoning]] And?", "I thought about it:"),
];

/// Beginning of the notice that a message is queued. It is optional, and not an answer.
const QUEUED: &str = "📥";

pub(crate) async fn measure(program: &Path, table: &mut Table, chats: usize) -> Result<()> {
    let telegram = Telegram::start(Options::default()).await?;
    let home = Home::new(program)?;
    let people: Vec<String> = (0..chats).map(|number| (10_000 + number).to_string()).collect();
    configure(&home, &telegram, &people)?;
    let server = home.start().await?;
    let gateway = home.gateway(&server.url).await?;
    let idle = gateway.resident()?;
    let mut watch = Watch {
        gateway: &gateway,
        said: HashMap::new(),
        answers: HashMap::new(),
        times: Vec::new(),
        peak: idle,
    };
    let begun = Instant::now();
    for (text, _) in PROMPTS {
        for person in &people {
            watch.said.entry(person.clone()).or_default().push(Instant::now());
            let (chat, from) = (person.clone(), person.clone());
            telegram.say(UserMessage {
                chat,
                from,
                name: "Ada".into(),
                text: text.into(),
                ..UserMessage::default()
            });
        }
    }
    watch.until_answered(&telegram, chats * PROMPTS.len()).await?;
    let took = begun.elapsed();
    watch.check(&people)?;
    let problems = telegram.service_state().state().problems;
    ensure!(problems.is_empty(), "the bot broke rules of the service: {problems:?}");
    report(table, chats, took, &mut watch, idle);
    gateway.terminate().await?;
    server.terminate().await?;
    Ok(())
}

fn report(table: &mut Table, chats: usize, took: Duration, watch: &mut Watch<'_>, idle: u64) {
    let answers = watch.times.len();
    table.row(
        format!("{chats} chats prompt at once, twice"),
        format!("all {answers} answered in {}, {}", millis(took), rate(answers, took)),
        "Telegram's interface, the gateway, the server, and back; in order in every chat",
    );
    let (middle, last) = (percentile(&mut watch.times, 0.5), percentile(&mut watch.times, 0.99));
    table.row(
        "message to answer",
        format!("{} / {}", millis(middle), millis(last)),
        "p50 / p99; the second message of a chat waits for the answer to the first",
    );
    table.row(
        "resident memory of the gateway",
        format!("{} idle, {} at most", mebibytes(idle), mebibytes(watch.peak)),
        "sampled with every answer",
    );
}

/// Configures the allowed users, the service's address and the model.
fn configure(home: &Home, telegram: &Telegram, people: &[String]) -> Result<()> {
    let directory = home.configuration();
    std::fs::create_dir_all(&directory)?;
    let channel = json!({ "token": Options::default().token, "api": telegram.address(), "allow": people });
    let config = json!({ "model": "demo/simple", "channels": { "telegram": channel } });
    std::fs::write(directory.join("baton.json"), config.to_string())?;
    Ok(())
}

/// The answers received so far.
struct Watch<'a> {
    gateway: &'a Baton,
    /// Times at which each user wrote.
    said: HashMap<String, Vec<Instant>>,
    /// The answers of each chat, in order.
    answers: HashMap<String, Vec<String>>,
    times: Vec<Duration>,
    peak: u64,
}

impl Watch<'_> {
    async fn until_answered(&mut self, telegram: &Telegram, count: usize) -> Result<()> {
        let mut seen = 0;
        while self.times.len() < count {
            let new =
                |shown: &[Shown]| shown.get(seen..).filter(|new| !new.is_empty()).map(<[Shown]>::to_vec);
            let new = telegram.service_state().until("another answer", |state| new(&state.messages)).await?;
            seen += new.len();
            for shown in new.into_iter().filter(|shown| !shown.text.starts_with(QUEUED)) {
                self.note(shown)?;
            }
            self.peak = self.peak.max(self.gateway.resident()?);
        }
        Ok(())
    }

    fn note(&mut self, shown: Shown) -> Result<()> {
        let answers = self.answers.entry(shown.chat.clone()).or_default();
        let said = self.said.get(&shown.chat).and_then(|said| said.get(answers.len()));
        self.times.push(said.with_context(|| format!("an answer without a prompt: {shown:?}"))?.elapsed());
        answers.push(shown.text);
        Ok(())
    }

    fn check(&self, people: &[String]) -> Result<()> {
        for person in people {
            let answers = self.answers.get(person).with_context(|| format!("no answer in chat {person}"))?;
            let expected = PROMPTS.iter().map(|(_, answer)| answer);
            let is_right = answers.len() == PROMPTS.len()
                && answers.iter().zip(expected).all(|(answer, expected)| answer.starts_with(expected));
            ensure!(is_right, "chat {person} has the answers {answers:?}");
        }
        Ok(())
    }
}
