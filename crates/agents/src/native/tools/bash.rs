//! `bash`: a command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use workspace::process::{self, Bounds, Done, Exit, Spec};

use super::input::{parse, whole};
use super::{Call, Failure, Output, Tool, object, paths};
use crate::native::limits;
use crate::native::permission::{Command, Pattern, Verdict, Wish, commands};

#[derive(Deserialize)]
struct Input {
    command: String,
    #[serde(default, deserialize_with = "whole")]
    timeout: Option<u64>,
    #[serde(default)]
    workdir: Option<String>,
}

pub(super) struct Bash;

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> String {
        format!(
            "Runs a command line with bash in the working directory and returns what it wrote. It is ended after {} \
             seconds unless timeout says otherwise. Input is empty; commands that wait for some will not get any. \
             Redirect the output of what you leave running in the background, or it ends with its next line.",
            limits::COMMAND.as_secs()
        )
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "description": "The command line" },
                "timeout": { "type": "integer", "minimum": 1, "description": "Milliseconds after which it is ended" },
                "workdir": { "type": "string", "description": "Another directory to run it in" },
            },
            "required": ["command"],
            "additionalProperties": true,
        })
    }

    fn check(&self, input: &Extra) -> Result<(), String> {
        parse::<Input>(input).map(drop)
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, Failure>> {
        async move {
            let input: Input = parse(call.input).map_err(Failure::Error)?;
            let directory = match &input.workdir {
                Some(directory) => paths::locate(call, directory).await?,
                None => call.root.directory().to_owned(),
            };
            permit(call, &input.command).await?;
            let deadline =
                input.timeout.map_or(limits::COMMAND, Duration::from_millis).min(limits::LONGEST_COMMAND);
            let done = execute(call, &input.command, directory, deadline).await?;
            // Whoever stopped the turn decides what becomes of the part; there is nobody left to tell.
            if done.exit == Exit::Cancelled {
                return Err(Failure::Cancelled);
            }
            Ok(show(input.command, &done, deadline))
        }
        .boxed()
    }
}

async fn permit(call: &Call<'_>, line: &str) -> Result<(), Failure> {
    let commands = commands(line);
    let wish = wish(line, &commands);
    // A person who is asked sees the whole line. One who is not is still asked about places outside.
    let unseen = call.permissions.judge(&wish) == Verdict::Allowed;
    call.permissions.get(call.turn, wish, Some(call.id)).await?;
    for place in commands.iter().filter(|_| unseen).flat_map(Command::places) {
        if place == "/dev/null" {
            continue;
        }
        // The shell, not this program, knows where `~` is; wherever that is, it is not the project.
        match call.root.locate(place).ok().filter(|_| !place.starts_with('~')) {
            Some(found) if found.inside => {}
            Some(found) => paths::outside(call, place, found.path.parent().unwrap_or(&found.path)).await?,
            None => paths::outside(call, place, Path::new(place)).await?,
        }
    }
    Ok(())
}

fn wish(line: &str, commands: &[Command]) -> Wish {
    let asked = || commands.iter().filter(|command| command.opaque || !command.moves());
    let mut always: Vec<String> = asked().map(Command::always).collect();
    always.dedup();
    Wish {
        permission: "bash",
        patterns: asked()
            .map(|command| Pattern { text: command.text.clone(), opaque: command.opaque })
            .collect(),
        always,
        metadata: object(json!({ "command": line })),
    }
}

async fn execute(
    call: &Call<'_>,
    line: &str,
    directory: PathBuf,
    deadline: Duration,
) -> Result<Done, Failure> {
    let mut spec = Spec::shell(line, directory, deadline).hide(call.hidden);
    spec.bounds = Bounds { head: limits::COMMAND_HEAD, tail: limits::COMMAND_TAIL };
    let (show, mut shown) = watch::channel(String::new());
    let running = process::run(spec, call.turn.cancellation(), |output| {
        show.send_replace(output.tail_text(limits::COMMAND_LIVE));
    });
    tokio::pin!(running);
    loop {
        tokio::select! {
            biased;
            done = &mut running => return done.map_err(|error| Failure::Error(error.to_string())),
            Ok(()) = shown.changed() => {
                let output = shown.borrow_and_update().clone();
                call.progress(None, object(json!({ "output": output }))).await;
            }
        }
    }
}

fn show(command: String, done: &Done, deadline: Duration) -> Output {
    let mut output = done.output.text();
    if output.is_empty() {
        output.push_str("(no output)");
    }
    let (exit, remark) = match done.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(format!("The command was ended by signal {signal}"))),
        Exit::DeadlinePassed | Exit::Cancelled => (
            None,
            Some(format!(
                "bash tool terminated command after exceeding timeout {} ms. If it needs longer, set a larger timeout.",
                deadline.as_millis()
            )),
        ),
    };
    if let Some(remark) = remark {
        output.push_str("\n\n<shell_metadata>\n");
        output.push_str(&remark);
        output.push_str("\n</shell_metadata>");
    }
    let metadata = object(json!({ "output": output, "exit": exit, "truncated": done.output.omitted() > 0 }));
    Output::new(command, output, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_names_every_command_of_the_line() {
        let line = "cd src && touch /else/x && echo approved";
        let wish = wish(line, &commands(line));
        let patterns: Vec<&str> = wish.patterns.iter().map(|pattern| pattern.text.as_str()).collect();
        assert_eq!(patterns, ["touch /else/x", "echo approved"]);
        assert_eq!(wish.always, ["touch *", "echo *"]);
        assert_eq!(Value::Object(wish.metadata), json!({ "command": line }));
    }
}
