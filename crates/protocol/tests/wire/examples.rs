//! One example of each event type, as Baton serialises it.

use protocol::{
    AssistantMessage, EndReason, Event, EventBody, Extra, Message, MessageError, Part, PartBody, Rest,
    Session, SessionStatus, Todo, ToolState, UserMessage,
    continuation::{Source, StopReason},
    error::ApiError,
    event::{
        CommandDone, Connected, ContinuationCountdown, ContinuationStarted, ContinuationStopped, FileChanged,
        FileWatched, MessageGone, MessageInfo, PartDelta, PartGone, PartInfo, PermissionAnswered,
        PromptEnded, PromptQueued, PromptStarted, QuestionAnswered, QuestionDismissed, QueueChanged, Ready,
        Resync, SessionDiffed, SessionFailed, SessionInfo, SessionMarked, SessionOnly, StatusChanged,
        TodosReplaced,
    },
    message::{AssistantTime, Finish, MessagePath, ModelRef, UserTime},
    number::Number,
    part::{
        CompactionPart, PartTime, PatchPart, ReasoningPart, StepFinishPart, StepStartPart, TextPart,
        ToolCompleted, ToolFailed, ToolPart, ToolPending, ToolRunning,
    },
    project::{FileDiff, Project, ProjectTime},
    prompt::Delivery,
    queue::Waiting,
    request::{
        AnswerKind, AnsweredBy, PermissionReply, PermissionRequest, Question, QuestionOption,
        QuestionRequest, ToolRef,
    },
    session::{SessionModel, SessionTime, Tokens},
};
use serde_json::{Value, json};

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn object(value: Value) -> Extra {
    serde_json::from_value(value).unwrap()
}

fn session() -> Session {
    Session {
        id: id("ses_1"),
        slug: "tidy-comet".into(),
        project_id: "global".into(),
        workspace_id: None,
        directory: "/project".into(),
        path: Some(String::new()),
        parent_id: None,
        title: "Greeting".into(),
        agent: Some("build".into()),
        model: Some(SessionModel {
            id: "demo".into(),
            provider_id: "demo".into(),
            variant: Some("default".into()),
            extra: Rest::NONE,
        }),
        version: "0.1.0".into(),
        cost: Some(Number(0.0)),
        tokens: Some(Tokens::default()),
        summary: None,
        share: None,
        metadata: None,
        permission: None,
        revert: None,
        continuation: None,
        seen: None,
        time: SessionTime { created: 1, updated: 2, compacting: None, archived: None, extra: Extra::new() },
        extra: Extra::new(),
    }
}

fn user() -> Message {
    Message::User(Box::new(UserMessage {
        id: id("msg_1"),
        session_id: id("ses_1"),
        time: UserTime { created: 3, extra: Extra::new() },
        agent: "build".into(),
        model: ModelRef::new("demo", "demo"),
        format: None,
        summary: None,
        system: None,
        tools: None,
        extra: Extra::new(),
    }))
}

fn assistant() -> Message {
    Message::Assistant(Box::new(AssistantMessage {
        id: id("msg_2"),
        session_id: id("ses_1"),
        parent_id: id("msg_1"),
        time: AssistantTime { created: 4, completed: Some(9), extra: Extra::new() },
        model_id: "demo".into(),
        provider_id: "demo".into(),
        mode: "build".into(),
        agent: "build".into(),
        path: MessagePath::new("/project", "/project"),
        cost: Number(0.25),
        tokens: Tokens { total: Some(12), input: 10, output: 2, ..Tokens::default() },
        variant: None,
        summary: None,
        structured: None,
        finish: Some(Finish::ToolCalls),
        error: Some(MessageError::aborted()),
        extra: Extra::new(),
    }))
}

fn message(info: Message) -> EventBody {
    EventBody::MessageUpdated(MessageInfo { session_id: id("ses_1"), info, extra: Extra::new() })
}

fn part(body: PartBody) -> EventBody {
    let part = Part { id: id("prt_1"), session_id: id("ses_1"), message_id: id("msg_2"), body };
    EventBody::PartUpdated(PartInfo { session_id: id("ses_1"), part, time: 5, extra: Extra::new() })
}

