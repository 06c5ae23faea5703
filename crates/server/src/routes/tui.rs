//! Remote control of the terminal interface: each call becomes a live event of the directory, which a terminal that
//! follows it acts on. A terminal that rather asks for one call after the other is handed the calls themselves.

mod control;

use axum::{Json, extract::State};
use engine::bus::Place;
use protocol::{EventBody, Extra, SessionId, wire_error::BadRequestKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory},
    openapi::Route,
    remote::Call,
};

/// How long a toast is shown, unless the client says otherwise, in milliseconds.
const USUAL_DURATION: u64 = 5_000;

/// Commands as older clients name them, and as the terminal interface does.
const COMMANDS: [(&str, &str); 15] = [
    ("session_new", "session.new"),
    ("session_share", "session.share"),
    ("session_interrupt", "session.interrupt"),
    ("session_compact", "session.compact"),
    ("messages_page_up", "session.page.up"),
    ("messages_page_down", "session.page.down"),
    ("messages_line_up", "session.line.up"),
    ("messages_line_down", "session.line.down"),
    ("messages_half_page_up", "session.half.page.up"),
    ("messages_half_page_down", "session.half.page.down"),
    ("messages_first", "session.first"),
    ("messages_last", "session.last"),
    ("agent_cycle", "agent.cycle"),
    ("input_clear", "prompt.clear"),
    ("input_submit", "prompt.submit"),
];

/// Calls that are a command: path, operation, command, summary.
const SHORTCUTS: [(&str, &str, &str, &str); 6] = [
    ("/tui/open-help", "tui.openHelp", "help.show", "Open the help"),
    ("/tui/open-sessions", "tui.openSessions", "session.list", "Open the list of sessions"),
    ("/tui/open-themes", "tui.openThemes", "theme.switch", "Open the list of themes"),
    ("/tui/open-models", "tui.openModels", "model.list", "Open the list of models"),
    ("/tui/submit-prompt", "tui.submitPrompt", "prompt.submit", "Submit what stands in the prompt"),
    ("/tui/clear-prompt", "tui.clearPrompt", "prompt.clear", "Clear the prompt"),
];

pub(super) fn routes() -> Vec<Route> {
    let shortcut = |(path, id, command, summary)| {
        let run = async move |State(app): State<App>, directory: Directory| {
            let event = EventBody::TuiCommandExecute(properties(json!({ "command": command })));
            publish(&app, &directory, Call { path, body: json!({}) }, event).await
        };
        Route::post(path, id, run).summary(summary)
    };
    let mut routes = vec![
        Route::post("/tui/append-prompt", "tui.appendPrompt", append_prompt)
            .summary("Write something into the prompt"),
    ];
    routes.extend(SHORTCUTS.map(shortcut));
    routes.extend([
        Route::post("/tui/execute-command", "tui.executeCommand", execute)
            .summary("Run a command of the interface"),
        Route::post("/tui/show-toast", "tui.showToast", toast).summary("Show a message for a moment"),
        Route::post("/tui/publish", "tui.publish", pass_on).summary("Publish one of these events"),
        Route::post("/tui/select-session", "tui.selectSession", select)
            .summary("Open a session")
            .faults(&[Fault::NotFound]),
    ]);
    routes.extend(control::routes());
    routes
}

async fn publish(app: &App, directory: &Directory, call: Call, event: EventBody) -> Json<bool> {
    let place = app.projects.find(&directory.path).await;
    app.remote.called(&place.directory, call);
    let place = Place { directory: place.directory.into(), project: place.project.into() };
    app.sessions.publish(Some(&place), event);
    Json(true)
}

/// What was called, as it was called.
fn call(path: &'static str, body: &impl Serialize) -> Call {
    // Bodies have only text and numbers in them, which can always be written.
    Call { path, body: serde_json::to_value(body).unwrap_or_default() }
}

