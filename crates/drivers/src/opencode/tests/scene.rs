//! Plays the shared scenarios of all external agents with the fake OpenCode server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::fake::{Act, Fake, SESSION};
use super::script::*;

/// The id of a subagent's session at the fake server.
const CHILD: &str = "ses_child";

/// A fake server that plays a scenario.
pub(crate) struct Player {
    fake: Arc<Fake>,
    /// The directory of the project.
    project: PathBuf,
    /// Releases a scenario that waits at `ready`.
    go: Arc<Notify>,
    /// The number of prompts of earlier scenarios.
    prompts: usize,
}

/// The state of a running scenario.
struct Scene {
    player: Player,
    prompts: usize,
    /// The prefix of the ids of this turn's messages, and the number of messages.
    prompt: String,
    messages: u8,
    /// The busy sessions.
    busy: BTreeSet<&'static str>,
}

impl Player {
    pub(crate) fn new(fake: &Arc<Fake>, project: &Path, go: &Arc<Notify>, prompts: usize) -> Self {
        Self { fake: Arc::clone(fake), project: project.to_owned(), go: Arc::clone(go), prompts }
    }

    /// Plays a scenario: commands separated by `;`.
    pub(crate) async fn perform(self, words: String) {
        let mut scene = Scene {
            prompts: self.prompts,
            player: self,
            prompt: String::new(),
            messages: 0,
            busy: BTreeSet::new(),
        };
        for line in words.split(';') {
            let mut line = line.split_whitespace();
            let (word, argument) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
            scene.act(word, argument).await;
        }
    }
}

impl Scene {
    async fn act(&mut self, word: &str, argument: &str) {
        match word {
            "prompted" | "joined" => {
                self.prompts += 1;
                let prompt = self.player.fake.prompted(self.prompts).await;
                if word == "prompted" {
                    (self.prompt, self.messages) = (prompt, 0);
                    self.works(SESSION, true).await;
                }
                self.play(vec![user(), busy()]).await;
            }
            "opens" => {
                self.messages += 1;
                let id = self.id();
                let part = self.part();
                self.play(vec![opened(&id), text(&id, &part, "", true), delta(&id, &part, argument)]).await;
            }
            "closes" => {
                let id = self.id();
                self.play(vec![closed(&id, "stop")]).await;
            }
            "says" => {
                Box::pin(self.act("opens", argument)).await;
                Box::pin(self.act("closes", "")).await;
            }
            "plans" => {
                let todo = json!({ "content": "work", "status": argument, "priority": "medium" });
                self.play(vec![event("todo.updated", json!({ "todos": [todo] }))]).await;
            }
            "wants" | "writes" => self.want(word == "writes").await,
            "wonders" => self.play(vec![question("que_1"), Act::Called("/question/que_1/reply", 1)]).await,
            "retries" => self.play(vec![retry(1), busy()]).await,
            "bears" => self.bear().await,
            "buries" => {
                let closed = info(
                    "msg_below",
                    json!({ "sessionID": CHILD, "finish": "stop", "time": { "created": 1, "completed": 2 } }),
                );
                self.works(CHILD, false).await;
                self.play(vec![below("message.updated", json!({ "info": closed })), idle_below()]).await;
            }
            "finish" => {
                self.works(SESSION, false).await;
                self.play(idle()).await;
            }
            "interrupted" => self.play(vec![Act::Called("/abort", 1)]).await,
            "stopped" => {
                let id = self.id();
                self.play(vec![Act::Called("/abort", 1), failed(&id, "MessageAbortedError")]).await;
                Box::pin(self.act("finish", "")).await;
            }
            "refuses" => self.player.fake.refuse("POST /session ", 500),
            "dies" => self.play(vec![Act::Answer("GET /event", 503, "{}"), Act::Cut]).await,
            "breaks" => {
                let half = Act::Raw(b"data: {\"type\":\"message.part.upd".to_vec());
                self.play(vec![half, Act::Answer("GET /event", 503, "{}"), Act::Cut]).await;
            }
            "garbles" => {
                let nonsense =
                    b"data: {not json\n\ndata: 7\n\n: comment\n\nevent: x\n\ndata: \"\xff\xfe\"\n\n";
                self.play(vec![Act::Raw(nonsense.to_vec())]).await;
            }
            "floods" => self.play(vec![Act::Flood(100)]).await,
            "ready" => self.player.go.notified().await,
            "returns" | "linger" | "hangs" | "" => {}
            other => panic!("unknown command {other:?}"),
        }
    }

