//! Installs packages from the registry into Baton's cache: plugins, and the packages that the host needs.
//!
//! Each package is installed once, in a directory of its own, without running its scripts. It is installed beside
//! its final place and then renamed, so that a second server or an interruption never leaves half of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::OPENCODE_VERSION;
use serde_json::json;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec};

use super::runtime::Runtime;

/// Timeout of an installation.
const DEADLINE: Duration = Duration::from_mins(2);
/// Maximum length of quoted installer output, in characters.
const LAST_WORDS: usize = 600;

/// Packages that the host imports: OpenCode's plugin API, and for Node a tool that removes TypeScript's types.
const NEEDED: [(&str, &str); 2] = [("@opencode-ai/plugin", OPENCODE_VERSION), ("amaro", "1.2.1")];
/// Directory name for this set of packages; another set gets another directory.
const HOME: &str = "runtime-1.18.33-1.2.1";

/// Held during an installation. Directories that are opened at the same time need the same packages, so one of them
/// installs and the others find the result.
static INSTALLING: Mutex<()> = Mutex::const_new(());

/// A failed installation.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("\"{0}\" is not a package name")]
    Name(String),
    #[error("{package} could not be installed: {why}")]
    Failed { package: String, why: String },
}

/// A package named in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
}

impl Package {
    /// Parses `name`, `name@version` or `@scope/name@version`.
    pub(super) fn parse(spec: &str) -> Result<Self, Error> {
        let at = spec.rfind('@').filter(|at| *at > 0);
        let (name, version) = at.map_or((spec, ""), |at| spec.split_at(at));
        let bare = name.strip_prefix('@').unwrap_or(name);
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._~".contains(letter);
        let parts: Vec<&str> = bare.split('/').collect();
        let is_plain = |part: &&str| !part.is_empty() && !part.starts_with('.') && part.chars().all(allowed);
        let expected = if name.starts_with('@') { 2 } else { 1 };
        if parts.len() != expected || !parts.iter().all(is_plain) {
            return Err(Error::Name(spec.to_owned()));
        }
        let version = version.trim_start_matches('@');
        let version = if version.is_empty() { "latest" } else { version };
        Ok(Self { name: name.to_owned(), version: version.to_owned() })
    }

    /// Name of the package's directory in the cache.
    fn folder(&self) -> String {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-._".contains(letter) { letter } else { '+' }
        };
        format!("{}@{}", self.name, self.version).chars().map(plain).collect()
    }
}

/// The directory with the packages that the host needs.
pub(super) fn home(cache: &Path) -> PathBuf {
    cache.join(HOME)
}

/// Installs the packages that the host needs. Bun reads TypeScript by itself.
pub(super) async fn prepare(runtime: &Runtime, cache: &Path) -> Result<(), Error> {
    install(runtime, &needed(runtime), &home(cache)).await
}

fn needed(runtime: &Runtime) -> Vec<Package> {
    let count = if matches!(runtime, Runtime::Bun(_)) { 1 } else { NEEDED.len() };
    let package =
        |(name, version): (&str, &str)| Package { name: name.to_owned(), version: version.to_owned() };
    NEEDED.into_iter().take(count).map(package).collect()
}

/// Returns true if the packages that the host needs are installed.
pub(super) fn is_prepared(runtime: &Runtime, cache: &Path) -> bool {
    are_there(&home(cache), &needed(runtime))
}

/// Returns a package's directory, and installs the package first if necessary.
pub(super) async fn package(runtime: &Runtime, cache: &Path, package: &Package) -> Result<PathBuf, Error> {
    let home = cache.join("packages").join(package.folder());
    install(runtime, std::slice::from_ref(package), &home).await?;
    Ok(home.join("node_modules").join(&package.name))
}

fn are_there(home: &Path, packages: &[Package]) -> bool {
    let manifest = |package: &Package| home.join("node_modules").join(&package.name).join("package.json");
    packages.iter().all(|package| manifest(package).is_file())
}