fn properties(value: Value) -> Extra {
    match value {
        Value::Object(fields) => fields,
        _ => Extra::new(),
    }
}

/// What is written into the prompt.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct AppendInput {
    /// The text.
    text: String,
}

async fn append_prompt(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<AppendInput>,
) -> Json<bool> {
    publish(&app, &directory, call("/tui/append-prompt", &input), Said::Append(input).into()).await
}

/// A command to run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct CommandInput {
    /// Its name.
    command: String,
}

async fn execute(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<CommandInput>,
) -> Result<Json<bool>, Error> {
    let known = COMMANDS.iter().find(|(old, new)| [*old, *new].contains(&input.command.as_str()));
    let shortcut = || SHORTCUTS.iter().find(|(_, _, command, _)| *command == input.command);
    let command = known.map(|(_, new)| *new).or_else(|| shortcut().map(|(_, _, command, _)| *command));
    let Some(command) = command else {
        let message = format!("command: there is no {:?}; one of them is \"session_new\"", input.command);
        return Err(Error::bad_request(BadRequestKind::Payload, message));
    };
    let event = Said::Execute(CommandInput { command: command.to_owned() }).into();
    Ok(publish(&app, &directory, call("/tui/execute-command", &input), event).await)
}

/// A message to show.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct ToastInput {
    /// Above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The message.
    message: String,
    /// How it looks.
    variant: Variant,
    /// How long it is shown, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Variant {
    Info,
    Success,
    Warning,
    Error,
}

async fn toast(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<ToastInput>,
) -> Result<Json<bool>, Error> {
    let toast = checked(input)?;
    Ok(publish(&app, &directory, call("/tui/show-toast", &toast), Said::Toast(toast).into()).await)
}

fn checked(toast: ToastInput) -> Result<ToastInput, Error> {
    match toast.duration {
        Some(0) => Err(Error::bad_request(BadRequestKind::Payload, "duration: it has to be more than 0")),
        duration => Ok(ToastInput { duration: duration.or(Some(USUAL_DURATION)), ..toast }),
    }
}

/// A session to open.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct SelectInput {
    /// The session.
    #[serde(rename = "sessionID")]
    session_id: SessionId,
}

async fn select(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<SelectInput>,
) -> Result<Json<bool>, Error> {
    app.sessions.get(&input.session_id).await?;
    Ok(publish(&app, &directory, call("/tui/select-session", &input), Said::Select(input).into()).await)
}

/// An event that clients may publish.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "properties")]
enum Said {
    /// Write into the prompt.
    #[serde(rename = "tui.prompt.append")]
    Append(AppendInput),
    /// Run a command.
    #[serde(rename = "tui.command.execute")]
    Execute(CommandInput),
    /// Show a message.
    #[serde(rename = "tui.toast.show")]
    Toast(ToastInput),
    /// Open a session.
    #[serde(rename = "tui.session.select")]
    Select(SelectInput),
}

impl From<Said> for EventBody {
    fn from(said: Said) -> Self {
        // These have only text and numbers in them, which can always be written.
        let fields = |value: Result<Value, serde_json::Error>| properties(value.unwrap_or_default());
        match said {
            Said::Append(it) => Self::TuiPromptAppend(fields(serde_json::to_value(it))),
            Said::Execute(it) => Self::TuiCommandExecute(fields(serde_json::to_value(it))),
            Said::Toast(it) => Self::TuiToastShow(fields(serde_json::to_value(it))),
            Said::Select(it) => Self::TuiSessionSelect(fields(serde_json::to_value(it))),
        }
    }
}

async fn pass_on(
    State(app): State<App>,
    directory: Directory,
    Body(said): Body<Said>,
) -> Result<Json<bool>, Error> {
    let said = match said {
        Said::Toast(toast) => Said::Toast(checked(toast)?),
        other => other,
    };
    Ok(publish(&app, &directory, call("/tui/publish", &said), said.into()).await)
}
