//! One generated call.

use axum::{body::Body, http::Request};
use http::header;
use serde_json::{Value, json};
use server::extract::{MAX_BODY, MAX_NESTING};
use testkit::dice::Dice;

use super::values::{self, pick};
use crate::schema::Schemas;

/// Items that exist on the server.
#[derive(Debug)]
pub(crate) struct Known {
    /// An idle session.
    pub(crate) session: String,
    /// The session that waits for an answer to the permission.
    pub(crate) asking: String,
    /// The session that waits for the question.
    pub(crate) posing: String,
    pub(crate) message: String,
    pub(crate) part: Value,
    pub(crate) permission: String,
    pub(crate) question: String,
    /// Empty unless the operation needs one.
    pub(crate) terminal: String,
    /// Empty unless the operation needs one.
    pub(crate) worktree: String,
    pub(crate) directory: String,
}

/// A generated call before it is sent.
pub(crate) struct Call {
    method: String,
    uri: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(500).collect();
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name, String::from_utf8_lossy(value))).collect();
        write!(out, "{} {} {headers:?} {body}", self.method, self.uri)
    }
}

/// Path segments that are no id of any item.
const JUNK: [&str; 12] = [
    "x",
    "..",
    "%2e%2e%2f%2e%2e",
    "%00",
    "%ff%fe",
    "ses",
    "msg_%20",
    "ses_%F0%9F%92%A9",
    "'%20OR%201=1",
    "{id}",
    "null",
    "-1",
];

/// Paths that are not directories.
const PLACES: [&str; 9] = [
    "relative",
    "../../../etc",
    "/etc/passwd",
    "/%00",
    "%ff",
    "/no/such/place",
    "/etc/../etc/passwd/..",
    "~",
    "//",
];

impl Call {
    /// Generates a call of an operation: most pieces valid, some invalid.
    pub(crate) fn invent(
        dice: &mut Dice,
        schemas: &Schemas<'_>,
        known: &Known,
        method: &str,
        path: &str,
        operation: &Value,
    ) -> Self {
        let file = if dice.roll(4) == 0 { pick(dice, &JUNK) } else { &"hello" };
        let mut uri = path.replace("/*", &format!("/{file}"));
        let (mut query, mut headers) = (Vec::new(), Vec::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            match parameter["in"].as_str().unwrap() {
                "path" => uri = uri.replace(&format!("{{{name}}}"), &id(dice, known, path, name)),
                // Required parameters are omitted now and then.
                "query" if (dice.roll(4) == 0) != (parameter["required"] == true) => {
                    let value = query_value(dice, schemas, known, name, &parameter["schema"]);
                    query.push(format!("{name}={value}"));
                }
                "header" if name == "x-baton-client" => {
                    headers.push((
                        "x-baton-client",
                        pick(dice, &["web", " ", "\u{e9}", "x y"]).as_bytes().to_vec(),
                    ));
                }
                "header" if dice.roll(8) == 0 => {
                    headers.push(("x-opencode-directory", place(dice, known).into()));
                }
                _ => {}
            }
        }
        if path.ends_with("/connect-token") && dice.roll(2) == 0 {
            headers.push(("x-opencode-ticket", b"1".to_vec()));
        }
        if dice.roll(20) == 0 {
            query.push("directory=/&directory=/tmp".into());
        }
        if !query.is_empty() {
            uri = format!("{uri}?{}", query.join("&"));
        }
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let body = if schema.is_null() { Vec::new() } else { body(dice, schemas, known, schema) };
        let kind: &str = if dice.roll(30) == 0 { "text/plain" } else { "application/json" };
        if !body.is_empty() || dice.roll(2) == 0 {
            headers.push(("content-type", kind.into()));
        }
        Self { method: method.to_owned(), uri, headers, body }
    }

    pub(crate) fn build(&self) -> Request<Body> {
        let mut call = Request::builder().method(self.method.as_str()).uri(&self.uri);
        for (name, value) in &self.headers {
            call = call.header(*name, value.as_slice());
        }
        if !self.body.is_empty() {
            call = call.header(header::CONTENT_LENGTH, self.body.len());
        }
        call.body(Body::from(self.body.clone())).unwrap()
    }
}

