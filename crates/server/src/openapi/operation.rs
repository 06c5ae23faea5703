//! One operation of the document under construction.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::Schemas;
use crate::{
    error::{Family, Fault},
    extract::FromPath,
};

/// Query parameters that OpenCode's clients add to every call except global ones.
const LOCATION: [(&str, &str); 2] = [
    ("directory", "The directory of the call; by default the one in which the server was started."),
    (
        "workspace",
        "The workspace of the call, where several servers share a record; other ids have no effect.",
    ),
];

/// One operation of the document.
#[derive(Debug)]
pub struct Operation {
    path: &'static str,
    schemas: Schemas,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
    /// Possible errors by status.
    faults: BTreeMap<u16, Vec<Fault>>,
}

impl Operation {
    pub(super) fn new(path: &'static str, schemas: Schemas) -> Self {
        let (parameters, body, answers, faults) = (Vec::new(), None, BTreeMap::new(), BTreeMap::new());
        Self { path, schemas, parameters, body, answers, faults }
    }

    /// Adds the path parameters.
    pub(crate) fn takes_path<T: FromPath>(&mut self) {
        let schemas = T::schemas(&mut self.schemas);
        let parameters = names(self.path).zip(schemas).map(|(name, schema)| parameter(name, "path", schema));
        self.parameters.extend(parameters);
    }

    /// Adds path parameters of type string.
    pub(crate) fn takes_names(&mut self) {
        let name = |name| parameter(name, "path", json!({ "type": "string" }));
        self.parameters.extend(names(self.path).map(name));
    }

    /// Adds the fields of `T` as query parameters.
    pub(crate) fn takes_query<T: JsonSchema>(&mut self) {
        let schema = self.schemas.fields::<T>();
        let required = schema.get("required").cloned().unwrap_or_default();
        let Some(Value::Object(fields)) = schema.get("properties") else { return };
        for (name, schema) in fields {
            let mut parameter = parameter(name, "query", schema.clone());
            if required.as_array().is_some_and(|required| required.contains(&json!(name)))
                && let Value::Object(parameter) = &mut parameter
            {
                parameter.insert("required".into(), true.into());
            }
            self.parameters.push(parameter);
        }
    }

    /// Adds the header that names the directory.
    pub(crate) fn takes_directory(&mut self) {
        const HEADER: &str = "x-opencode-directory";
        // Handlers may extract both the directory and its instance.
        if self.parameters.iter().all(|known| known["name"] != HEADER) {
            let text = "Same as `directory`, URL-encoded; the query takes precedence.";
            let schema = json!({ "type": "string", "description": text });
            self.parameters.push(parameter(HEADER, "header", schema));
        }
    }

    /// Adds the header in which a client names itself.
    pub(crate) fn takes_client_name(&mut self) {
        let text = "Name of the client, up to 64 characters, which other clients see beside its answer.";
        let schema = json!({ "type": "string", "description": text });
        self.parameters.push(parameter("x-baton-client", "header", schema));
    }

    /// Adds the parameters of a WebSocket. Clients write its address as text, so there are no object
    /// parameters.
    pub(crate) fn takes_socket(&mut self) {
        if self.path.starts_with("/api/") {
            for (name, text) in LOCATION {
                let schema = json!({ "type": "string", "description": text });
                self.parameters.push(parameter(&format!("location[{name}]"), "query", schema));
            }
        }
    }

    /// Adds a JSON body.
    pub(crate) fn takes_body<T: JsonSchema>(&mut self, required: bool) {
        let schema = self.schemas.taken::<T>();
        self.body = Some(json!({ "content": json_content(schema), "required": required }));
    }

    /// Adds a JSON response with optional headers.
    pub fn gives<T: JsonSchema>(&mut self, headers: &[(&str, &str)]) {
        let schema = self.schemas.given::<T>();
        let mut answer = json!({ "description": "Success", "content": json_content(schema) });
        if !headers.is_empty()
            && let Value::Object(answer) = &mut answer
        {
            let header = |text: &str| json!({ "description": text, "schema": { "type": "string" } });
            let headers: Map<_, _> =
                headers.iter().map(|(name, text)| ((*name).into(), header(text))).collect();
            answer.insert("headers".into(), headers.into());
        }
        self.answers.insert(200, answer);
    }

