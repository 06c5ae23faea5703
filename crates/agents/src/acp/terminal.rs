//! Commands that an agent lets us run. A command is over when its process exits, whoever still holds its output; whoever
//! stops or releases it ends everything that it has started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use workspace::process::{self, Bounds, Exit, Output, Sandbox, Spec};

use super::limits;
use super::wire::CreateTerminal;
use crate::jsonrpc::{Fault, INTERNAL_ERROR, INVALID_PARAMS};

/// The commands of one turn. Dropping it ends them.
#[derive(Debug, Default)]
pub(super) struct Terminals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: BTreeMap<String, Terminal>,
}

#[derive(Debug)]
struct Terminal {
    seen: watch::Receiver<Seen>,
    stop: CancellationToken,
    /// Nothing once it is released; what it wrote is kept for whoever shows it.
    task: Option<AbortOnDropHandle<()>>,
}

/// What is known about a command.
#[derive(Debug, Clone, Default)]
struct Seen {
    output: String,
    truncated: bool,
    over: Option<Over>,
}

#[derive(Debug, Clone)]
enum Over {
    Exit(Exit),
    Failed(String),
}

/// The command line that a person is asked about.
pub(super) fn line(wanted: &CreateTerminal) -> String {
    if wanted.args.is_empty() {
        return wanted.command.clone();
    }
    let shell = matches!(wanted.command.rsplit('/').next(), Some("sh" | "bash" | "zsh"));
    match wanted.args.as_slice() {
        [flag, line] if shell && matches!(flag.as_str(), "-c" | "-lc") => line.clone(),
        args => {
            let words = std::iter::once(&wanted.command).chain(args).map(|word| quoted(word));
            words.collect::<Vec<_>>().join(" ")
        }
    }
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Terminals {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is complete in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command.
    pub(super) fn create(
        &self,
        wanted: &CreateTerminal,
        directory: PathBuf,
        hidden: &[String],
        sandbox: Option<Sandbox>,
    ) -> Result<Value, Fault> {
        let mut state = self.state();
        if state.open.values().filter(|terminal| terminal.seen.borrow().over.is_none()).count()
            >= limits::TERMINALS
        {
            let message = format!("{} commands run already; wait for one or stop one", limits::TERMINALS);
            return Err(Fault::new(INTERNAL_ERROR, message));
        }
        let mut spec = if wanted.args.is_empty() {
            Spec::shell(&wanted.command, directory, limits::COMMAND)
        } else {
            Spec::new(&wanted.command, directory, limits::COMMAND).args(&wanted.args)
        };
        spec = spec.hide(hidden);
        spec.environment.extend(wanted.env.iter().map(|it| ((&it.name).into(), (&it.value).into())));
        spec.bounds =
            Bounds { head: 0, tail: wanted.output_byte_limit.unwrap_or(limits::OUTPUT).min(limits::OUTPUT) };
        spec.sandbox = sandbox;
        let (show, seen) = watch::channel(Seen::default());
        let stop = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(run(spec, stop.clone(), show)));
        state.last += 1;
        let id = format!("terminal-{}", state.last);
        state.open.insert(id.clone(), Terminal { seen, stop, task: Some(task) });
        Ok(json!({ "terminalId": id }))
    }

    /// What a command has written so far.
    pub(super) fn output(&self, id: &str) -> Result<Value, Fault> {
        let state = self.state();
        let terminal = state.open.get(id).ok_or_else(|| unknown(id))?;
        let seen = terminal.seen.borrow();
        let mut answer = json!({ "output": seen.output, "truncated": seen.truncated });
        if let (Some(Over::Exit(exit)), Some(answer)) = (&seen.over, answer.as_object_mut()) {
            answer.insert("exitStatus".to_owned(), status(*exit));
        }
        Ok(answer)
    }

    /// Waits until a command is over.
    pub(super) async fn wait(&self, id: &str) -> Result<Value, Fault> {
        let mut seen =
            self.state().open.get(id).map(|terminal| terminal.seen.clone()).ok_or_else(|| unknown(id))?;
        let over = seen.wait_for(|seen| seen.over.is_some()).await.ok().and_then(|seen| seen.over.clone());
        match over {
            Some(Over::Exit(exit)) => Ok(status(exit)),
            Some(Over::Failed(why)) => Err(Fault::new(INTERNAL_ERROR, why)),
            None => Err(Fault::new(INTERNAL_ERROR, "the command was released before it was over")),
        }
    }

    /// Ends a command and everything it has started.
    pub(super) fn kill(&self, id: &str) -> Result<Value, Fault> {
        self.state().open.get(id).ok_or_else(|| unknown(id))?.stop.cancel();
        Ok(json!({}))
    }

    /// Ends a command that nobody will ask about any more.
    pub(super) fn release(&self, id: &str) -> Result<Value, Fault> {
        let mut state = self.state();
        let terminal = state.open.get_mut(id).ok_or_else(|| unknown(id))?;
        terminal.task = None;
        Ok(json!({}))
    }

    /// What every command has written.
    pub(super) fn outputs(&self) -> Vec<(String, String)> {
        let state = self.state();
        state.open.iter().map(|(id, terminal)| (id.clone(), terminal.seen.borrow().output.clone())).collect()
    }
}

