//! Commands that Baton runs for an agent. A command has ended when its process exits, even if another process still
//! holds its output open. Stopping or releasing a command ends every process that it has started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    CreateTerminalRequest, CreateTerminalResponse, KillTerminalResponse, ReleaseTerminalResponse,
    TerminalExitStatus, TerminalId, TerminalOutputResponse, WaitForTerminalExitResponse,
};
use supervision::restored;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use workspace::files::Root;
use workspace::process::{self, Bounds, Exit, Output, Sandbox, SavedPath, Spec};

use super::limits;
use crate::jsonrpc::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS};

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
    /// None once the agent has released the terminal. The output stays, because the tool call still shows it.
    task: Option<AbortOnDropHandle<()>>,
}

/// The restrictions of a command.
#[derive(Debug)]
pub(super) struct CommandLimits {
    pub(super) sandbox: Option<Sandbox>,
    pub(super) kept: Vec<SavedPath>,
    /// The project directory, relative to which messages name files.
    pub(super) root: Root,
}

/// The output and the exit status of a command so far.
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

/// The command line to show in the permission request.
pub(super) fn line(wanted: &CreateTerminalRequest) -> String {
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
        // Every change is complete in itself, so a poisoned lock holds no broken state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command.
    pub(super) fn create(
        &self,
        wanted: &CreateTerminalRequest,
        directory: PathBuf,
        time: Duration,
        hidden: &[String],
        confined: CommandLimits,
    ) -> Result<CreateTerminalResponse, ErrorObject> {
        let mut state = self.state();
        if state.open.values().filter(|terminal| terminal.seen.borrow().over.is_none()).count()
            >= limits::TERMINALS
        {
            let message = format!("{} commands run already; wait for one or stop one", limits::TERMINALS);
            return Err(ErrorObject::new(INTERNAL_ERROR, message));
        }
        let mut spec = if wanted.args.is_empty() {
            Spec::shell(&wanted.command, directory, time)
        } else {
            Spec::new(&wanted.command, directory, time).args(&wanted.args)
        };
        spec = spec.hide(hidden);
        spec.environment.extend(wanted.env.iter().map(|it| ((&it.name).into(), (&it.value).into())));
        let limit = wanted.output_byte_limit.and_then(|limit| usize::try_from(limit).ok());
        spec.bounds = Bounds { head: 0, tail: limit.unwrap_or(limits::OUTPUT).min(limits::OUTPUT) };
        spec.sandbox = confined.sandbox;
        spec.kept = confined.kept;
        let (show, seen) = watch::channel(Seen::default());
        let stop = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(run(spec, confined.root, stop.clone(), show)));
        state.last += 1;
        let id = format!("terminal-{}", state.last);
        state.open.insert(id.clone(), Terminal { seen, stop, task: Some(task) });
        Ok(CreateTerminalResponse::new(id))
    }

    /// The output of a command so far.
    pub(super) fn output(&self, id: &TerminalId) -> Result<TerminalOutputResponse, ErrorObject> {
        let state = self.state();
        let terminal = state.open.get(&*id.0).ok_or_else(|| unknown(id))?;
        let seen = terminal.seen.borrow();
        let exit = match &seen.over {
            Some(Over::Exit(exit)) => Some(status(*exit)),
            Some(Over::Failed(_)) | None => None,
        };
        Ok(TerminalOutputResponse::new(&seen.output, seen.truncated).exit_status(exit))
    }

    /// Waits until a command has ended.
    pub(super) async fn wait(&self, id: &TerminalId) -> Result<WaitForTerminalExitResponse, ErrorObject> {
        let mut seen =
            self.state().open.get(&*id.0).map(|terminal| terminal.seen.clone()).ok_or_else(|| unknown(id))?;
        let over = seen.wait_for(|seen| seen.over.is_some()).await.ok().and_then(|seen| seen.over.clone());
        match over {
            Some(Over::Exit(exit)) => Ok(WaitForTerminalExitResponse::new(status(exit))),
            Some(Over::Failed(why)) => Err(ErrorObject::new(INTERNAL_ERROR, why)),
            None => Err(ErrorObject::new(INTERNAL_ERROR, "the command was released before it was over")),
        }
    }

    /// Ends a command and every process that it has started.
    pub(super) fn kill(&self, id: &TerminalId) -> Result<KillTerminalResponse, ErrorObject> {
        self.state().open.get(&*id.0).ok_or_else(|| unknown(id))?.stop.cancel();
        Ok(KillTerminalResponse::new())
    }

    /// Ends a command and forgets its task. The agent may not use the terminal afterwards.
    pub(super) fn release(&self, id: &TerminalId) -> Result<ReleaseTerminalResponse, ErrorObject> {
        let mut state = self.state();
        let terminal = state.open.get_mut(&*id.0).ok_or_else(|| unknown(id))?;
        terminal.task = None;
        Ok(ReleaseTerminalResponse::new())
    }

    /// The output of every command so far, by terminal id.
    pub(super) fn outputs(&self) -> Vec<(String, String)> {
        let state = self.state();
        state.open.iter().map(|(id, terminal)| (id.clone(), terminal.seen.borrow().output.clone())).collect()
    }
}

