//! Configuration of external parts: MCP servers, plugins, formatters, language servers and reference directories.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    num::{NonZeroU16, NonZeroU64},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_with_macros::skip_serializing_none;

use super::{Headers, Secret, Settings, Variables};

/// An MCP server: a local program, a remote URL, or a switch for a server that another file defines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Mcp {
    /// A program that Baton starts.
    Local(McpLocal),
    /// A server at a URL.
    Remote(McpRemote),
    /// Enables or disables a server that another file defines.
    Switch(McpSwitch),
}

impl Mcp {
    /// Returns true if the server is enabled, which is the default.
    pub fn enabled(&self) -> bool {
        match self {
            Self::Local(local) => local.enabled.unwrap_or(true),
            Self::Remote(remote) => remote.enabled.unwrap_or(true),
            Self::Switch(switch) => switch.enabled,
        }
    }
}

/// An MCP server that Baton starts as a program.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct McpLocal {
    pub r#type: Local,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory. Default: the project directory.
    pub cwd: Option<String>,
    /// Environment variables. Clients never receive them.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// False to disable the server. Default: true.
    pub enabled: Option<bool>,
    /// Timeout of an answer in milliseconds.
    pub timeout: Option<NonZeroU64>,
}

/// The literal `local`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Local {
    Local,
}

/// An MCP server at a URL.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct McpRemote {
    pub r#type: Remote,
    pub url: String,
    /// HTTP headers of every request.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// OAuth settings, or `false` to disable OAuth.
    pub oauth: Option<McpLogin>,
    /// False to disable the server. Default: true.
    pub enabled: Option<bool>,
    /// Timeout of an answer in milliseconds.
    pub timeout: Option<NonZeroU64>,
}

/// The literal `remote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Remote {
    Remote,
}

/// Enables or disables an MCP server that another file defines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct McpSwitch {
    pub enabled: bool,
}

/// OAuth settings of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum McpLogin {
    /// OAuth is disabled.
    Off(False),
    /// OAuth with these client settings.
    Client(McpClient),
}

/// OAuth client settings for an MCP server.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct McpClient {
    /// Client id. Without one, the client registers itself with the server.
    pub client_id: Option<String>,
    /// Client secret. Clients of Baton never receive it.
    #[serde(skip_serializing)]
    pub client_secret: Option<Secret>,
    /// OAuth scopes to request.
    pub scope: Option<String>,
    /// Local port for the OAuth callback.
    pub callback_port: Option<NonZeroU16>,
    /// Redirect URI of the OAuth callback.
    pub redirect_uri: Option<String>,
}

/// The literal `false`, where `true` is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct False;

impl Serialize for False {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

impl<'de> Deserialize<'de> for False {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? { Err(D::Error::custom("expected `false`")) } else { Ok(Self) }
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

/// A plugin: a package name or a file path, with optional settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PluginEntry", into = "PluginEntry")]
pub struct Plugin {
    /// Package name or file path.
    pub spec: String,
    pub options: Option<Settings>,
}

impl Plugin {
    /// The option with which the user marks a plugin as required. Baton reads it; the plugin does not get it.
    pub const REQUIRED: &str = "baton.required";

    /// Returns true if no turn may run without this plugin.
    pub fn is_required(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.0.get(Self::REQUIRED) == Some(&true.into()))
    }
}

/// A plugin: a package name or file path, or a pair of that and its settings.
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

/// Enables or disables everything, or configures entries by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Toggle<T> {
    /// Enables (`true`) or disables (`false`) everything.
    All(bool),
    /// Settings by name.
    Each(BTreeMap<String, T>),
}

/// A program that formats files.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Formatter {
    pub disabled: Option<bool>,
    /// Program and arguments; `$FILE` stands for the file.
    pub command: Option<Vec<String>>,
    /// Environment variables. Clients never receive them.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// Extensions of the files that it formats, such as `.ts`.
    pub extensions: Option<Vec<String>>,
}

/// A language server.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LanguageServer {
    pub disabled: Option<bool>,
    /// Program and arguments.
    pub command: Option<Vec<String>>,
    /// Environment variables. Clients never receive them.
    #[serde(default, skip_serializing)]
    pub env: Variables,
    /// Extensions of the files that it handles, such as `.ts`.
    pub extensions: Option<Vec<String>>,
    /// Initialization options of the language server protocol.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub initialization: Settings,
}

/// A directory or repository that agents may refer to by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reference {
    /// A path or a repository URL.
    Plain(String),
    Git(GitReference),
    /// A local directory.
    Local(LocalReference),
}

/// A git repository that agents may refer to.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GitReference {
    /// Repository URL.
    pub repository: String,
    /// Branch. Default: the repository's default branch.
    pub branch: Option<String>,
    pub description: Option<String>,
    /// True if clients leave the reference out of their lists.
    pub hidden: Option<bool>,
}

/// A local directory that agents may refer to.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LocalReference {
    pub path: String,
    pub description: Option<String>,
    /// True if clients leave the reference out of their lists.
    pub hidden: Option<bool>,
}
