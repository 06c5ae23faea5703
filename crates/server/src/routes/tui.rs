//! Remote control of the terminal UI. Each call becomes a live event of the directory. A terminal UI that polls
//! receives the calls themselves.

mod control;

use axum::{Json, extract::State};
use protocol::{EventBody, Extra, SessionId, wire_error::BadRequestKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory},
    openapi::{Class, Route},
    remote::Call,
};

/// Default duration of a toast in milliseconds.
const USUAL_DURATION: u64 = 5_000;

/// Command names of older clients and the current names.
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

/// Calls that run one command: path, operation, command, summary.
const SHORTCUTS: [(&str, &str, &str, &str); 6] = [
    ("/tui/open-help", "tui.openHelp", "help.show", "Open the help"),
    ("/tui/open-sessions", "tui.openSessions", "session.list", "Open the list of sessions"),
    ("/tui/open-themes", "tui.openThemes", "theme.switch", "Open the list of themes"),
    ("/tui/open-models", "tui.openModels", "model.list", "Open the list of models"),
    ("/tui/submit-prompt", "tui.submitPrompt", "prompt.submit", "Submit the text in the prompt"),
    ("/tui/clear-prompt", "tui.clearPrompt", "prompt.clear", "Clear the prompt"),
];

pub(super) fn routes() -> Vec<Route> {
    let shortcut = |(path, id, command, summary)| {
        let run = async move |State(app): State<App>, directory: Directory| {
            let event = EventBody::TuiCommandExecute(properties(json!({ "command": command })));
            publish(&app, &directory, Call { path, body: json!({}) }, event).await
        };
        Route::post(Class::Directory, path, id, run).summary(summary)
    };
    let mut routes = vec![
        Route::post(Class::Directory, "/tui/append-prompt", "tui.appendPrompt", append_prompt)
            .summary("Append text to the prompt"),
    ];
    routes.extend(SHORTCUTS.map(shortcut));
    routes.extend([
        Route::post(Class::Directory, "/tui/execute-command", "tui.executeCommand", execute)
            .summary("Run a command of the terminal UI"),
        Route::post(Class::Directory, "/tui/show-toast", "tui.showToast", toast).summary("Show a toast"),
        Route::post(Class::Directory, "/tui/publish", "tui.publish", pass_on)
            .summary("Publish an event of the terminal UI"),
        Route::post(Class::Directory, "/tui/select-session", "tui.selectSession", select)
            .summary("Open a session")
            .faults(&[Fault::NotFound]),
    ]);
    routes.extend(control::routes());
    routes
}

async fn publish(app: &App, directory: &Directory, call: Call, event: EventBody) -> Json<bool> {
    let place = app.projects.find(&directory.path).await;
    app.remote.called(&place.directory, call);
    let place = app.sessions.place_in(place.directory, place.project);
    app.sessions.publish(Some(&place), event);
    Json(true)
}

/// Builds the call that a polling terminal UI receives.
fn call(path: &'static str, body: &impl Serialize) -> Call {
    // The bodies hold only text and numbers, so serialisation cannot fail.
    Call { path, body: serde_json::to_value(body).unwrap_or_default() }
}

fn properties(value: Value) -> Extra {
    match value {
        Value::Object(fields) => fields,
        _ => Extra::new(),
    }
}

/// Text to append to the prompt.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct AppendInput {
    text: String,
}

async fn append_prompt(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<AppendInput>,
) -> Json<bool> {
    publish(&app, &directory, call("/tui/append-prompt", &input), Said::Append(input).into()).await
}

/// A command of the terminal UI.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct CommandInput {
    /// Name of the command.
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
        let message = format!("command: unknown command {:?}; an example is \"session_new\"", input.command);
        return Err(Error::bad_request(BadRequestKind::Payload, message));
    };
    let event = Said::Execute(CommandInput { command: command.to_owned() }).into();
    Ok(publish(&app, &directory, call("/tui/execute-command", &input), event).await)
}

/// A toast to show.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct ToastInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    message: String,
    variant: Variant,
    /// Duration in milliseconds. Default: 5,000.
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
        Some(0) => Err(Error::bad_request(BadRequestKind::Payload, "duration: must be greater than 0")),
        duration => Ok(ToastInput { duration: duration.or(Some(USUAL_DURATION)), ..toast }),
    }
}

/// A session to open in the terminal UI.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct SelectInput {
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

/// An event of the terminal UI that clients may publish.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "properties")]
enum Said {
    /// Appends text to the prompt.
    #[serde(rename = "tui.prompt.append")]
    Append(AppendInput),
    /// Runs a command.
    #[serde(rename = "tui.command.execute")]
    Execute(CommandInput),
    /// Shows a toast.
    #[serde(rename = "tui.toast.show")]
    Toast(ToastInput),
    /// Opens a session.
    #[serde(rename = "tui.session.select")]
    Select(SelectInput),
}

impl From<Said> for EventBody {
    fn from(said: Said) -> Self {
        // The properties hold only text and numbers, so serialisation cannot fail.
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
