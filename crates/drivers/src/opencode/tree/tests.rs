use serde_json::{Value, json};

use super::*;

/// A turn of `ses_root` whose prompt `msg_1` OpenCode has taken up.
struct Play {
    tree: Tree,
    now: Instant,
}

impl Play {
    fn new() -> Self {
        let now = Instant::now();
        let mut play = Self { tree: Tree::new("ses_root".parse().unwrap(), Pace::default(), now), now };
        play.tree.sent("msg_1".parse().unwrap());
        play.begins("ses_root", "msg_1");
        play
    }

    /// The signals of an event, in short.
    fn hear(&mut self, session: &str, kind: &str, mut properties: Value) -> Vec<String> {
        properties["sessionID"] = session.into();
        let event = json!({ "id": "evt_1", "type": kind, "properties": properties });
        let event: protocol::Event = serde_json::from_value(event).unwrap();
        short(self.tree.hear(event.body, self.now))
    }

    /// A session takes up a prompt.
    fn begins(&mut self, session: &str, prompt: &str) {
        let info = json!({
            "id": prompt, "role": "user", "sessionID": session, "time": { "created": 1 }, "agent": "build",
            "model": { "providerID": "p", "modelID": "m" },
        });
        assert_eq!(self.hear(session, "message.updated", json!({ "info": info })), [""; 0]);
        assert_eq!(self.hear(session, "session.status", json!({ "status": { "type": "busy" } })), [""; 0]);
    }

    fn message(&mut self, session: &str, id: &str, more: &Value) -> Vec<String> {
        let mut info = json!({
            "id": id, "parentID": "msg_1", "role": "assistant", "sessionID": session, "mode": "build",
            "agent": "build", "path": { "cwd": "/", "root": "/" }, "cost": 0, "modelID": "m", "providerID": "p",
            "tokens": { "input": 1, "output": 1, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
            "time": { "created": 1 },
        });
        info.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.hear(session, "message.updated", json!({ "info": info }))
    }

    fn answers(&mut self, session: &str, id: &str) {
        self.message(session, id, &json!({}));
        self.message(session, id, &json!({ "finish": "stop", "time": { "created": 1, "completed": 2 } }));
    }

    /// An open message starts a subagent.
    fn starts(&mut self, session: &str, id: &str, child: &str) -> Vec<String> {
        self.message(session, id, &json!({}));
        let state = json!({
            "status": "running", "input": { "description": "look", "prompt": "Look" },
            "metadata": { "sessionId": child }, "time": { "start": 1 },
        });
        let part = json!({
            "id": "prt_1", "sessionID": session, "messageID": id, "type": "tool", "callID": format!("call_{child}"),
            "tool": "task", "state": state,
        });
        let told = self.hear(session, "message.part.updated", json!({ "part": part, "time": 1 }));
        self.answers(session, id);
        told
    }

    fn idles(&mut self, session: &str) -> Vec<String> {
        self.hear(session, "session.idle", json!({}))
    }

    /// Waits for the next status check.
    fn asks(&mut self) -> Vec<SessionId> {
        self.now = self.tree.due().unwrap();
        self.tree.asked(self.now)
    }

    /// OpenCode reports that these sessions are idle.
    fn finds_idle(&mut self, sessions: Vec<SessionId>) -> Vec<String> {
        short(self.tree.checked(sessions, Some(&BTreeMap::new()), self.now, 0))
    }
}

fn short(signals: Signals) -> Vec<String> {
    let told = signals.into_iter().filter_map(|signal| match signal {
        Signal::ChildStarted(parent, child) => Some(format!("{parent:?} starts {}", child.name)),
        Signal::ChildEnded(child, end) => Some(format!("{child} {end:?}")),
        Signal::Ended(end) => Some(format!("{end:?}")),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_status_that_is_older_than_an_event_does_not_end_the_turn() {
    let mut play = Play::new();
    play.answers("ses_root", "msg_2");
    let asked = play.asks();
    play.answers("ses_root", "msg_3");
    assert_eq!(play.finds_idle(asked), [""; 0]);
    let asked = play.asks();
    assert_eq!(play.finds_idle(asked), ["Completed"]);
}

#[test]
fn a_prompt_that_joins_during_a_status_check_keeps_the_turn_open() {
    let mut play = Play::new();
    play.answers("ses_root", "msg_2");
    let asked = play.asks();
    play.tree.sent("msg_3".parse().unwrap());
    assert_eq!(play.finds_idle(asked), [""; 0]);
    play.begins("ses_root", "msg_3");
    play.answers("ses_root", "msg_4");
    assert_eq!(play.idles("ses_root"), ["Completed"]);
}

#[test]
fn a_session_ends_after_its_subagents_at_all_levels() {
    let mut play = Play::new();
    assert_eq!(play.starts("ses_root", "msg_2", "ses_child"), ["None starts ses_child"]);
    play.begins("ses_child", "msg_a");
    assert_eq!(
        play.starts("ses_child", "msg_b", "ses_grandchild"),
        ["Some(\"ses_child\") starts ses_grandchild"]
    );
    play.begins("ses_grandchild", "msg_c");
    assert_eq!(play.idles("ses_root"), [""; 0]);
    assert_eq!(play.idles("ses_child"), [""; 0]);
    play.answers("ses_grandchild", "msg_d");
    assert_eq!(play.idles("ses_grandchild"), ["ses_grandchild Completed"]);
    // OpenCode might continue with the results of subagents in the background, so its status decides.
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let asked = play.asks();
        ended.extend(play.finds_idle(asked));
    }
    assert_eq!(ended, ["ses_child Completed", "Completed"]);
}
