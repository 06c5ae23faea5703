//! The command line.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use crate::{environment, exit, logging::Level};

/// One server for coding agents that always knows when a turn is really over.
#[derive(Debug, Parser)]
#[command(
    name = "baton",
    version,
    max_term_width = 100,
    after_help = format!("{}\n\n{}", exit::CODES, environment::VARIABLES)
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
    /// Watch a stream of events and report where it would mislead a client
    #[command(after_help = "Works with every OpenCode-compatible server, and with recordings of one. \
        Exits with 1 if there was a violation; warnings alone are no reason to fail.")]
    Check(Check),
    /// List other people's agents that can be used here
    #[command(
        after_help = "Looks for their programs on PATH and where the configuration says. A login is recognised by \
        the variables and files an agent documents; what is in them is neither read nor shown."
    )]
    Agents(Agents),
    /// Talk to sessions from Telegram, Slack and WhatsApp
    #[command(
        after_help = "Without a command it runs until it is stopped. What it needs to know is under `channels` in \
        the user's own baton.json. Works with every OpenCode-compatible server."
    )]
    Channels(Channels),
    /// Let the configuration of a project run programs and send secrets, or no longer
    #[command(
        after_help = "Plugins, MCP servers, other agents, addresses of providers and placeholders that a project's \
        own configuration names count only in trusted directories. docs/trust.md lists them."
    )]
    Trust(Trust),
    #[command(about = "Print the OpenAPI document")]
    Openapi,
}

#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// Address to listen on; one that others can reach needs a password
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) hostname: String,
    /// Port to listen on; 0 picks a free one [default: 4096, or a free one if that is taken]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Let pages of this origin call, such as a development server's; may be given several times
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) cors: Vec<String>,
    /// The server goes by this name, too, for instance behind a proxy; may be given several times
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Let people talk to sessions from chats, too, as `baton channels` does
    #[arg(long)]
    pub(crate) channels: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

/// Where the engine keeps its things and what it plays.
#[derive(Debug, Clone, Default, Group)]
pub(crate) struct Engine {
    /// Directory for the database and everything else [default: by the XDG specification]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// More scenarios for the demo model
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario_file: Option<PathBuf>,
    /// Log to standard error instead of a file
    #[arg(long)]
    pub(crate) print_logs: bool,
    /// How much to log
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value_t = Level::Info)]
    pub(crate) log_level: Level,
}

#[derive(Debug, Group)]
pub(crate) struct Run {
    /// What to do; `-`, or nothing with something piped in, reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Model to use, as provider/model
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Agent to use
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Go on with this session
    #[arg(long, short, value_name = "ID", conflicts_with = "resume")]
    pub(crate) session: Option<String>,
    /// Go on with the latest session of this directory
    #[arg(long = "continue", short = 'c')]
    pub(crate) resume: bool,
    /// How to show what happens: for people, or one event per line as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Use this server instead of an engine of our own
    #[arg(long, value_name = "URL")]
    pub(crate) attach: Option<String>,
    /// Allow whatever the agent asks for, and answer its questions with the first choice
    #[arg(long, short, conflicts_with = "deny")]
    pub(crate) yes: bool,
    /// Refuse whatever the agent asks for (the default where nobody can be asked)
    #[arg(long)]
    pub(crate) deny: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Debug, Group)]
pub(crate) struct Channels {
    #[command(subcommand)]
    pub(crate) action: Option<ChannelsAction>,
    /// The server [default: `channels.server` of the configuration, or the one of this data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) attach: Option<String>,
    /// Directory for the ledger and everything else [default: by the XDG specification]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// How much to log, on standard error
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value_t = Level::Info)]
    pub(crate) log_level: Level,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsAction {
    /// Make a code with which one person can let themselves in, by sending `/pair CODE`
    Pair(Pair),
    /// List who was let in with a code
    People,
    /// Show somebody the door who was let in with a code
    Unpair(Unpair),
    /// List messages that were given up, one per line as JSON
    Aside,
}

#[derive(Debug, Clone, Copy, Group)]
pub(crate) struct Pair {
    /// They may give the agent work, but not allow what it asks permission for
    #[arg(long)]
    pub(crate) no_approve: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Unpair {
    /// telegram, slack or whatsapp
    pub(crate) channel: String,
    /// Their id there
    pub(crate) id: String,
}

#[derive(Debug, Group)]
pub(crate) struct Trust {
    /// The project; everything below it is trusted, too [default: the current directory]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Trust it no longer
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Only show whether it is trusted, and which parts of its configuration do not count
    #[arg(long, conflicts_with_all = ["revoke", "list"])]
    pub(crate) status: bool,
    /// List the trusted directories
    #[arg(long, conflicts_with_all = ["revoke", "directory"])]
    pub(crate) list: bool,
    /// Directory for the database and everything else [default: by the XDG specification]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Check {
    /// Address of a server, or a file of recorded events (JSON lines or server-sent events; `-` for
    /// standard input)
    #[arg(value_name = "URL|FILE")]
    pub(crate) target: String,
    /// How to show what is found: for people, or one finding per line as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Stop watching a server after so many seconds
    #[arg(long, value_name = "SECS")]
    pub(crate) timeout: Option<u64>,
    /// Stop watching a server once everybody who was busy is idle
    #[arg(long)]
    pub(crate) until_idle: bool,
}

#[derive(Debug, Clone, Copy, Group)]
pub(crate) struct Agents {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How things are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // For people. (A doc comment here would turn every option's help into a paragraph.)
    Text,
    // For programs: one JSON value per line.
    Json,
}
