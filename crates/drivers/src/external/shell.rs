//! A command line that the user runs in a session of an external agent. Baton runs it, as in native sessions: no
//! permission is needed, and the agent learns of it with its next prompt.

use engine::session::Turn;
use protocol::{AgentEvent, Extra, TurnEnd};
use serde_json::{Value, json};
use supervision::limits::{COMMAND_LIVE, MAX_COMMAND};
use supervision::object;
use workspace::process::{self, Bounds, Done, Exit, Spec};

/// Bytes of a command's output that are kept, from its end.
const MAX_OUTPUT: usize = 50 * 1024;

/// Runs the command line and shows it as a `bash` call. Variables in `hidden` are not in its environment.
pub(super) async fn run(turn: &Turn, line: &str, hidden: &[String]) -> TurnEnd {
    let call = turn.prompt.to_string();
    let running = |output: &str| AgentEvent::ToolRunning {
        call: call.clone(),
        tool: "bash".to_owned(),
        input: object(json!({ "command": line })),
        title: None,
        metadata: Some(object(json!({ "output": output }))),
    };
    turn.emit(AgentEvent::step_started()).await;
    turn.emit(running("")).await;
    let mut spec = Spec::shell(line, &turn.session.directory, MAX_COMMAND).hide(hidden);
    spec.bounds = Bounds { head: 0, tail: MAX_OUTPUT };
    let (show, mut shown) = tokio::sync::watch::channel(String::new());
    let command = process::run(spec, turn.cancellation(), |output| {
        show.send_replace(output.tail_text(COMMAND_LIVE));
    });
    tokio::pin!(command);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut command => break done,
            Ok(()) = shown.changed() => {
                let output = shown.borrow_and_update().clone();
                turn.emit(running(&output)).await;
            }
        }
    };
    let ended = match done {
        Ok(done) => completed(call, line, &done),
        Err(error) => AgentEvent::ToolFailed { call, error: error.to_string(), metadata: None },
    };
    turn.emit(ended).await;
    if turn.cancellation().is_cancelled() { TurnEnd::Cancelled } else { TurnEnd::Completed }
}

fn completed(call: String, line: &str, done: &Done) -> AgentEvent {
    let mut output = done.output.end();
    let is_cut = done.output.omitted() > 0;
    if is_cut {
        output = format!("({} bytes before this are left out)\n{output}", done.output.omitted());
    }
    let (exit, remark) = match done.exit {
        Exit::Code(code) => (Value::from(code), None),
        Exit::Signal(signal) => (Value::Null, Some(format!("The command was ended by signal {signal}."))),
        Exit::Cancelled => (Value::Null, Some("The user aborted the command.".to_owned())),
        Exit::DeadlinePassed => (Value::Null, Some(format!("The command was ended after {MAX_COMMAND:?}."))),
    };
    if let Some(remark) = remark {
        output = format!("{output}\n{remark}");
    }
    if output.is_empty() {
        "(no output)".clone_into(&mut output);
    }
    let metadata: Extra = object(json!({ "output": output, "exit": exit, "truncated": is_cut }));
    AgentEvent::ToolCompleted { call, output, title: line.to_owned(), metadata, attachments: Vec::new() }
}
