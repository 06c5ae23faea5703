//! The locations of Baton's files, by the XDG base directory specification.
//!
//! A directory that the user chooses overrides all of them and contains everything, so that one option separates a
//! second server or a test.

use std::path::{Path, PathBuf};

use super::Environment;

/// The name of Baton's directory inside the XDG directories.
const NAME: &str = "baton";

pub const DATABASE: &str = "baton.db";

/// The data directory cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the data directory is unknown because HOME is not set; set HOME, or choose a data directory")]
pub struct NoDataDirectory;

/// The directories of Baton's files. They are not created here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Data that must not be lost: the database.
    pub data: PathBuf,
    /// State that is useful to keep.
    pub state: PathBuf,
    /// The directory of log files.
    pub log: PathBuf,
    /// Data that can be fetched again.
    pub cache: PathBuf,
}

impl Places {
    /// The directories of this user, or below `chosen` if it is given.
    pub fn find(chosen: Option<&Path>) -> Result<Self, NoDataDirectory> {
        Self::resolve(chosen, &Environment::capture())
    }

    pub fn database(&self) -> PathBuf {
        self.data.join(DATABASE)
    }

    /// The directories in this environment, or below `chosen` if it is given.
    pub fn resolve(chosen: Option<&Path>, environment: &Environment) -> Result<Self, NoDataDirectory> {
        if let Some(chosen) = chosen {
            let data = chosen.to_path_buf();
            return Ok(Self {
                state: data.join("state"),
                log: data.join("log"),
                cache: data.join("cache"),
                data,
            });
        }
        let base = |variable: &str, below_home: &str| {
            environment.base(variable, below_home).map(|base| base.join(NAME)).ok_or(NoDataDirectory)
        };
        let data = base("XDG_DATA_HOME", ".local/share")?;
        let state = base("XDG_STATE_HOME", ".local/state")?;
        let cache = base("XDG_CACHE_HOME", ".cache")?;
        Ok(Self { data, log: state.join("log"), state, cache })
    }
}

/// The data directory: `chosen`, or `$XDG_DATA_HOME/baton`, or `~/.local/share/baton`.
pub fn data_dir(chosen: Option<&Path>) -> Result<PathBuf, NoDataDirectory> {
    Places::find(chosen).map(|places| places.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(chosen: Option<&str>, variables: &[(&str, &str)]) -> Result<Places, NoDataDirectory> {
        Places::resolve(chosen.map(Path::new), &Environment::of(variables.iter().copied()))
    }

    #[test]
    fn data_and_state_have_their_own_places_below_home() {
        let places = resolve(None, &[("HOME", "/h")]).unwrap();
        assert_eq!(places.database(), Path::new("/h/.local/share/baton/baton.db"));
        assert_eq!(places.log, Path::new("/h/.local/state/baton/log"));
        assert_eq!(places.cache, Path::new("/h/.cache/baton"));
    }

    #[test]
    fn xdg_variables_win_over_home_unless_they_are_relative() {
        let places =
            resolve(None, &[("HOME", "/h"), ("XDG_DATA_HOME", "/data"), ("XDG_STATE_HOME", "x")]).unwrap();
        assert_eq!(places.data, Path::new("/data/baton"));
        assert_eq!(places.state, Path::new("/h/.local/state/baton"));
    }

    #[test]
    fn a_chosen_directory_holds_everything() {
        let places = resolve(Some("there"), &[("HOME", "/h"), ("XDG_DATA_HOME", "/data")]).unwrap();
        assert_eq!(places.data, Path::new("there"));
        assert_eq!(places.log, Path::new("there/log"));
        assert_eq!(places.cache, Path::new("there/cache"));
    }

    #[test]
    fn without_a_home_there_is_a_clear_error() {
        assert_eq!(resolve(None, &[("HOME", "")]), Err(NoDataDirectory));
        assert!(NoDataDirectory.to_string().contains("HOME"));
    }
}
