//! The environment as a value: captured once, or made up in tests.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// Variables that this process received in another way, so that `/proc` does not show them.
static ADOPTED: OnceLock<BTreeMap<String, OsString>> = OnceLock::new();

/// The name of OpenCode's directory inside the XDG directories.
const OPENCODE: &str = "opencode";

/// The environment variables and paths that the configuration depends on.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// May contain keys, so `Debug` shows only the names.
    pub variables: BTreeMap<String, OsString>,
    /// The administrator's directory, whose configuration overrides all others.
    pub managed: Option<PathBuf>,
    /// Decides which files a configuration may not include or show to models.
    guard: Guard,
}

/// A predicate on real paths: true if a file may not be read.
#[derive(Clone, Default)]
struct Guard(Option<Arc<IsClosed>>);

type IsClosed = dyn Fn(&Path) -> bool + Send + Sync;

impl PartialEq for Guard {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() == other.is_none(),
        }
    }
}

impl Eq for Guard {}

impl Environment {
    /// Adds variables to every later [`Environment::capture`]. Called at most once, when the program starts.
    pub fn adopt(variables: BTreeMap<String, OsString>) {
        // A second set would belong to another start of the program, so the first one stays.
        let _ = ADOPTED.set(variables);
    }

    /// Reads the environment of this process, including adopted variables.
    pub fn capture() -> Self {
        let found = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let variables = found.chain(ADOPTED.get().cloned().into_iter().flatten()).collect();
        let managed = if cfg!(target_os = "macos") {
            "/Library/Application Support/opencode"
        } else if cfg!(windows) {
            r"C:\ProgramData\opencode"
        } else {
            "/etc/opencode"
        };
        Self { variables, managed: Some(managed.into()), guard: Guard::default() }
    }

    /// An environment with only these variables.
    pub fn of<N: Into<String>, V: Into<OsString>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables, managed: None, guard: Guard::default() }
    }

    /// Adds a predicate for files that `{file:}` and `instructions` may not read. It is called with real paths.
    #[must_use]
    pub fn guarded(self, is_closed: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self { guard: Guard(Some(Arc::new(is_closed))), ..self }
    }

    /// Refuses a file that is closed. The reader reports a file that does not exist.
    pub(super) fn check(&self, path: &Path) -> io::Result<()> {
        let closed = self.guard.0.as_ref().zip(path.canonicalize().ok()).is_some_and(|(is, path)| is(&path));
        if closed {
            return Err(io::Error::other("it contains keys or private data of Baton"));
        }
        Ok(())
    }

    /// A variable, unless it is unset or empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable, if it is valid UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    /// Returns true if the variable is `1` or `true`.
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.absolute("HOME")
    }

    /// A directory of the XDG base directory specification.
    pub fn base(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        self.absolute(variable).or_else(|| self.home().map(|home| home.join(below_home)))
    }

    /// OpenCode's directory for the user's configuration.
    pub fn config_dir(&self) -> Option<PathBuf> {
        self.base("XDG_CONFIG_HOME", ".config").map(|base| base.join(OPENCODE))
    }

    /// OpenCode's directory for persistent data.
    pub fn opencode_data_dir(&self) -> Option<PathBuf> {
        self.base("XDG_DATA_HOME", ".local/share").map(|base| base.join(OPENCODE))
    }

    /// Resolves a path in a configuration, relative to a directory; `~/` is the user's home.
    pub fn resolve(&self, written: &str, from: &Path) -> PathBuf {
        match (written.strip_prefix("~/"), self.home()) {
            (Some(below), Some(home)) => home.join(below),
            _ => from.join(written),
        }
    }

    /// The XDG specification says to ignore relative paths; an empty variable is one of them.
    fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Environment")
            .field("variables", &self.variables.keys())
            .field("managed", &self.managed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let environment = Environment::of([("ACME_KEY", "sk-1")]);
        assert_eq!(environment.text("ACME_KEY"), Some("sk-1"));
        let shown = format!("{environment:?}");
        assert!(shown.contains("ACME_KEY") && !shown.contains("sk-1"), "{shown}");
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let environment = Environment::of([("A", ""), ("HOME", "")]);
        assert_eq!((environment.get("A"), environment.home()), (None, None));
    }

    #[test]
    fn closed_files_are_refused_by_their_real_paths() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        std::fs::write(top.join("auth.json"), "{}").unwrap();
        std::os::unix::fs::symlink(top.join("auth.json"), top.join("prompt.md")).unwrap();
        let secret = top.join("auth.json");
        let environment = Environment::of([("A", "a")]).guarded(move |path| path == secret);
        assert!(environment.check(&top.join("prompt.md")).is_err());
        assert!(environment.check(&top).is_ok() && environment.check(Path::new("/no/such/file")).is_ok());
        assert!(Environment::of([("A", "a")]).check(&top.join("auth.json")).is_ok());
    }

    #[test]
    fn switches_are_on_with_1_or_true() {
        let environment = Environment::of([("A", "1"), ("B", "TRUE"), ("C", "0"), ("D", "yes")]);
        assert_eq!(
            ["A", "B", "C", "D", "E"].map(|name| environment.is_on(name)),
            [true, true, false, false, false]
        );
    }

    #[test]
    fn a_path_is_relative_to_home_or_to_its_file() {
        let environment = Environment::of([("HOME", "/h")]);
        let from = Path::new("/p");
        let resolved = ["~/a", "a", "/a", "~b"].map(|written| environment.resolve(written, from));
        assert_eq!(resolved, ["/h/a", "/p/a", "/a", "/p/~b"].map(PathBuf::from));
    }
}
