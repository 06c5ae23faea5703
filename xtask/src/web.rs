//! The web page: its types, its rules and the tests of its core, all without a browser.

use anyhow::Result;

use crate::command::{program, run};
use crate::e2e;
use crate::repo::Repo;

/// Installs the page's packages unless they are installed, checks its types and runs the tests of its core.
pub(crate) fn check(repo: &Repo) -> Result<()> {
    let dir = repo.root().join("crates/web/ui");
    e2e::install(&dir)?;
    run(program("npm", &dir).args(["run", "--silent", "check"]))?;
    run(program("npm", &dir).args(["run", "--silent", "test"]))
}
