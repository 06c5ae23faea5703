//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use crate::{age, environment, exit, logging::Level};

/// `--version` also tells if the binary contains the web page; `-V` prints the version alone.
const LONG_VERSION: &str = if server::web::IS_BUILT {
    concat!(env!("CARGO_PKG_VERSION"), " (with the web page)")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (without the web page)")
};

/// One server for coding agents that always knows when a turn is really over.
#[derive(Debug, Parser)]
#[command(
    name = "baton",
    version,
    long_version = LONG_VERSION,
    max_term_width = 100,
    after_help = format!("{}\n\n{}\n\n{}", exit::CODES, environment::VARIABLES, environment::PLACES)
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Serve(Serve),
    /// Run one turn in the current directory
    #[command(after_help = exit::CODES)]
    Run(Run),
    /// List the models that can be used, as provider/model
    Models(Models),
    /// List sessions, or delete old ones
    Sessions(Sessions),
    /// Watch a stream of events and report where it would mislead a client
    #[command(after_help = "Works with every OpenCode-compatible server, and with recordings of one. \
        Exits with 1 if it finds a violation; warnings alone do not fail the check.")]
    Check(Check),
    /// List the external coding agents that can be used here
    #[command(
        after_help = "Looks for their programs on PATH and at the configured paths. Detects a login by the \
        variables and files that an agent documents, and shows only their names."
    )]
    Agents(Agents),
    /// Talk to sessions from Telegram, Slack and WhatsApp
    #[command(
        after_help = "Without a subcommand it runs until it is stopped. Its settings are under `channels` in \
        the user's own baton.json. Works with every OpenCode-compatible server.\n\n\
        Example of ~/.config/opencode/baton.json, with the token of a bot from Telegram's @BotFather:\n  \
        {\n    \"channels\": {\n      \"directory\": \"/home/ada/project\",\n      \
        \"telegram\": { \"token\": \"{env:TELEGRAM_TOKEN}\", \"allow\": [\"123456789\"] }\n    }\n  }"
    )]
    Channels(Channels),
    /// Trust a project's configuration to run programs and send secrets, or revoke that trust
    #[command(
        after_help = "Plugins, MCP servers, external agents, provider addresses and placeholders in a project's own \
        configuration take effect only in trusted directories. docs/trust.md lists them."
    )]
    Trust(Trust),
    /// Show the nodes that share a database, or let one take no new work
    #[command(
        after_help = "Asks the server of this data directory, or the one at --attach. docs/fleet.md has the details."
    )]
    Nodes(Nodes),
    /// Copy the sessions of a data directory into an empty Postgres database
    #[command(
        after_help = "Stop the server first. Baton compares the copy with the file before it commits the copy. It keeps \
        the file, and marks it so that no server uses it again. Cursors of clients stay valid. docs/fleet.md has the \
        details."
    )]
    Migrate(Migrate),
    #[command(about = "Print the OpenAPI document")]
    Openapi,
    /// Print a script that completes commands and options in a shell
    #[command(
        after_help = "bash: baton completions bash > ~/.local/share/bash-completion/completions/baton\n\
        zsh:  baton completions zsh > a directory of $fpath, as _baton\n\
        fish: baton completions fish > ~/.config/fish/completions/baton.fish"
    )]
    Completions(Completions),
}

#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// Address to listen on; an address that other machines can reach requires a password
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) hostname: String,
    /// Port to listen on; 0 picks a free one [default: 4096, or a free one if that is taken]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Accept browser requests from this origin, such as a development server; repeatable
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) cors: Vec<String>,
    /// Accept this name in the Host header, for instance behind a proxy; repeatable
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Do not serve the web page
    #[arg(long, conflicts_with = "web_dir")]
    pub(crate) no_web: bool,
    /// Serve the web page from this directory, for its development
    #[arg(long, value_name = "DIR")]
    pub(crate) web_dir: Option<PathBuf>,
    /// Also connect sessions to chats, as `baton channels` does
    #[arg(long)]
    pub(crate) channels: bool,
    #[command(flatten)]
    pub(crate) node: Node,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

/// Options of a server that shares its database with others.
#[derive(Debug, Group)]
pub(crate) struct Node {
    /// Share the database of --store with other servers, as the node of this name
    #[arg(long = "node", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// URL at which the other nodes reach this one [default: from --hostname and the port]
    #[arg(long, value_name = "URL", requires = "name")]
    pub(crate) address: Option<String>,
    /// Seconds for which a stopping node lets its turns go on
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub(crate) drain: u64,
}

/// Options of the engine that `serve` and `run` share.
#[derive(Debug, Clone, Default, Group)]
pub(crate) struct Engine {
    /// Directory for the database and all other data [default: the XDG directories]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Keep sessions in this Postgres database instead of a file, as `postgres://USER@HOST/DATABASE`
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<Secret>,
    /// File with additional scenarios for the demo model
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario_file: Option<PathBuf>,
    /// Log to standard error instead of a file
    #[arg(long)]
    pub(crate) print_logs: bool,
    /// Log level
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value_t = Level::Info)]
    pub(crate) log_level: Level,
}

