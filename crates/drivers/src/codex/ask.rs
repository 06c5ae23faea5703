//! Converts the requests of Codex into permissions and questions, and the user's answers into replies.

use protocol::agent_event::{Answer, Ask};
use protocol::request::{PermissionReply, Question, QuestionOption};
use protocol::{Extra, Rest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::translate::{Translation, command_line, relative};
use super::wire;

/// Asks for permission to run a command.
pub(super) const COMMAND: &str = "item/commandExecution/requestApproval";
/// Asks for permission to change files.
pub(super) const CHANGE: &str = "item/fileChange/requestApproval";
/// Asks for permissions beyond the sandbox.
pub(super) const PERMISSIONS: &str = "item/permissions/requestApproval";
/// Asks the user questions.
pub(super) const QUESTION: &str = "item/tool/requestUserInput";
/// An MCP server asks the user.
pub(super) const ELICITATION: &str = "mcpServer/elicitation/request";

/// The methods that Baton answers.
pub(super) const METHODS: &[&str] = &[COMMAND, CHANGE, PERMISSIONS, QUESTION, ELICITATION];

/// A request of Codex that waits for the user.
#[derive(Debug, PartialEq)]
pub(super) struct UserRequest {
    pub(super) ask: Ask,
    form: Form,
}

/// The shape of the reply.
#[derive(Debug, PartialEq)]
enum Form {
    Decision,
    Permissions(Value),
    /// The ids of the questions.
    Answers(Vec<String>),
    Elicitation,
}

/// The reply to Codex, and its consequences for the turn.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) result: Value,
    /// True if the user refused, which ends the turn.
    pub(super) refused: bool,
    /// The user's instruction to do something else instead.
    pub(super) correction: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    item_id: String,
    command: Option<String>,
    command_actions: Option<Vec<wire::Action>>,
    cwd: Option<String>,
    reason: Option<String>,
    proposed_execpolicy_amendment: Option<Vec<String>>,
    grant_root: Option<String>,
    permissions: Value,
    questions: Vec<Asked>,
    message: String,
    server_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Asked {
    id: String,
    header: String,
    question: String,
    is_other: Option<bool>,
    options: Option<Vec<Choice>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice {
    label: String,
    description: String,
}

/// Decodes a request of Codex.
pub(super) fn user_request(
    method: &str,
    params: Value,
    translation: &Translation,
    directory: &str,
) -> Result<UserRequest, String> {
    let params: Params = wire::read(method, params)?;
    let call = Some(params.item_id.clone()).filter(|call| !call.is_empty());
    Ok(match method {
        COMMAND => UserRequest { ask: command(&params, call), form: Form::Decision },
        CHANGE => UserRequest { ask: change(params, call, translation, directory), form: Form::Decision },
        PERMISSIONS => {
            let mut metadata = noted(&params);
            metadata.insert("permissions".into(), params.permissions.clone());
            let ask = permission("codex_permissions", vec!["*".into()], vec!["*".into()], metadata, call);
            UserRequest { ask, form: Form::Permissions(params.permissions) }
        }
        QUESTION => {
            let names = params.questions.iter().map(|question| question.id.clone()).collect();
            let questions = params.questions.into_iter().map(question).collect();
            UserRequest { ask: Ask::Question { questions, call }, form: Form::Answers(names) }
        }
        _ => {
            let server = params.server_name.clone().unwrap_or_else(|| "mcp".into());
            let metadata = Extra::from_iter([("message".to_owned(), params.message.into())]);
            let ask = permission("codex_elicitation", vec![server.clone()], vec![server], metadata, None);
            UserRequest { ask, form: Form::Elicitation }
        }
    })
}

fn command(params: &Params, call: Option<String>) -> Ask {
    let actions = params.command_actions.as_deref().unwrap_or_default().iter();
    let whole = params.command.as_deref().unwrap_or_default();
    let line = command_line(whole, actions.map(|action| action.command.as_str()));
    let always = match params.proposed_execpolicy_amendment.as_deref() {
        Some([]) | None => line.clone(),
        Some(words) => format!("{} *", words.join(" ")),
    };
    let mut metadata = noted(params);
    metadata.insert("command".into(), line.as_str().into());
    permission("bash", vec![line], vec![always], metadata, call)
}

fn change(params: Params, call: Option<String>, translation: &Translation, directory: &str) -> Ask {
    let tool = translation.tool(&params.item_id);
    let mut metadata = noted(&params);
    let mut files: Vec<String> = tool
        .map(|tool| tool.files.iter().map(|file| relative(file, directory).to_owned()).collect())
        .unwrap_or_default();
    if let Some(tool) = tool {
        metadata.extend(tool.metadata.clone());
        metadata.insert("filepath".into(), tool.title.as_str().into());
    }
    if files.is_empty() {
        files.push(params.grant_root.unwrap_or_else(|| "*".into()));
    }
    permission("edit", files, vec!["*".into()], metadata, call)
}

fn noted(params: &Params) -> Extra {
    let facts = [("reason", &params.reason), ("cwd", &params.cwd)];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact.as_deref()?.into()))).collect()
}

