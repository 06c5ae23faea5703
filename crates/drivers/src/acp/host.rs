//! Serves the requests of an agent: permissions, questions, files and commands. The rules and the code of the native loop
//! decide about each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol_schema::v1::{
    AgentRequest, ClientResponse, CreateElicitationRequest, CreateElicitationResponse, CreateTerminalRequest,
    CreateTerminalResponse, ElicitationAcceptAction, ElicitationAction, PermissionOption,
    PermissionOptionKind, ReadTextFileRequest, ReadTextFileResponse, RequestPermissionOutcome,
    RequestPermissionResponse, SelectedPermissionOutcome, WriteTextFileRequest, WriteTextFileResponse,
};
use engine::session::Turn;
use protocol::AgentEvent;
use protocol::agent_event::{Answer, Ask};
use protocol::config::{PermissionMode, SandboxMode};
use serde_json::json;
use supervision::permission::{Pattern, PermissionCheck, Permissions};
use supervision::{Access, Gate, Target, ToolFailure, blocking, object};
use workspace::diff;
use workspace::files::{self, Root};

use super::limits;
use super::options::Options;
use super::question;
use super::subject::PermissionSubject;
use super::terminal::{self, CommandLimits, Terminals};
use crate::jsonrpc::{ErrorObject, INTERNAL_ERROR};

/// Serves the requests of an agent in one turn. Dropping it ends the commands that it runs.
#[derive(Debug)]
pub(super) struct Host {
    turn: Arc<Turn>,
    options: Arc<Options>,
    root: Root,
    permissions: Permissions,
    pub(super) terminals: Terminals,
    granted: Mutex<Granted>,
}

/// Permissions that were granted in this turn, so that the user is not asked again when Baton does the work.
#[derive(Debug, Default)]
struct Granted {
    commands: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
}

/// The answer to a request of the agent. `refused` is true if the user refused it.
pub(super) struct Decided {
    pub(super) answer: ClientResponse,
    pub(super) refused: bool,
}

impl Host {
    pub(super) fn new(turn: Arc<Turn>, options: Arc<Options>, root: Root, permissions: Permissions) -> Self {
        let (terminals, granted) = (Terminals::default(), Mutex::default());
        Self { turn, options, root, permissions, terminals, granted }
    }

    /// Returns true if everything is allowed without a question.
    fn bypasses(&self) -> bool {
        self.options.agent.program.mode == PermissionMode::Bypass
    }

