//! Claude Code behind the real engine: recordings of the real program, and scripts that misbehave.

mod children;
mod misbehaviour;
mod recordings;
mod results;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use super::{ABILITIES, Claude, NAME};
use crate::external::harness::{Fake, Harness, Ticking};
use crate::external::keeper::Wake;
use crate::external::{Bounds, Driver, Options, Timeouts};
use crate::roster::{About, External as _};
use engine::limits::Limits;

/// Shell functions that write the messages of Claude Code.
const WORDS: &str = r#"
state() { say '{"type":"system","subtype":"session_state_changed","state":"'"$1"'"}'; }
init() { say '{"type":"system","subtype":"init","session_id":"conversation-1"}'; }
event() { say '{"type":"stream_event","event":'"$1"'}'; }
open() { event '{"type":"message_start","message":{"id":"'"$1"'","usage":{"input_tokens":3}}}'; }
words() {
    event '{"type":"content_block_start","index":0,"content_block":{"type":"text"}}'
    event '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'"$1"'"}}'
}
close() {
    event '{"type":"content_block_stop","index":0}'
    event '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}'
    event '{"type":"message_stop"}'
}
speak() { open "$1"; words "$2"; close; }
call() {
    say '{"type":"assistant","message":{"id":"'"$1"'","content":[{"type":"tool_use","id":"'"$2"'","name":"Bash","input":{"command":"make"}}]}}'
}
called() {
    say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"'"$1"'","content":"made"}]}}'
}
result() { say '{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.25}'; }
may() {
    say '{"type":"control_request","request_id":"'"$1"'","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make"},"tool_use_id":"'"$2"'"}}'
}
prompted() { hear '"type":"user"'; }
begin() { prompted; state running; init; }
finish() { result; state idle; }
turn() { begin; speak m1 hello; finish; }
"#;

/// A timeout that must not expire, even on a loaded machine.
const PATIENT: Duration = Duration::from_secs(20);

/// A timeout that is expected to expire.
const HASTY: Duration = Duration::from_millis(300);

fn patient() -> Timeouts {
    Timeouts {
        start: PATIENT,
        answer: PATIENT,
        interrupt: PATIENT,
        silence: PATIENT,
        settle: PATIENT,
        ..Timeouts::default()
    }
}

fn claude(fake: &Fake, timeouts: Timeouts) -> Options {
    let about = About {
        id: NAME.into(),
        name: "Claude Code".into(),
        description: String::new(),
        models: vec!["default".into()],
        has_providers: false,
        abilities: ABILITIES,
    };
    Options {
        timeouts,
        bounds: Bounds { line: 100_000, errors: 4_000, write: PATIENT, linger: HASTY },
        ..Options::new(about, fake.configured())
    }
}

fn runner(options: Options, wake: Wake) -> Driver<Claude> {
    Driver::new(Claude::new(options), Arc::new(Ticking::default()), wake)
}

/// A harness around a fake, with a handle on its runner.
async fn harness(options: Options, limits: Limits) -> (Harness, Driver<Claude>) {
    let mut made = None;
    let harness = Harness::bounded(limits, |wake| {
        let driver = runner(options, wake);
        made = Some(driver.clone());
        driver
    })
    .await;
    (harness, made.unwrap())
}

fn script(acts: &str) -> Fake {
    Fake::new(&format!("{WORDS}\n{acts}"))
}

/// Limits that give runners a long time after an abort.
fn unhurried() -> Limits {
    Limits { runner_grace: PATIENT, ..Limits::default() }
}