fn unknown(id: &TerminalId) -> ErrorObject {
    ErrorObject::new(INVALID_PARAMS, format!("there is no terminal {id}"))
}

async fn run(spec: Spec, root: Root, stop: CancellationToken, show: watch::Sender<Seen>) {
    let seen = |output: &Output, over: Option<Over>| Seen {
        output: output.end(),
        truncated: output.omitted() > 0,
        over,
    };
    let done = process::run(spec, &stop, |output| {
        show.send_replace(seen(output, None));
    });
    let last = match done.await {
        Ok(done) => {
            let mut last = seen(&done.output, Some(Over::Exit(done.exit)));
            if let Some(remark) = restored(&root, &done.restored) {
                last.output.push('\n');
                last.output.push_str(&remark);
            }
            last
        }
        Err(error) => {
            Seen { output: error.to_string(), truncated: false, over: Some(Over::Failed(error.to_string())) }
        }
    };
    show.send_replace(last);
}

fn status(exit: Exit) -> TerminalExitStatus {
    let status = TerminalExitStatus::new();
    match exit {
        Exit::Code(code) => status.exit_code(u32::try_from(code).ok()),
        Exit::Signal(signal) => status.signal(signal.to_string()),
        Exit::Cancelled => status.signal("SIGTERM"),
        Exit::DeadlinePassed => status.signal("SIGKILL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(command: &str, args: &[&str]) -> CreateTerminalRequest {
        CreateTerminalRequest::new("s", command).args(args.iter().map(|&arg| arg.to_owned()).collect())
    }

    #[test]
    fn the_user_sees_the_command_line_that_runs() {
        assert_eq!(line(&wanted("make test && echo done", &[])), "make test && echo done");
        assert_eq!(line(&wanted("/bin/bash", &["-c", "make test"])), "make test");
        assert_eq!(line(&wanted("git", &["commit", "-m", "it's done"])), r"git commit -m 'it'\''s done'");
        assert_eq!(line(&wanted("bash", &["script.sh", ""])), "bash script.sh ''");
    }

    #[tokio::test]
    async fn a_command_ends_when_its_process_exits() {
        let (terminals, directory) = (Terminals::default(), tempfile::TempDir::new().unwrap());
        let create_for = |line: &str, time: Duration| {
            let root = Root::new(directory.path()).unwrap();
            let confined = CommandLimits { sandbox: None, kept: Vec::new(), root };
            let place = directory.path().to_owned();
            terminals.create(&wanted(line, &[]), place, time, &[], confined).unwrap().terminal_id
        };
        let create = |line: &str| create_for(line, limits::COMMAND);
        // The background process holds the output open.
        let id = create("sleep 600 & echo hello; exit 3");
        let exit = TerminalExitStatus::new().exit_code(3);
        assert_eq!(terminals.wait(&id).await.unwrap().exit_status, exit);
        let output = TerminalOutputResponse::new("hello\n", false).exit_status(exit);
        assert_eq!(terminals.output(&id).unwrap(), output);
        let id = create("sleep 600");
        terminals.kill(&id).unwrap();
        assert_eq!(terminals.wait(&id).await.unwrap().exit_status.signal.as_deref(), Some("SIGTERM"));
        let id = create_for("sleep 600", Duration::from_millis(10));
        assert!(terminals.wait(&id).await.is_ok(), "its time is over");
        let id = create("sleep 600");
        terminals.release(&id).unwrap();
        assert!(terminals.wait(&id).await.is_err());
        assert_eq!(terminals.output(&"nobody".into()).unwrap_err().message, "there is no terminal nobody");
    }
}