    /// Adds an empty success response.
    pub(crate) fn gives_nothing(&mut self, description: &str) {
        self.answers.insert(204, json!({ "description": description }));
    }

    /// Adds a stream of server-sent events.
    pub fn streams<T: JsonSchema>(&mut self) {
        let schema = self.schemas.given::<T>();
        let content = json!({ "text/event-stream": { "schema": schema } });
        self.answers.insert(200, json!({ "description": "Stream of events", "content": content }));
    }

    /// Adds metrics in the format of Prometheus.
    pub(crate) fn gives_metrics(&mut self) {
        let content = json!({ "application/openmetrics-text": { "schema": { "type": "string" } } });
        self.answers.insert(200, json!({ "description": "Success", "content": content }));
    }

    /// Adds a text response of this content type.
    pub(crate) fn gives_text(&mut self, kind: &str) {
        let content = json!({ kind: { "schema": { "type": "string" } } });
        self.answers.insert(200, json!({ "description": "Success", "content": content }));
    }

    /// Adds a possible error.
    pub fn fails(&mut self, fault: Fault) {
        let faults = self.faults.entry(fault.status().as_u16()).or_default();
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }

    /// Returns the finished operation, and the schemas for the next one.
    pub(super) fn finish(mut self, id: &str, summary: &str) -> (Value, Schemas) {
        self.locate();
        for (status, faults) in std::mem::take(&mut self.faults) {
            let names: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
            let family = Family::of(self.path);
            let mut shapes: Vec<Value> =
                faults.into_iter().map(|fault| self.schemas.fault(family, fault)).collect();
            shapes.dedup();
            let schema = match shapes.pop() {
                Some(only) if shapes.is_empty() => only,
                last => json!({ "anyOf": shapes.into_iter().chain(last).collect::<Vec<_>>() }),
            };
            let answer = json!({ "description": names.join(" | "), "content": json_content(schema) });
            self.answers.insert(status, answer);
        }
        let answers: Map<_, _> =
            self.answers.into_iter().map(|(status, it)| (status.to_string(), it)).collect();
        let group = self.path.split('/').nth(1).unwrap_or_default();
        let mut operation = json!({ "tags": [group], "operationId": id, "summary": summary });
        if let Value::Object(operation) = &mut operation {
            if !self.parameters.is_empty() {
                operation.insert("parameters".into(), self.parameters.into());
            }
            if let Some(body) = self.body {
                operation.insert("requestBody".into(), body);
            }
            operation.insert("responses".into(), answers.into());
        }
        (operation, self.schemas)
    }

    /// Adds the directory parameters. Session routes use the session's own directory instead, but clients send
    /// them.
    fn locate(&mut self) {
        if ["/global/", "/doc", "/metrics"].iter().any(|global| self.path.starts_with(global)) {
            return;
        }
        if self.path.starts_with("/api/") {
            let schema = json!({
                "type": "object",
                "description": "`location[directory]` means the same as `directory`, in the newer form.",
                "properties": { "directory": { "type": "string" }, "workspace": { "type": "string" } },
            });
            self.parameters.push(parameter("location", "query", schema));
        }
        for (name, text) in LOCATION {
            let schema = json!({ "type": "string", "description": text });
            self.parameters.push(parameter(name, "query", schema));
        }
    }
}

/// Names in the braces of a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}'))
}

fn json_content(schema: impl Into<Value>) -> Value {
    json!({ "application/json": { "schema": schema.into() } })
}

fn parameter(name: &str, place: &str, schema: impl Into<Value>) -> Value {
    let mut schema: Value = schema.into();
    let mut parameter = json!({ "name": name, "in": place, "required": place == "path" });
    if let (Value::Object(parameter), Value::Object(schema)) = (&mut parameter, &mut schema) {
        // Moves the description to the parameter, where readers expect it.
        if let Some(description) = schema.remove("description") {
            parameter.insert("description".into(), description);
        }
    }
    if let Value::Object(parameter) = &mut parameter {
        parameter.insert("schema".into(), schema);
    }
    parameter
}