    fn granted(&self) -> MutexGuard<'_, Granted> {
        // Every change is complete in itself, so a poisoned lock holds no broken state.
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate<'g>(&'g self, permissions: &'g Permissions, call: Option<&'g str>) -> Gate<'g> {
        // The agent executes a permitted call itself, so Baton cannot seal it.
        Gate { turn: &self.turn, root: &self.root, permissions, readable: Vec::new(), seals: false, call }
    }

    /// Decides about a tool call and picks the matching option.
    pub(super) async fn decide(
        &self,
        call: &str,
        subject: PermissionSubject,
        options: &[PermissionOption],
    ) -> Decided {
        let verdict = if self.bypasses() { Ok(()) } else { self.permit(call, &subject).await };
        let stopped = self.turn.cancellation().is_cancelled();
        let (wanted, refused) = match verdict {
            // Baton remembers approvals itself, because an agent may mean more by "always".
            Ok(()) => ([PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways], false),
            Err(ToolFailure::Error(_)) => {
                ([PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways], false)
            }
            Err(ToolFailure::Refused(_)) if !stopped => {
                ([PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways], true)
            }
            Err(ToolFailure::Refused(_) | ToolFailure::Cancelled) => return Decided::cancelled(false),
        };
        let option = wanted.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
        match option {
            Some(option) => Decided::selected(option, refused),
            None => Decided::cancelled(refused),
        }
    }

    async fn permit(&self, call: &str, subject: &PermissionSubject) -> Result<(), ToolFailure> {
        let gate = self.gate(&self.permissions, Some(call));
        match subject {
            PermissionSubject::Command { line } => {
                gate.command(line, self.root.directory()).await?;
                self.granted().commands.insert(line.clone());
            }
            PermissionSubject::Files { permission, files, diff } => {
                let access = if *permission == "read" { Access::Read } else { Access::Write };
                let mut paths = Vec::new();
                for file in files {
                    paths.push(gate.locate(file, access).await?);
                }
                let shown = paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(", ");
                let metadata = object(json!({ "filepath": shown, "diff": diff }));
                if *permission == "edit" {
                    let target = |(written, path): (&String, &PathBuf)| Target {
                        written: written.clone(),
                        path: path.clone(),
                    };
                    gate.permit_edit(files.iter().zip(&paths).map(target).collect(), metadata).await?;
                    self.granted().files.extend(paths);
                } else {
                    gate.permit(permission, &paths, metadata).await?;
                }
            }
            PermissionSubject::Address { url } => {
                let check = PermissionCheck {
                    permission: "webfetch".into(),
                    patterns: vec![Pattern::plain(url)],
                    always: vec!["*".to_owned()],
                    metadata: object(json!({ "url": url })),
                };
                self.permissions.require(&self.turn, check, Some(call)).await?;
            }
            PermissionSubject::Other { tool, title, input } => {
                let check = PermissionCheck {
                    permission: tool.clone().into(),
                    patterns: vec![Pattern::plain("*")],
                    always: vec!["*".to_owned()],
                    metadata: object(json!({ "title": title, "input": input })),
                };
                self.permissions.clone().without_allow_all().require(&self.turn, check, Some(call)).await?;
            }
        }
        Ok(())
    }

    /// Asks the user to fill in a form.
    pub(super) async fn question(&self, form: &CreateElicitationRequest, order: &[String]) -> Decided {
        let Some((questions, fields)) = question::questions(form, order) else {
            return Decided::acted(ElicitationAction::Decline, false);
        };
        match self.turn.ask(Ask::Question { questions, call: question::call(form) }).await {
            Answer::Answers(answers) => {
                let content = question::content(&fields, &answers);
                Decided::acted(ElicitationAcceptAction::new().content(content), false)
            }
            Answer::Withdrawn => Decided::acted(ElicitationAction::Cancel, false),
            Answer::Rejected { .. } | Answer::Once | Answer::Always | Answer::Default(_) => {
                Decided::acted(ElicitationAction::Decline, true)
            }
        }
    }

    /// Serves a request about files or commands.
    pub(super) async fn serve(&self, request: AgentRequest) -> Result<ClientResponse, ErrorObject> {
        use ClientResponse as Answer;
        let terminals = &self.terminals;
        match request {
            AgentRequest::ReadTextFileRequest(it) => {
                self.read(it).await.map(Answer::ReadTextFileResponse).map_err(fault)
            }
            AgentRequest::WriteTextFileRequest(it) => {
                self.write(it).await.map(Answer::WriteTextFileResponse).map_err(fault)
            }
            AgentRequest::CreateTerminalRequest(it) => {
                self.create(it).await.map(Answer::CreateTerminalResponse)
            }
            AgentRequest::TerminalOutputRequest(it) => {
                terminals.output(&it.terminal_id).map(Answer::TerminalOutputResponse)
            }
            AgentRequest::WaitForTerminalExitRequest(it) => {
                terminals.wait(&it.terminal_id).await.map(Answer::WaitForTerminalExitResponse)
            }
            AgentRequest::KillTerminalRequest(it) => {
                terminals.kill(&it.terminal_id).map(Answer::KillTerminalResponse)
            }
            AgentRequest::ReleaseTerminalRequest(it) => {
                terminals.release(&it.terminal_id).map(Answer::ReleaseTerminalResponse)
            }
            other => Err(ErrorObject::unknown(other.method())),
        }
    }

    async fn read(&self, wanted: ReadTextFileRequest) -> Result<ReadTextFileResponse, ToolFailure> {
        let permissions = &self.permissions;
        let gate = self.gate(permissions, None);
        let path = gate.locate(&wanted.path.to_string_lossy(), Access::Read).await?;
        if !self.bypasses() {
            let metadata = object(json!({ "filepath": path.to_string_lossy() }));
            gate.permit("read", std::slice::from_ref(&path), metadata).await?;
        }
        let shown = path.clone();
        let text = blocking(move || files::current(&path)).await??;
        let text = text.ok_or_else(|| ToolFailure::Error(format!("there is no file {}", shown.display())))?;
        Ok(ReadTextFileResponse::new(lines(&text, wanted.line, wanted.limit)))
    }

    async fn write(&self, wanted: WriteTextFileRequest) -> Result<WriteTextFileResponse, ToolFailure> {
        if self.options.sandbox.as_ref().is_some_and(|sandbox| sandbox.mode == SandboxMode::ReadOnly) {
            return Err(ToolFailure::Error("the sandbox does not allow writing".to_owned()));
        }
        let gate = self.gate(&self.permissions, None);
        let path = self.place(&gate, &wanted.path.to_string_lossy()).await?;
        let file = path.clone();
        let before = blocking(move || files::current(&file)).await??;
        if !self.bypasses() && !self.granted().files.contains(&path) {
            let planned = diff::unified(
                &path.to_string_lossy(),
                before.as_deref().unwrap_or_default(),
                &wanted.content,
            );
            let metadata = object(json!({ "filepath": path.to_string_lossy(), "diff": planned.patch }));
            let written = wanted.path.to_string_lossy().into_owned();
            gate.permit_edit(vec![Target { written, path: path.clone() }], metadata).await?;
        }
        if self.turn.cancellation().is_cancelled() {
            return Err(ToolFailure::Cancelled);
        }
        let (file, content) = (path.clone(), wanted.content);
        blocking(move || files::write(&file, &content)).await??;
        self.turn.emit(AgentEvent::FileEdited { file: path.to_string_lossy().into_owned() }).await;
        Ok(WriteTextFileResponse::new())
    }

    /// The file that a path leads to, checked unless the user has permitted it already.
    async fn place(&self, gate: &Gate<'_>, path: &str) -> Result<PathBuf, ToolFailure> {
        let (root, text) = (self.root.clone(), path.to_owned());
        let place = blocking(move || root.locate(&text)).await??;
        if self.bypasses() || self.granted().files.contains(&place.path) {
            return Ok(place.path);
        }
        gate.locate(path, Access::Write).await
    }

    async fn create(&self, wanted: CreateTerminalRequest) -> Result<CreateTerminalResponse, ErrorObject> {
        let gate = self.gate(&self.permissions, None);
        let line = terminal::line(&wanted);
        let directory = match wanted.cwd.as_deref() {
            Some(directory) if self.bypasses() => self.root.directory().join(directory),
            Some(directory) => {
                gate.locate(&directory.to_string_lossy(), Access::Write).await.map_err(fault)?
            }
            None => self.root.directory().to_owned(),
        };
        if !self.bypasses() && !self.granted().commands.contains(&line) {
            gate.command(&line, Path::new(&directory)).await.map_err(fault)?;
        }
        let (sandbox, kept) = match &self.options.sandbox {
            Some(sandbox) => (
                sandbox.for_command(&self.turn, &self.root).await.map_err(fault)?,
                sandbox.kept(&self.root).await.map_err(fault)?,
            ),
            None => (None, Vec::new()),
        };
        if self.turn.cancellation().is_cancelled() {
            return Err(fault(ToolFailure::Cancelled));
        }
        let confined = CommandLimits { sandbox, kept, root: self.root.clone() };
        let (time, hidden) = (self.options.command_time(), &self.options.agent.program.hidden);
        self.terminals.create(&wanted, directory, time, hidden, confined)
    }
}