fn tool(state: ToolState) -> EventBody {
    part(PartBody::Tool(Box::new(ToolPart {
        call_id: "call_1".into(),
        tool: "read".into(),
        state,
        metadata: None,
        extra: Extra::new(),
    })))
}

fn parts() -> Vec<EventBody> {
    let (time, input) = (PartTime::span(5, 6), object(json!({ "filePath": "a.txt" })));
    vec![
        part(PartBody::Text(TextPart {
            text: "Hello".into(),
            time: Some(time.clone()),
            ..TextPart::default()
        })),
        part(PartBody::Reasoning(ReasoningPart {
            text: "Hm".into(),
            time: PartTime::started(5),
            metadata: None,
            extra: Extra::new(),
        })),
        tool(ToolState::Pending(ToolPending::default())),
        tool(ToolState::Running(ToolRunning {
            input: input.clone(),
            title: None,
            metadata: None,
            time: PartTime::started(5),
            extra: Extra::new(),
        })),
        tool(ToolState::Completed(ToolCompleted {
            input: input.clone(),
            output: "one".into(),
            title: "a.txt".into(),
            metadata: Extra::new(),
            time: time.clone(),
            attachments: None,
            extra: Extra::new(),
        })),
        tool(ToolState::Error(ToolFailed {
            input,
            error: "Tool execution aborted".into(),
            metadata: Some(object(json!({ "interrupted": true }))),
            time,
            extra: Extra::new(),
        })),
        part(PartBody::StepStart(StepStartPart::default())),
        part(PartBody::StepFinish(StepFinishPart {
            reason: Finish::Stop,
            snapshot: None,
            cost: Number(0.25),
            tokens: Tokens::default(),
            extra: Extra::new(),
        })),
        part(PartBody::Patch(PatchPart {
            hash: "4b825dc".into(),
            files: vec!["/project/a".into()],
            extra: Extra::new(),
        })),
        part(PartBody::Compaction(CompactionPart {
            auto: true,
            overflow: None,
            tail_start_id: None,
            extra: Extra::new(),
        })),
    ]
}

fn status(status: SessionStatus) -> EventBody {
    EventBody::SessionStatus(StatusChanged { session_id: id("ses_1"), status, extra: Extra::new() })
}

fn sessions() -> Vec<EventBody> {
    let info = SessionInfo { session_id: id("ses_1"), info: session(), extra: Extra::new() };
    let only = SessionOnly { session_id: id("ses_1"), extra: Extra::new() };
    let error =
        MessageError::Api(ApiError { message: "no".into(), status_code: Some(400), ..ApiError::default() });
    let diff = FileDiff {
        file: Some("a.txt".into()),
        additions: 1,
        status: Some("modified".into()),
        ..FileDiff::default()
    };
    vec![
        EventBody::SessionCreated(info.clone()),
        EventBody::SessionUpdated(info.clone()),
        EventBody::SessionDeleted(info),
        status(SessionStatus::BUSY),
        status(SessionStatus::retry(1, "Overloaded", 2_000)),
        status(SessionStatus::idle(EndReason::Completed)),
        EventBody::SessionIdle(only.clone()),
        EventBody::SessionError(SessionFailed {
            session_id: Some(id("ses_1")),
            error: Some(error),
            extra: Extra::new(),
        }),
        EventBody::SessionCompacted(only),
        EventBody::SessionDiff(SessionDiffed {
            session_id: id("ses_1"),
            diff: vec![diff],
            extra: Extra::new(),
        }),
        EventBody::TodoUpdated(TodosReplaced {
            session_id: id("ses_1"),
            todos: vec![Todo {
                content: "Write".into(),
                status: "in_progress".into(),
                priority: "high".into(),
                extra: Extra::new(),
            }],
            extra: Extra::new(),
        }),
        EventBody::CommandExecuted(CommandDone {
            name: "init".into(),
            session_id: id("ses_1"),
            arguments: String::new(),
            message_id: id("msg_2"),
            extra: Extra::new(),
        }),
        EventBody::PromptQueued(PromptQueued {
            session_id: id("ses_1"),
            message_id: id("msg_1"),
            delivery: Delivery::Queue,
            extra: Extra::new(),
        }),
        EventBody::PromptStarted(PromptStarted {
            session_id: id("ses_1"),
            message_id: id("msg_1"),
            extra: Extra::new(),
        }),
        EventBody::ContinuationStarted(ContinuationStarted {
            session_id: id("ses_1"),
            message_id: id("msg_3"),
            source: Source::Todo,
            episode: id("msg_1"),
            n: 1,
            open: 2,
            extra: Extra::new(),
        }),
        EventBody::ContinuationCountdown(ContinuationCountdown {
            session_id: id("ses_1"),
            episode: id("msg_1"),
            n: 2,
            open: 2,
            until: 5,
            extra: Extra::new(),
        }),
        EventBody::ContinuationStopped(ContinuationStopped {
            session_id: id("ses_1"),
            reason: StopReason::Stagnant,
            rounds: 2,
            extra: Extra::new(),
        }),
        EventBody::PromptEnded(PromptEnded {
            session_id: id("ses_1"),
            message_id: id("msg_1"),
            reason: EndReason::Aborted,
            extra: Extra::new(),
        }),
        EventBody::SessionSeen(SessionMarked::new(id("ses_1"), 41)),
        EventBody::QueueUpdated(QueueChanged {
            session_id: id("ses_1"),
            queue: vec![Waiting::new(id("msg_1"), Delivery::Queue)],
            extra: Extra::new(),
        }),
    ]
}

