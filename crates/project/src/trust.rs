//! Trust in directories: reads and changes the list, and words the warning about withheld configuration.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use llm::Catalogue;
use protocol::{
    Rest,
    trust::{Trust, Withheld, WithheldReason},
};
use store::files::{Site, TrustPolicy, trust};

/// A warning names this many withheld parts. `baton trust --status` shows all of them.
const NAMED: usize = 5;

/// The trust in one directory.
#[derive(Debug, Clone)]
pub struct DirectoryTrust {
    /// The trusted directory that this one is, or is below.
    pub by: Option<PathBuf>,
    /// Decides which parts of the directory's configuration are withheld.
    pub guard: TrustPolicy,
}

impl DirectoryTrust {
    /// Reads the list of trusted directories. If it cannot be read, no directory is trusted.
    pub fn read<'l>(data: &Path, site: &Site, logins: impl Iterator<Item = &'l String>) -> Self {
        let trusted = trust::Trust::read(data).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the list of trusted directories; trusting none");
            trust::Trust::default()
        });
        // Resolved, so that a symbolic link cannot lead out of a trusted directory.
        let real = fs::canonicalize(&site.directory).unwrap_or_else(|_| site.directory.clone());
        let by = trusted.covering(&real).map(Path::to_owned);
        let guard = TrustPolicy {
            trusted: by.is_some(),
            logins: logins.cloned().collect(),
            known: KNOWN_PROVIDERS.clone(),
            ..TrustPolicy::strict()
        };
        Self { by, guard }
    }

    /// Returns the trust as clients see it.
    pub fn report(&self, directory: &Path, withheld: &[Withheld]) -> Trust {
        Trust {
            directory: directory.to_string_lossy().into_owned(),
            trusted: self.by.is_some(),
            by: self.by.as_ref().map(|by| by.to_string_lossy().into_owned()),
            command: command(directory),
            withheld: withheld.to_vec(),
            extra: Rest::NONE,
        }
    }
}

/// The providers of the built-in catalogue. The environment may hold a key for each of them.
static KNOWN_PROVIDERS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let catalogue = Catalogue::built_in();
    catalogue.map(|catalogue| catalogue.entries().map(|entry| entry.id.clone()).collect()).unwrap_or_default()
});

/// Adds a directory to the list of trusted ones, or removes it. Returns true if the list has changed.
pub fn set(data: &Path, directory: &Path, trusted: bool) -> io::Result<bool> {
    let mut list = trust::Trust::read(data)?;
    let changed = if trusted { list.grant(directory) } else { list.revoke(directory) };
    if changed {
        list.write(data)?;
    }
    Ok(changed)
}

/// Returns the command that trusts a directory, quoted for a shell.
pub fn command(directory: &Path) -> String {
    let path = directory.to_string_lossy();
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+@%:,".contains(letter);
    if path.chars().all(plain) {
        format!("baton trust {path}")
    } else {
        format!("baton trust '{}'", path.replace('\'', r"'\''"))
    }
}

/// Returns the warning about withheld parts of a configuration, if there are any.
pub fn warning(directory: &Path, withheld: &[Withheld]) -> Option<String> {
    let of = |reason: WithheldReason| -> Vec<&Withheld> {
        withheld.iter().filter(|part| part.reason == reason).collect()
    };
    let (untrusted, foreign) = (of(WithheldReason::Untrusted), of(WithheldReason::Owner));
    let mut sentences = Vec::new();
    if !untrusted.is_empty() {
        let (parts, command) = (named(&untrusted), command(directory));
        sentences.push(format!(
            "this directory is not trusted, so parts of its configuration have no effect: {parts}. If you trust it, run \
             `{command}`"
        ));
    }
    if let Some(first) = foreign.first() {
        sentences.push(format!(
            "parts of the configuration have no effect, because another user owns their file or every user may write to \
             it ({}): {}",
            first.file,
            named(&foreign)
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn named(parts: &[&Withheld]) -> String {
    let mut named: Vec<String> =
        parts.iter().take(NAMED).map(|part| format!("{} ({})", part.key, part.kind)).collect();
    if parts.len() > NAMED {
        named.push(format!("{} more", parts.len() - NAMED));
    }
    named.join(", ")
}

/// Returns the name of a withheld MCP server.
pub(crate) fn mcp_name(part: &Withheld) -> Option<String> {
    let rest = part.key.strip_prefix("mcp")?;
    match rest.strip_prefix('.') {
        Some(name) => Some(name.to_owned()),
        None => serde_json::from_str(rest.strip_prefix('[')?.strip_suffix(']')?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use protocol::trust::WithheldKind;

    use super::*;

    fn part(key: &str, kind: WithheldKind, reason: WithheldReason) -> Withheld {
        Withheld { file: "/p/opencode.json".into(), key: key.into(), kind, reason }
    }

    #[test]
    fn one_sentence_names_the_withheld_parts_and_the_command_that_trusts_them() {
        let directory = Path::new("/p/it's here");
        assert_eq!(warning(directory, &[]), None);
        let untrusted = [
            part("mcp.db", WithheldKind::Mcp, WithheldReason::Untrusted),
            part("provider.a", WithheldKind::Provider, WithheldReason::Untrusted),
        ];
        assert_eq!(
            warning(directory, &untrusted).unwrap(),
            "this directory is not trusted, so parts of its configuration have no effect: mcp.db (an MCP server), \
             provider.a (decides where a key is sent). If you trust it, run `baton trust '/p/it'\\''s here'`"
        );
        let foreign = [part("mcp.db", WithheldKind::Mcp, WithheldReason::Owner)];
        let report = warning(directory, &foreign).unwrap();
        assert!(report.contains("another user") && report.contains("/p/opencode.json"), "{report}");
        assert!(!report.contains("baton trust"), "trust would not help: {report}");
    }

    #[test]
    fn many_parts_are_counted() {
        let parts: Vec<Withheld> = (0..7)
            .map(|at| part(&format!("mcp.m{at}"), WithheldKind::Mcp, WithheldReason::Untrusted))
            .collect();
        let report = warning(Path::new("/p"), &parts).unwrap();
        assert!(
            report.contains("mcp.m4 (an MCP server), 2 more. If you trust it, run `baton trust /p`"),
            "{report}"
        );
    }

    #[test]
    fn the_name_of_a_server_is_read_from_its_key() {
        for (key, name) in [("mcp.db", "db"), ("mcp[\"a b\"]", "a b"), ("mcp[\"a.\\\"b\"]", "a.\"b")] {
            let part = part(key, WithheldKind::Mcp, WithheldReason::Untrusted);
            assert_eq!(mcp_name(&part).as_deref(), Some(name));
        }
    }

    #[test]
    fn a_link_out_of_a_trusted_directory_is_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().canonicalize().unwrap();
        let (data, trusted, other) = (top.join("data"), top.join("trusted"), top.join("other"));
        for directory in [&data, &trusted, &other] {
            fs::create_dir(directory).unwrap();
        }
        std::os::unix::fs::symlink(&other, trusted.join("link")).unwrap();
        assert!(set(&data, &trusted, true).unwrap() && !set(&data, &trusted, true).unwrap());
        let by = |directory: PathBuf| {
            let site = Site { worktree: directory.clone(), directory };
            DirectoryTrust::read(&data, &site, [].iter()).by
        };
        assert_eq!(by(trusted.clone()), Some(trusted.clone()));
        assert_eq!(by(trusted.join("link")), None);
        assert!(set(&data, &trusted, false).unwrap());
        assert_eq!(by(trusted), None);
    }
}
