//! Reads the entries of an index file.
//!
//! Only the formats that git writes for a shadow are understood. Submodules, sparse entries and unknown required
//! extensions yield `None`, and git decides.

use super::stat::{Stat, Time};

/// Length of an entry's fixed part before the object id.
const METADATA: usize = 40;

/// Flag of an entry with further flags, such as a sparse one.
const EXTENDED: u16 = 0x4000;

const SUBMODULE: u32 = 0o160_000;

/// A file in the index.
pub(super) struct Entry<'a> {
    /// Path relative to the worktree.
    pub(super) path: &'a [u8],
    /// Id of the content.
    pub(super) object: &'a [u8],
    metadata: Fields,
}

/// The metadata that git stores: the low 32 bits of each value.
#[derive(PartialEq, Eq)]
struct Fields {
    changed: [u32; 2],
    modified: [u32; 2],
    inode: u32,
    mode: u32,
    owner: (u32, u32),
    size: u32,
}

/// The result of comparing a file with its entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Same,
    /// The times differ by less than git compares, since common builds of git ignore fractions of a second.
    SameToGit,
    Different,
}

impl Entry<'_> {
    pub(super) fn compare(&self, file: &Stat) -> Comparison {
        let found = Fields::of(file);
        if found == self.metadata {
            return Comparison::Same;
        }
        let seconds = |fields: &Fields| (fields.changed[0], fields.modified[0]);
        let rest = |fields: &Fields| (fields.inode, fields.mode, fields.owner, fields.size);
        let same = seconds(&found) == seconds(&self.metadata) && rest(&found) == rest(&self.metadata);
        if same { Comparison::SameToGit } else { Comparison::Different }
    }
}

impl Fields {
    fn of(file: &Stat) -> Self {
        let mode = match file.mode & 0o170_000 {
            0o100_000 if file.mode & 0o100 != 0 => 0o100_755,
            0o100_000 => 0o100_644,
            kind => kind,
        };
        let time = |time: Time| [low(time.seconds.cast_unsigned()), low(time.nanos.cast_unsigned())];
        Self {
            changed: time(file.changed),
            modified: time(file.modified),
            inode: low(file.inode),
            mode,
            owner: file.owner,
            size: low(file.size),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "git stores the low 32 bits")]
fn low(value: u64) -> u32 {
    value as u32
}

/// Calls `visit` for every entry of an index whose object ids have this length. Returns `None` if the index contains
/// anything that this reader does not understand.
pub(super) fn read<'a>(index: &'a [u8], id: usize, mut visit: impl FnMut(Entry<'a>)) -> Option<()> {
    let header = index.get(..12)?;
    let version = word(header.get(4..8)?)?;
    if !header.starts_with(b"DIRC") || !matches!(version, 2 | 3) {
        return None;
    }
    let mut at = 12;
    for _ in 0..word(header.get(8..)?)? {
        let rest = index.get(at..)?;
        let fields = fields(rest.get(..METADATA)?)?;
        let object = rest.get(METADATA..METADATA + id)?;
        let start = METADATA + id + 2;
        let flags = u16::from_be_bytes(rest.get(start - 2..start)?.try_into().ok()?);
        if flags & EXTENDED != 0 || fields.mode == SUBMODULE {
            return None;
        }
        let length = memchr::memchr(0, rest.get(start..)?)?;
        visit(Entry { path: rest.get(start..start + length)?, object, metadata: fields });
        // Zeros fill an entry up to a multiple of eight bytes, at least one.
        at += (start + length + 8) & !7;
    }
    // The file ends with its own checksum.
    only_optional(index.get(at..index.len().checked_sub(id)?)?)
}

/// Returns `None` if an extension must be understood. Those have a lower-case name.
fn only_optional(mut extensions: &[u8]) -> Option<()> {
    while let Some((name, rest)) = extensions.split_at_checked(4) {
        let (length, rest) = rest.split_at_checked(4)?;
        if !name.first()?.is_ascii_uppercase() {
            return None;
        }
        extensions = rest.get(usize::try_from(word(length)?).ok()?..)?;
    }
    extensions.is_empty().then_some(())
}

fn fields(bytes: &[u8]) -> Option<Fields> {
    let mut words = bytes.chunks_exact(4).map(|bytes| word(bytes).unwrap_or_default());
    let mut next = || words.next();
    let (changed, modified) = ([next()?, next()?], [next()?, next()?]);
    let _device = next()?;
    let (inode, mode, owner) = (next()?, next()?, (next()?, next()?));
    Some(Fields { changed, modified, inode, mode, owner, size: next()? })
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}