fn messages() -> Vec<EventBody> {
    let mut all = vec![message(user()), message(assistant())];
    all.push(EventBody::MessageRemoved(MessageGone {
        session_id: id("ses_1"),
        message_id: id("msg_2"),
        extra: Extra::new(),
    }));
    all.extend(parts());
    all.push(EventBody::PartDelta(PartDelta {
        session_id: id("ses_1"),
        message_id: id("msg_2"),
        part_id: id("prt_1"),
        field: "text".into(),
        delta: "Hel".into(),
        offset: Some(5),
        extra: Extra::new(),
    }));
    all.push(EventBody::PartRemoved(PartGone {
        session_id: id("ses_1"),
        message_id: id("msg_2"),
        part_id: id("prt_1"),
        extra: Extra::new(),
    }));
    all
}

fn requests() -> Vec<EventBody> {
    let tool = Some(ToolRef::new(id("msg_2"), "call_1"));
    let question = Question {
        question: "Which colour?".into(),
        header: "Colour".into(),
        options: vec![QuestionOption { label: "Blue".into(), description: "Calm".into(), extra: Rest::NONE }],
        multiple: Some(false),
        custom: None,
        extra: Extra::new(),
    };
    vec![
        EventBody::PermissionAsked(PermissionRequest {
            id: id("per_1"),
            session_id: id("ses_1"),
            root_id: None,
            permission: "bash".into(),
            patterns: vec!["touch x".into()],
            metadata: object(json!({ "command": "touch x" })),
            always: vec!["touch *".into()],
            tool: tool.clone(),
            deadline: Some(9),
            extra: Extra::new(),
        }),
        EventBody::PermissionReplied(PermissionAnswered {
            session_id: id("ses_1"),
            request_id: id("per_1"),
            reply: PermissionReply::Once,
            unanswered: None,
            saved: Vec::new(),
            by: Some(AnsweredBy::client(Some("web".into()))),
            extra: Extra::new(),
        }),
        EventBody::QuestionAsked(QuestionRequest {
            id: id("que_1"),
            session_id: id("ses_1"),
            root_id: None,
            questions: vec![question],
            tool,
            deadline: None,
            extra: Extra::new(),
        }),
        EventBody::QuestionReplied(QuestionAnswered {
            session_id: id("ses_1"),
            request_id: id("que_1"),
            answers: vec![vec!["Blue".into()]],
            by: None,
            extra: Extra::new(),
        }),
        EventBody::QuestionRejected(QuestionDismissed {
            session_id: id("ses_1"),
            request_id: id("que_1"),
            unanswered: None,
            by: Some(AnsweredBy::new(AnswerKind::Server)),
            extra: Extra::new(),
        }),
    ]
}