    /// Sets the status of a session.
    async fn works(&mut self, session: &'static str, works: bool) {
        if works {
            self.busy.insert(session);
        } else {
            self.busy.remove(session);
        }
        let statuses = self.busy.iter().map(|session| ((*session).to_owned(), json!({ "type": "busy" })));
        self.play(vec![Act::Statuses(statuses.collect())]).await;
    }

    /// The id of the last message.
    fn id(&self) -> String {
        format!("{}{}", self.prompt, char::from(b'a' + self.messages))
    }

    fn part(&self) -> String {
        format!("prt_{}{}", self.prompts, self.messages)
    }

    async fn play(&self, acts: Vec<Act>) {
        self.player.fake.play(acts).await;
    }

    /// Asks for permission to run a command, and runs it.
    async fn want(&mut self, writes: bool) {
        self.messages += 1;
        let id = self.id();
        let asked = Act::Called("/permission/per_1/reply", 1);
        self.play(vec![opened(&id), tool(&id, "running"), permission("per_1"), asked]).await;
        if writes {
            std::fs::write(self.player.project.join("README.md"), "changed\n").unwrap();
        }
        self.play(vec![tool(&id, "completed"), closed(&id, "tool-calls")]).await;
    }

    /// Starts a subagent in the background.
    async fn bear(&mut self) {
        self.messages += 1;
        self.works(CHILD, true).await;
        let id = self.id();
        let opened_below = info("msg_below", json!({ "sessionID": CHILD, "parentID": "msg_asked" }));
        let told = json!({
            "id": "msg_asked", "role": "user", "sessionID": CHILD, "time": { "created": 1 }, "agent": "general",
            "model": { "providerID": "p", "modelID": "m" },
        });
        let mut words = text_part("msg_below", "prt_below", "below", false);
        words["sessionID"] = CHILD.into();
        self.play(vec![
            opened(&id),
            task(&id, "running"),
            below("message.updated", json!({ "info": told })),
            below("session.status", json!({ "status": { "type": "busy" } })),
            below("message.updated", json!({ "info": opened_below })),
            below("message.part.updated", json!({ "part": words, "time": 1 })),
            task(&id, "completed"),
            closed(&id, "tool-calls"),
        ])
        .await;
    }
}

/// The call that starts a subagent.
fn task(message: &str, status: &str) -> Act {
    let input = json!({ "description": "child", "prompt": "Look", "subagent_type": "general" });
    let metadata = json!({ "sessionId": CHILD });
    let state = if status == "running" {
        json!({ "status": status, "input": input, "metadata": metadata, "time": { "start": 1 } })
    } else {
        json!({
            "status": status, "input": input, "output": "started", "title": "child", "metadata": metadata,
            "time": { "start": 1, "end": 2 },
        })
    };
    let part = json!({
        "id": "prt_task", "sessionID": SESSION, "messageID": message, "type": "tool", "callID": "call_task",
        "tool": "task", "state": state,
    });
    event("message.part.updated", json!({ "part": part, "time": 1 }))
}

/// An event of the subagent's session.
fn below(kind: &str, properties: Value) -> Act {
    let mut properties = properties;
    properties["sessionID"] = CHILD.into();
    event(kind, properties)
}

fn idle_below() -> Act {
    below("session.idle", json!({}))
}