/// Installs packages into `home/node_modules` unless they are there.
async fn install(runtime: &Runtime, packages: &[Package], home: &Path) -> Result<(), Error> {
    if are_there(home, packages) {
        return Ok(());
    }
    let _alone = INSTALLING.lock().await;
    if are_there(home, packages) {
        return Ok(());
    }
    let named: Vec<String> = packages.iter().map(|it| format!("{}@{}", it.name, it.version)).collect();
    let failed = |why: String| Error::Failed { package: named.join(" and "), why };
    let unusable = |error: std::io::Error| failed(error.to_string());
    std::fs::create_dir_all(home).map_err(unusable)?;
    let draft = home.join(format!(".draft-{}", std::process::id()));
    // Left over from an interrupted attempt of a process with the same id.
    let _ = std::fs::remove_dir_all(&draft);
    std::fs::create_dir_all(&draft).map_err(unusable)?;
    let installed = fetch(runtime, packages, &draft).await;
    let moved = installed.map_err(failed).and_then(|()| {
        // Another server may have been faster and be using them.
        if are_there(home, packages) {
            return Ok(());
        }
        let place = home.join("node_modules");
        // Left over from an incomplete installation.
        let _ = std::fs::remove_dir_all(&place);
        std::fs::rename(draft.join("node_modules"), place).map_err(unusable)
    });
    let _ = std::fs::remove_dir_all(&draft);
    moved
}

async fn fetch(runtime: &Runtime, packages: &[Package], draft: &Path) -> Result<(), String> {
    let wanted: serde_json::Map<_, _> =
        packages.iter().map(|package| (package.name.clone(), package.version.clone().into())).collect();
    let manifest = json!({ "private": true, "dependencies": wanted }).to_string();
    std::fs::write(draft.join("package.json"), manifest).map_err(|error| error.to_string())?;
    let (program, arguments) = runtime.installer();
    let spec = Spec::new(program, draft, DEADLINE).args(arguments);
    let done =
        process::run(spec, &CancellationToken::new(), |_| ()).await.map_err(|error| error.to_string())?;
    match done.exit {
        Exit::Code(0) => Ok(()),
        Exit::DeadlinePassed => Err(format!("the registry takes longer than {} s", DEADLINE.as_secs())),
        _ => Err(format!("the installer said: {}", done.output.tail_text(LAST_WORDS).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn packages_are_named_with_and_without_a_version() {
        let cases = [
            ("one", "one", "latest"),
            ("one@1.2.3", "one", "1.2.3"),
            ("@scope/one", "@scope/one", "latest"),
            ("@scope/one@next", "@scope/one", "next"),
            ("one@github:user/one", "one", "github:user/one"),
        ];
        for (spec, name, version) in cases {
            let package = Package::parse(spec).unwrap();
            assert_eq!((package.name.as_str(), package.version.as_str()), (name, version), "{spec}");
        }
        for spec in ["", "../up", "a/b", "@scope", "@scope/", "@a/b/c", "one two", "-rf;", ".hidden"] {
            assert!(Package::parse(spec).is_err(), "{spec}");
        }
        assert_eq!(Package::parse("@scope/one@1").unwrap().folder(), "+scope+one+1");
    }

    /// A "Node" with this script as its installer.
    fn runtime(place: &Path, script: &str) -> Runtime {
        let npm = place.join("npm");
        std::fs::write(&npm, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
        Runtime::Node(place.join("node"))
    }

    const WORKS: &str = "case \"$*\" in *--ignore-scripts*) ;; *) exit 9;; esac; echo x >> ../count
        mkdir -p node_modules/one && echo '{}' > node_modules/one/package.json";

    #[tokio::test]
    async fn a_package_is_installed_once_and_without_its_scripts() {
        let place = tempfile::tempdir().unwrap();
        let (runtime, cache) = (runtime(place.path(), WORKS), place.path().join("cache"));
        let one = Package::parse("one@1").unwrap();
        // Several directories need it at once, and another one later.
        for count in [4, 1] {
            let installed = (0..count).map(|_| package(&runtime, &cache, &one));
            for folder in futures::future::try_join_all(installed).await.unwrap() {
                assert!(folder.join("package.json").is_file());
            }
        }
        let home = cache.join("packages/one+1");
        assert_eq!(std::fs::read_to_string(home.join("count")).unwrap(), "x\n");
        assert_eq!(std::fs::read_dir(&home).unwrap().count(), 2, "no draft is left");
    }

    #[tokio::test]
    async fn a_failed_installation_is_reported_and_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let script = "mkdir -p node_modules/one; echo 'no such package' >&2; exit 1";
        let (runtime, cache) = (runtime(place.path(), script), place.path().join("cache"));
        let error = package(&runtime, &cache, &Package::parse("one").unwrap()).await.unwrap_err();
        let expected = "one@latest could not be installed: the installer said: no such package";
        assert_eq!(error.to_string(), expected);
        assert_eq!(std::fs::read_dir(cache.join("packages/one+latest")).unwrap().count(), 0);
    }
}