impl Decided {
    fn selected(option: &PermissionOption, refused: bool) -> Self {
        let selected = SelectedPermissionOutcome::new(option.option_id.clone());
        Self::outcome(RequestPermissionOutcome::Selected(selected), refused)
    }

    fn cancelled(refused: bool) -> Self {
        Self::outcome(RequestPermissionOutcome::Cancelled, refused)
    }

    fn outcome(outcome: RequestPermissionOutcome, refused: bool) -> Self {
        let answer = RequestPermissionResponse::new(outcome);
        Self { answer: ClientResponse::RequestPermissionResponse(answer), refused }
    }

    fn acted(action: impl Into<ElicitationAction>, refused: bool) -> Self {
        let answer = CreateElicitationResponse::new(action);
        Self { answer: ClientResponse::CreateElicitationResponse(answer), refused }
    }
}

fn fault(failure: ToolFailure) -> ErrorObject {
    let message = match failure {
        ToolFailure::Error(message) | ToolFailure::Refused(message) => message,
        ToolFailure::Cancelled => "the turn was stopped".to_owned(),
    };
    ErrorObject::new(INTERNAL_ERROR, message)
}

/// At most `count` lines of a text from the line `first`, counted from 1.
fn lines(text: &str, first: Option<u32>, count: Option<u32>) -> String {
    let (skip, count) = (first.unwrap_or(1).saturating_sub(1), count.unwrap_or(u32::MAX));
    let taken: String = text.split_inclusive('\n').skip(skip as usize).take(count as usize).collect();
    let end = (0..=limits::FILE.min(taken.len())).rev().find(|end| taken.is_char_boundary(*end));
    taken.get(..end.unwrap_or_default()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let text = "one\ntwo\nthree";
        assert_eq!(lines(text, None, None), text);
        assert_eq!(lines(text, Some(2), Some(1)), "two\n");
        assert_eq!(lines(text, Some(0), Some(2)), "one\ntwo\n");
        assert_eq!(lines(text, Some(9), None), "");
    }
}
