//! What the environment says about who may call whom. What it says about the configuration is read by
//! `store::files`; everything else is said on the command line.

use std::path::PathBuf;

use client::{Client, Password};
use server::security::Credentials;

use crate::exit::Failure;

/// Baton's own name for the password, and OpenCode's.
pub(crate) const PASSWORDS: [&str; 2] = ["BATON_PASSWORD", "OPENCODE_SERVER_PASSWORD"];
const USER: &str = "OPENCODE_SERVER_USERNAME";
/// Whole configurations and key files, which hold keys as often as not.
pub(crate) const SECRETS: [&str; 2] = ["OPENCODE_CONFIG_CONTENT", "OPENCODE_AUTH_CONTENT"];
pub(crate) const DEFAULT_USER: &str = "opencode";

/// The table for `--help`.
pub(crate) const VARIABLES: &str = "\
Environment:
  BATON_PASSWORD, OPENCODE_SERVER_PASSWORD  the server's password
  OPENCODE_SERVER_USERNAME                  its user name (default: opencode)
  OPENCODE_CONFIG, OPENCODE_CONFIG_DIR      a configuration file or directory besides the usual ones
  OPENCODE_CONFIG_CONTENT                   a configuration, as JSON
  OPENCODE_PERMISSION                       permissions on top of all others, as JSON
  OPENCODE_DISABLE_PROJECT_CONFIG           1: the project's configuration is not read
  OPENCODE_AUTH_CONTENT                     keys, as in auth.json
  ANTHROPIC_API_KEY, OPENAI_API_KEY, ...    the keys of providers
  NO_COLOR                                  no colours";

fn read(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is one of the two doors to the environment")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn password() -> Option<String> {
    PASSWORDS.into_iter().find_map(read)
}

/// What callers of our server have to know.
pub(crate) fn credentials() -> Option<Credentials> {
    Credentials::new(read(USER).as_deref(), &password()?)
}

/// A client for somebody else's server, with the password if there is one.
pub(crate) fn client(address: &str) -> Result<Client, Failure> {
    let client = Client::new(address).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(match password() {
        Some(password) => {
            client.with_login(read(USER).unwrap_or_else(|| DEFAULT_USER.into()), Password::new(password))
        }
        None => client,
    })
}

/// The person's shell.
pub(crate) fn shell() -> Option<String> {
    read("SHELL")
}

/// The person's home directory.
pub(crate) fn home() -> PathBuf {
    std::env::home_dir().unwrap_or_default()
}