#[derive(Debug, Group)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Run {
    /// The prompt, with or without quotes; piped input follows it, and is the whole prompt if this is `-` or left out
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,
    /// Run this slash command; the prompt is its arguments
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<String>,
    /// Attach this file; repeatable
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// Model to use, as provider/model
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Variant of the model, such as a reasoning effort
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Agent to use
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Work in this directory instead of the current one
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Continue this session
    #[arg(long, short, value_name = "ID", conflicts_with = "resume")]
    pub(crate) session: Option<String>,
    /// Continue the latest session of this directory
    #[arg(long = "continue", short = 'c')]
    pub(crate) resume: bool,
    /// Continue in a copy and leave the session itself as it is; with --session or --continue
    #[arg(long)]
    pub(crate) fork: bool,
    /// Title of the new session [default: the model writes one]
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["session", "resume"])]
    pub(crate) title: Option<String>,
    /// Show the model's reasoning, on standard error
    #[arg(long)]
    pub(crate) thinking: bool,
    /// Output format: text for reading, or JSON with one event per line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Connect to this server instead of running the agent in this process
    #[arg(long, value_name = "URL")]
    pub(crate) attach: Option<String>,
    /// Approve every permission request and answer questions with the first choice
    #[arg(long, short, conflicts_with = "deny")]
    pub(crate) yes: bool,
    /// Deny every permission request and skip questions (the default without a terminal)
    #[arg(long)]
    pub(crate) deny: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Debug, Group)]
pub(crate) struct Models {
    /// List only models whose name contains this
    #[arg(value_name = "WORD")]
    pub(crate) word: Option<String>,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// The server or data directory that a command looks at.
#[derive(Debug, Group)]
pub(crate) struct Target {
    /// Server to ask [default: the server of this data directory, if it runs]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) attach: Option<String>,
    /// Directory for the database and all other data [default: the XDG directories]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) action: Option<SessionsAction>,
    /// Include the sessions of all directories
    #[arg(long, global = true)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// List at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// Delete the sessions of this directory (with --all: of all) that were not used for a while
    Prune(Prune),
}

#[derive(Debug, Clone, Copy, Group)]
pub(crate) struct Prune {
    /// Age since the last use, such as 30d, 12h or 2w
    #[arg(long, value_name = "AGE", value_parser = age::parse)]
    pub(crate) older_than: Duration,
    /// List the sessions that would be deleted, and delete none
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Nodes {
    #[command(subcommand)]
    pub(crate) action: Option<NodesAction>,
    /// List the directories of all nodes instead
    #[arg(long)]
    pub(crate) workspaces: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodesAction {
    /// Let a node finish its turns and take no new sessions and prompts
    Drain(OneNode),
    /// Let a drained node take new work again
    Resume(OneNode),
}

#[derive(Debug, Group)]
pub(crate) struct OneNode {
    /// Name of the node
    #[arg(value_name = "NODE")]
    pub(crate) name: String,
}

#[derive(Debug, Group)]
pub(crate) struct Migrate {
    /// Database file to copy [default: baton.db in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Empty Postgres database to copy to, as `postgres://USER@HOST/DATABASE` [default: `BATON_STORE`]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<Secret>,
    /// Directory for the database and all other data [default: the XDG directories]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Group)]
pub(crate) struct Completions {
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Group)]
pub(crate) struct Channels {
    #[command(subcommand)]
    pub(crate) action: Option<ChannelsAction>,
    /// Server to connect to [default: `channels.server` of the configuration, or the server of this data
    /// directory]
    #[arg(long, value_name = "URL")]
    pub(crate) attach: Option<String>,
    /// Directory for the ledger and all other data [default: the XDG directories]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Log level; logs go to standard error
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value_t = Level::Info)]
    pub(crate) log_level: Level,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsAction {
    /// Show the channels of the gateway and the states of their connections
    Status(ChannelsStatus),
    /// Create a code that pairs one chat user, who sends `/pair CODE` to the bot
    Pair(Pair),
    /// List the chat users who were paired with a code
    People,
    /// Remove a chat user who was paired with a code
    Unpair(Unpair),
    /// List messages that could not be processed, as JSON lines
    Aside,
}

#[derive(Debug, Clone, Copy, Group)]
pub(crate) struct ChannelsStatus {
    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, Group)]
pub(crate) struct Pair {
    /// Let the user prompt the agent, but not approve its permission requests
    #[arg(long)]
    pub(crate) no_approve: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Unpair {
    /// telegram, slack or whatsapp
    pub(crate) channel: String,
    /// The user's id in that channel
    pub(crate) id: String,
}

#[derive(Debug, Group)]
pub(crate) struct Trust {
    /// Project directory; trust covers everything below it [default: the current directory]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Revoke the trust
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Show whether the directory is trusted and which parts of its configuration are withheld
    #[arg(long, conflicts_with_all = ["revoke", "list"])]
    pub(crate) status: bool,
    /// List the trusted directories
    #[arg(long, conflicts_with_all = ["revoke", "directory"])]
    pub(crate) list: bool,
    /// Directory for the database and all other data [default: the XDG directories]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Check {
    /// Address of a server, or a file of recorded events (JSON lines or server-sent events; `-` for
    /// standard input)
    #[arg(value_name = "URL|FILE")]
    pub(crate) target: String,
    /// Output format: text for reading, or JSON with one finding per line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Stop watching a server after this many seconds
    #[arg(long, value_name = "SECS")]
    pub(crate) timeout: Option<u64>,
    /// Stop watching a server once every session that was busy is idle
    #[arg(long)]
    pub(crate) until_idle: bool,
}

#[derive(Debug, Clone, Copy, Group)]
pub(crate) struct Agents {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A value that may contain a password, so it is never printed.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // Text for a terminal. (A doc comment here would turn every option's help into a paragraph.)
    Text,
    // One JSON value per line, for programs.
    Json,
}