fn permission(
    permission: &str,
    patterns: Vec<String>,
    always: Vec<String>,
    metadata: Extra,
    call: Option<String>,
) -> Ask {
    Ask::Permission { permission: permission.into(), patterns, metadata, always, call }
}

fn question(asked: Asked) -> Question {
    let option =
        |it: Choice| QuestionOption { label: it.label, description: it.description, extra: Rest::NONE };
    Question {
        question: asked.question,
        header: asked.header,
        options: asked.options.unwrap_or_default().into_iter().map(option).collect(),
        multiple: None,
        custom: asked.is_other,
        extra: Extra::new(),
    }
}

impl UserRequest {
    /// Converts the user's answer into the reply.
    pub(super) fn reply(self, answer: Answer) -> Reply {
        let reply = |result, refused| Reply { result, refused, correction: None };
        match (self.form, answer) {
            (Form::Answers(names), Answer::Answers(answers)) => {
                let answers = names
                    .into_iter()
                    .zip(answers)
                    .map(|(name, answers)| (name, json!({ "answers": answers })));
                reply(json!({ "answers": answers.collect::<Extra>() }), false)
            }
            (Form::Answers(_), _) => reply(json!({ "answers": {} }), true),
            (form, Answer::Once | Answer::Default(PermissionReply::Once)) => reply(form.yes(false), false),
            (form, Answer::Always | Answer::Default(PermissionReply::Always)) => reply(form.yes(true), false),
            (form, Answer::Rejected { message: Some(message) }) => {
                Reply { result: form.no(false), refused: false, correction: Some(message) }
            }
            (form, Answer::Default(PermissionReply::Reject)) => reply(form.no(false), false),
            (form, Answer::Rejected { message: None } | Answer::Withdrawn | Answer::Answers(_)) => {
                reply(form.no(true), true)
            }
        }
    }
}

impl Form {
    fn yes(self, always: bool) -> Value {
        match self {
            Self::Permissions(permissions) => {
                json!({ "permissions": permissions, "scope": if always { "session" } else { "turn" } })
            }
            Self::Elicitation => json!({ "action": "accept", "content": {} }),
            Self::Decision | Self::Answers(_) => {
                json!({ "decision": if always { "acceptForSession" } else { "accept" } })
            }
        }
    }

    /// The reply that refuses. `cancel` ends the turn, `decline` does not.
    fn no(self, end: bool) -> Value {
        match self {
            Self::Permissions(_) => json!({ "permissions": {}, "scope": "turn" }),
            Self::Elicitation => json!({ "action": if end { "cancel" } else { "decline" } }),
            Self::Decision | Self::Answers(_) => {
                json!({ "decision": if end { "cancel" } else { "decline" } })
            }
        }
    }
}