fn unknown(id: &str) -> Fault {
    Fault::new(INVALID_PARAMS, format!("there is no terminal {id}"))
}

async fn run(spec: Spec, stop: CancellationToken, show: watch::Sender<Seen>) {
    let seen = |output: &Output, over: Option<Over>| Seen {
        output: output.end(),
        truncated: output.omitted() > 0,
        over,
    };
    let done = process::run(spec, &stop, |output| {
        show.send_replace(seen(output, None));
    });
    let last = match done.await {
        Ok(done) => seen(&done.output, Some(Over::Exit(done.exit))),
        Err(error) => {
            Seen { output: error.to_string(), truncated: false, over: Some(Over::Failed(error.to_string())) }
        }
    };
    show.send_replace(last);
}

fn status(exit: Exit) -> Value {
    match exit {
        Exit::Code(code) => json!({ "exitCode": code, "signal": null }),
        Exit::Signal(signal) => json!({ "exitCode": null, "signal": signal.to_string() }),
        Exit::Cancelled => json!({ "exitCode": null, "signal": "SIGTERM" }),
        Exit::DeadlinePassed => json!({ "exitCode": null, "signal": "SIGKILL" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(command: &str, args: &[&str]) -> CreateTerminal {
        serde_json::from_value(json!({ "command": command, "args": args })).unwrap()
    }

    #[test]
    fn a_person_sees_the_line_that_runs() {
        assert_eq!(line(&wanted("make test && echo done", &[])), "make test && echo done");
        assert_eq!(line(&wanted("/bin/bash", &["-c", "make test"])), "make test");
        assert_eq!(line(&wanted("git", &["commit", "-m", "it's done"])), r"git commit -m 'it'\''s done'");
        assert_eq!(line(&wanted("bash", &["script.sh", ""])), "bash script.sh ''");
    }

    #[tokio::test]
    async fn a_command_is_over_when_its_process_exits() {
        let (terminals, directory) = (Terminals::default(), tempfile::TempDir::new().unwrap());
        let create = |line: &str| {
            let made = terminals.create(&wanted(line, &[]), directory.path().to_owned(), &[], None).unwrap();
            made["terminalId"].as_str().unwrap().to_owned()
        };
        // Something it has started holds its output open.
        let id = create("sleep 600 & echo hello; exit 3");
        assert_eq!(terminals.wait(&id).await.unwrap(), json!({ "exitCode": 3, "signal": null }));
        let output = terminals.output(&id).unwrap();
        assert_eq!(
            output,
            json!({ "output": "hello\n", "truncated": false, "exitStatus": { "exitCode": 3, "signal": null } })
        );
        let id = create("sleep 600");
        terminals.kill(&id).unwrap();
        assert_eq!(terminals.wait(&id).await.unwrap()["signal"], "SIGTERM");
        let id = create("sleep 600");
        terminals.release(&id).unwrap();
        assert!(terminals.wait(&id).await.is_err());
        assert_eq!(terminals.output("nobody").unwrap_err().message, "there is no terminal nobody");
    }
}
