//! Temporary files for tests, at paths without links, as the functions of this module require.

use std::path::PathBuf;

use tempfile::{NamedTempFile, TempDir};

fn place() -> PathBuf {
    std::env::temp_dir().canonicalize().unwrap()
}

pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in(place()).unwrap()
}

pub(crate) fn file() -> NamedTempFile {
    NamedTempFile::new_in(place()).unwrap()
}
