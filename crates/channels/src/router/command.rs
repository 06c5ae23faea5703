//! Parses commands: messages that begin with a slash.

/// A command, which is carried out at once, even during a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Start a new session, with the first prompt if there is one.
    New(String),
    Cancel,
    /// Stop the turn, drop waiting messages and end automatic continuation.
    Stop,
    /// Allow automatic continuation again.
    Continue,
    /// Describe the current state.
    Status,
    /// List the sessions.
    Sessions,
    /// Continue another session: a number of the list, or an id.
    Use(String),
    /// List the models, or choose one.
    Model(String),
    /// List the agents, or choose one.
    Agent(String),
    /// Show the last answer again.
    Last,
    /// Send the changes.
    Diff,
    /// Dismiss the oldest open request.
    Skip,
    /// List the messages that wait.
    Queue,
    /// Withdraw a message of that list: its number.
    Withdraw(String),
    Help,
    /// Pair with a code.
    Pair(String),
    Unknown(String),
}

/// Parses a command; `None` if the text is not one, for instance a path.
pub(super) fn parse(text: &str) -> Option<Command> {
    let text = text.trim();
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let name = name.strip_prefix('/')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'));
    if !is_name {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let rest = rest.trim().to_owned();
    Some(match name.as_str() {
        "new" => Command::New(rest),
        "cancel" => Command::Cancel,
        "stop" => Command::Stop,
        "continue" => Command::Continue,
        "status" => Command::Status,
        "sessions" => Command::Sessions,
        "use" => Command::Use(rest),
        "model" => Command::Model(rest),
        "agent" => Command::Agent(rest),
        "last" => Command::Last,
        "diff" => Command::Diff,
        "skip" => Command::Skip,
        "queue" => Command::Queue,
        "withdraw" => Command::Withdraw(rest),
        // Telegram sends this when a user opens the chat for the first time.
        "help" | "start" => Command::Help,
        "pair" => Command::Pair(rest),
        _ => Command::Unknown(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_begins_with_a_slash() {
        assert_eq!(parse(" /New "), Some(Command::New(String::new())));
        assert_eq!(parse("/new fix it"), Some(Command::New("fix it".to_owned())));
        assert_eq!(parse("/use  2"), Some(Command::Use("2".to_owned())));
        assert_eq!(parse("/pair ABCD2345"), Some(Command::Pair("ABCD2345".to_owned())));
        assert_eq!(parse("/start"), Some(Command::Help));
        assert_eq!(parse("/dance now"), Some(Command::Unknown("dance".to_owned())));
    }

    #[test]
    fn every_listed_command_is_parsed() {
        for (name, ..) in crate::words::COMMANDS {
            assert!(!matches!(parse(&format!("/{name}")), Some(Command::Unknown(_)) | None), "{name}");
        }
    }

    #[test]
    fn a_path_or_a_sentence_is_no_command() {
        for text in ["", "new", "/", "/etc/hosts is wrong", "//", "/2", "say /new"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
