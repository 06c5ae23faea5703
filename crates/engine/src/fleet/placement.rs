//! The order in which nodes claim a workspace that no living node owns.
//!
//! Every node computes the same order from the same rows, without talking to the others. The order decides only who
//! tries first; the record decides who wins.

use std::time::Duration;

/// Delay per rank before a node claims: the best candidate claims at once, and the next one only if it does not.
pub const DELAY: Duration = Duration::from_secs(1);

/// A node that could run a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub node: &'a str,
    /// Share of work that it takes, relative to the others. Zero takes none.
    pub capacity: u32,
}

/// Returns the rank of a node among the candidates for a workspace: rendezvous hashing, weighted by capacity. `None`
/// if it is no candidate.
///
/// A node that joins or leaves moves only the workspaces that it wins or held, because every score depends on one node
/// and the workspace alone.
pub fn rank(candidates: &[Candidate<'_>], node: &str, workspace: &str) -> Option<usize> {
    let mine = candidates.iter().find(|candidate| candidate.node == node && candidate.capacity > 0)?;
    let score = score(mine, workspace);
    let is_better = |other: &&Candidate<'_>| (self::score(other, workspace), other.node) > (score, mine.node);
    Some(candidates.iter().filter(|other| other.capacity > 0).filter(is_better).count())
}

/// The best of as many draws as the node has capacity. Integers only: every node has to get the same result, whatever
/// its processor.
fn score(candidate: &Candidate<'_>, workspace: &str) -> u64 {
    (0..candidate.capacity.min(MAX_CAPACITY))
        .map(|draw| hash(candidate.node, workspace, draw))
        .max()
        .unwrap_or_default()
}

/// Largest capacity that makes a difference, so that a wrong setting does not cost time.
const MAX_CAPACITY: u32 = 256;

/// FNV-1a with a final mix. The standard library's hasher may change with the compiler, and two releases of the
/// server have to agree.
fn hash(node: &str, workspace: &str, draw: u32) -> u64 {
    let bytes = node.bytes().chain([0xff]).chain(workspace.bytes()).chain(draw.to_le_bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
