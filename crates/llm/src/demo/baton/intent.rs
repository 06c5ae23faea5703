//! Derives the demo's action from the prompt, by a handful of fixed words so that it is predictable.

/// Action of the demo.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Help,
    Read(String),
    Run(String),
    Ask,
    Think,
    Plan,
    Subagent,
    /// Any other prompt.
    Look,
}

impl Intent {
    pub(super) fn of(prompt: &str) -> Self {
        let prompt = prompt.trim();
        let lower = prompt.to_lowercase();
        let has = |word: &str| lower.split(|c: char| !c.is_alphanumeric()).any(|found| found == word);
        if let Some(path) = after(prompt, &["read "]) {
            Self::Read(bare(path))
        } else if let Some(command) = after(prompt, &["run ", "$ "]) {
            Self::Run(bare(command))
        } else if lower == "?" || has("help") {
            Self::Help
        } else if lower.contains("ask me") {
            Self::Ask
        } else if has("subagent") || has("subagents") {
            Self::Subagent
        } else if has("think") || has("thinking") {
            Self::Think
        } else if has("plan") || has("todo") || has("todos") {
            Self::Plan
        } else {
            Self::Look
        }
    }
}

/// The text after one of the openings, if there is any.
fn after<'a>(prompt: &'a str, openings: &[&str]) -> Option<&'a str> {
    let line = prompt.lines().next()?;
    openings.iter().find_map(|opening| {
        let (start, rest) = line.split_at_checked(opening.len())?;
        (start.eq_ignore_ascii_case(opening) && !rest.trim().is_empty()).then_some(rest)
    })
}

/// Removes the quotes that users put around names and commands.
fn bare(text: &str) -> String {
    let text = text.trim();
    let quoted = ['`', '"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    quoted.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::Intent;

    #[test]
    fn prompts_are_distinguished() {
        for (prompt, intent) in [
            ("hello there", Intent::Look),
            ("Help!", Intent::Help),
            ("?", Intent::Help),
            ("read README.md", Intent::Read("README.md".to_owned())),
            ("Read `src/a file.rs`", Intent::Read("src/a file.rs".to_owned())),
            ("run 'echo hi'", Intent::Run("echo hi".to_owned())),
            ("run echo 'one' 'two'", Intent::Run("echo 'one' 'two'".to_owned())),
            ("please ask me something", Intent::Ask),
            ("think about it", Intent::Think),
            ("make a plan", Intent::Plan),
            ("explain planets", Intent::Look),
            ("start a subagent", Intent::Subagent),
            ("read ", Intent::Look),
            ("", Intent::Look),
            ("é", Intent::Look),
        ] {
            assert_eq!(Intent::of(prompt), intent, "{prompt}");
        }
    }
}
