//! The campaigns: Baton's promises about crashes, power cuts, full disks, clocks and lost connections.

use anyhow::Result;

use crate::command::{self, program};
use crate::repo::Repo;

/// Builds the server and runs testkit's campaigns against it. Uses the debug build that continuous integration
/// already has; `--release` tests the build that ships.
pub(crate) fn run(repo: &Repo, args: &[String]) -> Result<()> {
    let (release, args): (Vec<_>, Vec<_>) = args.iter().partition(|arg| *arg == "--release");
    let (debug, campaign) = repo.build_for_tests("campaign")?;
    let baton = if release.is_empty() { debug } else { repo.build_release()? };
    let mut campaign = program(&campaign.to_string_lossy(), repo.root());
    command::run(campaign.args(args).env("BATON_BIN", baton))
}
