//! `bash`: runs a command line.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use supervision::permission::Confinement;
use tokio::sync::watch;
use workspace::output::{self, Cut, End, Omitted};
use workspace::process::{self, Bounds, Done, Exit, Spec, Spool};

use super::input::whole;
use super::{
    BuiltIn, Call, Caller, Output, SandboxOptions, ToolFailure, object, paths, sandbox, sealed, truncate,
};
use crate::{hooks, limits};

#[derive(Deserialize)]
pub(super) struct Input {
    command: String,
    #[serde(default, deserialize_with = "whole")]
    timeout: Option<u64>,
    #[serde(default)]
    workdir: Option<String>,
}

pub(super) struct Bash {
    /// Timeout of a command for which the model sets none.
    pub(super) timeout: Duration,
}

impl BuiltIn for Bash {
    const NAME: &'static str = "bash";

    type Input = Input;

    fn description(&self) -> String {
        format!(
            "Runs a command line with bash in the working directory and returns its output. It is ended after {} \
             seconds unless timeout says otherwise. Use workdir rather than cd. The standard input is empty, so commands \
             cannot wait for input. Redirect the output of processes that you leave running in the background; otherwise \
             they end at their next line of output. To find, read and change files, use the tools for that.",
            self.timeout.as_secs_f64()
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

    fn check(&self, input: &Input) -> Result<(), String> {
        match input.timeout {
            Some(0) => Err("timeout must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, input: Input) -> Result<Output, ToolFailure> {
        let directory = match &input.workdir {
            Some(directory) => paths::locate(call, directory).await?,
            None => call.root.directory().to_owned(),
        };
        let (usual, confinement) = match call.caller {
            Caller::User => (limits::MAX_COMMAND, Confinement::Configured),
            Caller::Model | Caller::Template => {
                (self.timeout, call.gate().command(&input.command, &directory).await?)
            }
        };
        let deadline = input.timeout.map_or(usual, Duration::from_millis).min(limits::MAX_COMMAND);
        let before = call.changes.before_command().await;
        let done = execute(call, &input.command, directory, deadline, confinement).await?;
        call.changes.after_command(before.as_ref()).await;
        // The engine closes the part after an abort, so no result is needed. A user who
        // stopped their own command wants to see its output so far.
        if done.exit == Exit::Cancelled && call.caller != Caller::User {
            return Err(ToolFailure::Cancelled);
        }
        Ok(show(call, input.command, &done, deadline, confinement).await)
    }
}

async fn execute(
    call: &Call<'_>,
    line: &str,
    directory: PathBuf,
    deadline: Duration,
    confinement: Confinement,
) -> Result<Done, ToolFailure> {
    let variables = tokio::select! {
        biased;
        () = call.turn.cancelled() => return Err(ToolFailure::Cancelled),
        variables = hooks::variables(call.turn, &directory, call.id) => variables,
    };
    let mut spec = Spec::shell(line, directory, deadline).hide(call.hidden);
    spec.environment = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    match (confinement, &call.options.sandbox) {
        (Confinement::Sealed, _) => spec.sandbox = Some(sealed::prepare(&mut spec, call.options.kernel)),
        (Confinement::Configured, Some(sandbox)) => {
            spec.sandbox = sandbox.for_command(call.turn, call.root).await?;
            spec.kept = sandbox.kept(call.root).await?;
        }
        (Confinement::Configured, None) => {}
    }
    // The end of the output matters most. Twice the size of what the model sees, so that its part can begin with a
    // whole line.
    spec.bounds = Bounds { head: 0, tail: call.options.output.bytes.saturating_mul(2) };
    spec.spool = call
        .options
        .output_directory
        .clone()
        .map(|output_directory| Spool { output_directory, name: truncate::name(call) });
    let (show, mut shown) = watch::channel(String::new());
    let running = process::run(spec, call.turn.cancellation(), |output| {
        show.send_replace(output.tail_text(limits::COMMAND_LIVE));
    });
    tokio::pin!(running);
    loop {
        tokio::select! {
            biased;
            done = &mut running => return done.map_err(|error| ToolFailure::Error(error.to_string())),
            Ok(()) = shown.changed() => {
                let output = shown.borrow_and_update().clone();
                call.progress(None, object(json!({ "output": output }))).await;
            }
        }
    }
}

async fn show(
    call: &Call<'_>,
    command: String,
    done: &Done,
    deadline: Duration,
    confinement: Confinement,
) -> Output {
    let end = done.output.end();
    let cut = shorten(done, &end, call.options.output);
    let path = match &done.spooled {
        // The output fitted in memory, so it is not in a file yet, but it is too long for the model.
        None if cut.is_some() && done.output.omitted() == 0 => truncate::store(call, end.clone()).await,
        spooled => spooled.clone(),
    };
    let mut text = match &cut {
        Some(cut) => {
            format!("{}\n\n{}\n\n{}", truncate::marker(cut), truncate::hint(call, path.as_ref()), cut.shown)
        }
        None if end.is_empty() => "(no output)".to_owned(),
        None => end.clone(),
    };
    let (exit, remark) = remark(done.exit, deadline);
    let failed = exit.is_some_and(|code| code != 0);
    let confined = || match confinement {
        Confinement::Sealed => Some(sealed::REMARK.to_owned()),
        Confinement::Configured => call.options.sandbox.as_ref().and_then(SandboxOptions::remark),
    };
    let remark = remark.or_else(|| failed.then(confined).flatten());
    let restored = sandbox::restored(call.root, &done.restored);
    let remarks: Vec<String> = remark.into_iter().chain(restored).collect();
    if !remarks.is_empty() {
        text.push_str("\n\n<shell_metadata>\n");
        text.push_str(&remarks.join("\n"));
        text.push_str("\n</shell_metadata>");
    }
    let mut metadata = object(json!({ "output": text, "exit": exit, "truncated": cut.is_some() }));
    if let Some(path) = path {
        metadata.insert("outputPath".to_owned(), path.to_string_lossy().into());
    }
    Output::new(command, text, metadata)
}

/// Returns the end of an output that is too long, with a count of everything that is missing.
fn shorten<'t>(done: &Done, end: &'t str, limits: output::Limits) -> Option<Cut<'t>> {
    let dropped = usize::try_from(done.output.omitted()).unwrap_or(usize::MAX);
    let cut = output::cut(end, limits, End::Tail);
    if dropped == 0 {
        return cut;
    }
    let shown = cut.map_or(end, |cut| cut.shown);
    let total = usize::try_from(done.output.total()).unwrap_or(usize::MAX);
    let omitted = match cut.map(|cut| cut.omitted) {
        Some(Omitted::Lines(_)) => {
            let lines = usize::try_from(done.output.lines()).unwrap_or(usize::MAX);
            Omitted::Lines(lines.saturating_sub(shown.matches('\n').count()))
        }
        _ => Omitted::Bytes(total.saturating_sub(shown.len())),
    };
    Some(Cut { shown, omitted })
}

fn remark(exit: Exit, deadline: Duration) -> (Option<i32>, Option<String>) {
    match exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(format!("The command was killed by signal {signal}"))),
        Exit::Cancelled => (None, Some("The user aborted the command".to_owned())),
        Exit::DeadlinePassed => (
            None,
            Some(format!(
                "bash tool terminated command after exceeding timeout {} ms. If it needs longer, set a larger timeout.",
                deadline.as_millis()
            )),
        ),
    }
}
