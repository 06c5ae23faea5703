//! The file with the browsers that have signed in.

use std::{fs, io, path::PathBuf, sync::Arc};

use server::security::{BrowserStorage, Browsers};
use store::files::{Places, replace_private};

/// The file in the data directory.
const FILE: &str = "browsers.json";

#[derive(Debug)]
struct File(PathBuf);

impl BrowserStorage for File {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn save(&self, list: &[u8]) -> io::Result<()> {
        replace_private(&self.0, list)
    }
}

/// Reads the list of a data directory. An unreadable list does not keep the server from starting: browsers sign in
/// again, and the list is kept in memory.
pub(crate) fn open(places: &Places) -> Browsers {
    let file = places.data.join(FILE);
    Browsers::open(Arc::new(File(file.clone()))).unwrap_or_else(|error| {
        tracing::warn!(file = %file.display(), %error, "cannot read the list of signed-in browsers");
        Browsers::default()
    })
}