fn environment() -> Vec<EventBody> {
    let project = Project {
        id: "global".into(),
        worktree: "/".into(),
        vcs: None,
        name: None,
        icon: None,
        commands: None,
        time: ProjectTime { created: 1, updated: 2, initialized: None, extra: Extra::new() },
        sandboxes: Vec::new(),
        extra: Extra::new(),
    };
    vec![
        EventBody::FileEdited(FileChanged { file: "/project/a".into(), extra: Extra::new() }),
        EventBody::FileWatcherUpdated(FileWatched {
            file: "/project/a".into(),
            event: "change".into(),
            extra: Extra::new(),
        }),
        EventBody::LspUpdated(Extra::new()),
        EventBody::McpToolsChanged(object(json!({ "server": "db" }))),
        EventBody::McpBrowserOpenFailed(object(json!({ "mcpName": "db", "url": "https://login.test" }))),
        EventBody::VcsBranchUpdated(object(json!({ "branch": "main" }))),
        EventBody::PtyCreated(object(json!({ "info": { "id": "pty_1" } }))),
        EventBody::PtyUpdated(object(json!({ "info": { "id": "pty_1" } }))),
        EventBody::PtyExited(object(json!({ "id": "pty_1", "exitCode": 0 }))),
        EventBody::PtyDeleted(object(json!({ "id": "pty_1" }))),
        EventBody::TuiPromptAppend(object(json!({ "text": "hello" }))),
        EventBody::TuiCommandExecute(object(json!({ "command": "session.list" }))),
        EventBody::TuiToastShow(object(json!({ "message": "Saved", "variant": "info" }))),
        EventBody::TuiSessionSelect(object(json!({ "sessionID": "ses_1" }))),
        EventBody::ProjectUpdated(project),
        EventBody::ProjectDirectoriesUpdated(object(json!({ "projectID": "global" }))),
        EventBody::InstallationUpdated(object(json!({ "version": "0.2.0" }))),
        EventBody::InstallationUpdateAvailable(object(json!({ "version": "0.2.0" }))),
        EventBody::WorktreeReady(object(json!({ "name": "tidy-comet", "branch": "tidy-comet" }))),
        EventBody::WorktreeFailed(object(json!({ "message": "no" }))),
        EventBody::WorkspaceReady(object(json!({ "name": "one" }))),
        EventBody::WorkspaceFailed(object(json!({ "message": "no" }))),
        EventBody::WorkspaceStatus(object(json!({ "workspaceID": "wrk_1", "status": "connected" }))),
        EventBody::ServerInstanceDisposed(object(json!({ "directory": "/project" }))),
        EventBody::GlobalDisposed(Extra::new()),
        EventBody::ServerConnected(Connected::new(Some(41))),
        EventBody::ServerReady(Ready::new(42)),
        EventBody::ServerHeartbeat(Extra::new()),
        EventBody::ServerResync(Resync { oldest: 42, extra: Extra::new() }),
        EventBody::ModelsDevRefreshed(Extra::new()),
        EventBody::IntegrationUpdated(Extra::new()),
        EventBody::IntegrationConnectionUpdated(object(json!({ "integrationID": "github" }))),
        EventBody::CatalogUpdated(Extra::new()),
        EventBody::ReferenceUpdated(Extra::new()),
        EventBody::PluginAdded(object(json!({ "id": "notify" }))),
    ]
}

fn examples() -> Vec<Event> {
    let bodies = [sessions(), messages(), requests(), environment()].into_iter().flatten();
    bodies.map(|body| Event::new(id("evt_1"), body)).collect()
}

#[test]
fn every_event_type_is_written_as_recorded_here() {
    let lines: Vec<_> = examples().iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_event_type_has_an_example() {
    let examples = examples();
    for kind in EventBody::KINDS {
        assert!(examples.iter().any(|event| event.body.kind() == *kind), "{kind}");
    }
}

#[test]
fn every_example_survives_a_round_trip() {
    for event in examples() {
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}