fn id(dice: &mut Dice, known: &Known, path: &str, name: &str) -> String {
    match dice.roll(10) {
        _ if name == "projectID" => {
            pick(dice, &["global", "global", "global", "unknown", "%00", "%ff", ".."]).to_string()
        }
        0 => pick(dice, &JUNK).to_string(),
        1 => format!("{}_{}", kind(path, name), "a".repeat(300)),
        2 => format!("{}_unknown", kind(path, name)),
        _ => match kind(path, name) {
            _ if path.starts_with("/mcp/") => "db".to_owned(),
            "ses" if path.contains("/permission") => known.asking.clone(),
            "ses" if path.contains("/question/") => known.posing.clone(),
            "ses" => known.session.clone(),
            "msg" => known.message.clone(),
            "prt" => known.part["id"].as_str().unwrap().to_owned(),
            "per" => known.permission.clone(),
            "psv" => "psv_none".to_owned(),
            "demo" => "demo".to_owned(),
            "pty" => known.terminal.clone(),
            _ => known.question.clone(),
        },
    }
}

fn kind(path: &str, name: &str) -> &'static str {
    match name {
        "sessionID" => "ses",
        "messageID" => "msg",
        "partID" => "prt",
        "permissionID" => "per",
        "providerID" | "integrationID" => "demo",
        "ptyID" => "pty",
        _ if path.starts_with("/api/permission/saved") => "psv",
        _ if path.contains("/permission/") => "per",
        _ => "que",
    }
}

fn place(dice: &mut Dice, known: &Known) -> String {
    if dice.roll(2) == 0 { known.directory.clone() } else { pick(dice, &PLACES).to_string() }
}

/// A query value, escaped so that it arrives unchanged.
fn query_value(dice: &mut Dice, schemas: &Schemas<'_>, known: &Known, name: &str, schema: &Value) -> String {
    if name == "directory" {
        return place(dice, known);
    }
    // The first is the directory itself, the second a file in it.
    if name == "path" && dice.roll(2) == 0 {
        return pick(dice, &["", "hello"]).to_string();
    }
    if name == "messageID" && dice.roll(2) == 0 {
        return known.message.clone();
    }
    let value =
        if dice.roll(3) == 0 { values::junk(dice) } else { values::fitting(dice, schemas, schema, 0) };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().take(2_000).map(escape).collect()
}

fn body(dice: &mut Dice, schemas: &Schemas<'_>, known: &Known, schema: &Value) -> Vec<u8> {
    let mut value = values::fitting(dice, schemas, schema, 0);
    // A replaced part must be the one in the path.
    if value.get("sessionID").is_some() && dice.roll(2) == 0 {
        value = known.part.clone();
    }
    // The model must exist.
    if value.get("modelID").is_some() && dice.roll(2) == 0 {
        value["providerID"] = json!("demo");
        value["modelID"] = json!("demo");
    }
    if value.pointer("/model/id").is_some() && dice.roll(2) == 0 {
        value["model"] = json!({ "providerID": "demo", "id": "demo" });
    }
    // A command of the terminal interface must be known, and a patch valid for git.
    let names: Vec<_> = value.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect();
    // An undo must begin with an existing message.
    if !names.is_empty()
        && names.iter().all(|name| ["messageID", "partID", "files"].contains(&name.as_str()))
        && dice.roll(2) == 0
    {
        value = json!({ "messageID": known.message });
    }
    if names.iter().any(|name| name == "arguments") && dice.roll(2) == 0 {
        value = json!({ "command": "hello", "arguments": "hello" });
    }
    if names == ["directory"] && dice.roll(2) == 0 {
        value["directory"] = json!(known.worktree);
    }
    if names == ["command"] && dice.roll(2) == 0 {
        value["command"] = json!("session_new");
    }
    if names == ["patch"] && dice.roll(2) == 0 {
        let name = dice.roll(1_000_000);
        value["patch"] = json!(format!("--- /dev/null\n+++ b/new{name}\n@@ -0,0 +1 @@\n+new\n"));
    }
    match dice.roll(16) {
        0 => Vec::new(),
        1 => {
            let text = value.to_string();
            text.as_bytes()[..text.len() / 2].to_vec()
        }
        2 => [b"{\"parts\": \"", [0xff, 0xfe].as_slice(), b"\"}"].concat(),
        3 => {
            let depth = usize::try_from(dice.roll(400)).unwrap() + MAX_NESTING;
            [b"{\"metadata\":".repeat(depth), b"1".to_vec(), b"}".repeat(depth)].concat()
        }
        4 => {
            let part = json!({ "type": "text", "text": "x" });
            json!({ "parts": vec![part; 1_001] }).to_string().into()
        }
        5 if dice.roll(20) == 0 => vec![b' '; MAX_BODY + 1],
        6..=9 => {
            values::spoil(dice, &mut value);
            value.to_string().into()
        }
        _ => value.to_string().into(),
    }
}
