//! What a configuration brings in from outside: MCP servers, plugins, formatters, language servers and
//! directories to refer to.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    num::{NonZeroU16, NonZeroU64},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Headers, Secret, Settings, Variables};

/// An MCP server: one to start, one to call, or a switch for one that is known from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Mcp {
    /// To start.
    Local(McpLocal),
    /// To call.
    Remote(McpRemote),
    /// Known from elsewhere.
    Switch(McpSwitch),
}

impl Mcp {
    /// Whether it is to be used; it is unless somebody says otherwise.
    pub fn enabled(&self) -> bool {
        match self {
            Self::Local(local) => local.enabled.unwrap_or(true),
            Self::Remote(remote) => remote.enabled.unwrap_or(true),
            Self::Switch(switch) => switch.enabled,
        }
    }
}

/// An MCP server to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct McpLocal {
    /// `local`.
    pub r#type: Local,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it is started; the project's directory unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its variables.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// Whether it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Milliseconds it may take to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<NonZeroU64>,
}

/// The word `local`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Local {
    /// A program here.
    Local,
}

/// An MCP server to call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct McpRemote {
    /// `remote`.
    pub r#type: Remote,
    /// Its address.
    pub url: String,
    /// Headers of calls.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// How to log in, or `false` not to try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpLogin>,
    /// Whether it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Milliseconds it may take to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<NonZeroU64>,
}

/// The word `remote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Remote {
    /// Somewhere else.
    Remote,
}

/// An MCP server known from elsewhere, on or off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct McpSwitch {
    /// Whether it is used.
    pub enabled: bool,
}

/// How to log in at an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum McpLogin {
    /// Not at all.
    Off(False),
    /// As this client.
    Client(McpClient),
}

/// A client known to an MCP server's login.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct McpClient {
    /// Its id; without one it registers itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret.
    #[serde(skip_serializing)]
    pub client_secret: Option<Secret>,
    /// What it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The port it waits on for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<NonZeroU16>,
    /// The address the answer is sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
}

/// The value `false` where the alternative is not `true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct False;

impl Serialize for False {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

impl<'de> Deserialize<'de> for False {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            Err(D::Error::custom("only `false` is allowed"))
        } else {
            Ok(Self)
        }
    }
}

impl JsonSchema for False {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "False".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean", "const": false })
    }
}

/// A plugin: the name of a package, or the path of a file; with settings, if it takes any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PluginEntry", into = "PluginEntry")]
pub struct Plugin {
    /// Which one.
    pub spec: String,
    /// Its settings.
    pub options: Option<Settings>,
}

/// A plugin: the name of a package or the path of a file, or a pair of that and its settings.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum PluginEntry {
    Plain(String),
    WithOptions(String, Settings),
}

impl JsonSchema for Plugin {
    fn schema_name() -> Cow<'static, str> {
        "Plugin".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        PluginEntry::json_schema(generator)
    }
}

impl From<PluginEntry> for Plugin {
    fn from(entry: PluginEntry) -> Self {
        match entry {
            PluginEntry::Plain(spec) => Self { spec, options: None },
            PluginEntry::WithOptions(spec, options) => Self { spec, options: Some(options) },
        }
    }
}

impl From<Plugin> for PluginEntry {
    fn from(plugin: Plugin) -> Self {
        match plugin.options {
            None => Self::Plain(plugin.spec),
            Some(options) => Self::WithOptions(plugin.spec, options),
        }
    }
}

/// Something that can be switched as a whole, or set one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Toggle<T> {
    /// As a whole.
    All(bool),
    /// One by one, by name.
    Each(BTreeMap<String, T>),
}

/// A program that formats files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Formatter {
    /// It is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// The program and its arguments; `$FILE` stands for the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Its variables.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// Ends of the names of files it formats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
}

/// A language server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LanguageServer {
    /// It is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// The program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Its variables.
    #[serde(default, skip_serializing)]
    pub env: Variables,
    /// Ends of the names of files it knows about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
    /// What it is told at the start.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub initialization: Settings,
}

/// A directory that agents may refer to by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reference {
    /// A path or a repository.
    Plain(String),
    /// A repository.
    Git(GitReference),
    /// A directory here.
    Local(LocalReference),
}

/// A repository to refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GitReference {
    /// Its address.
    pub repository: String,
    /// Which branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Not offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
}

/// A directory here to refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LocalReference {
    /// Where it is.
    pub path: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Not offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
}
