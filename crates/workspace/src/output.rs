//! Truncates long output and keeps the whole in a file.
//!
//! Files are kept for [`RETENTION`]; the server calls [`OutputDirectory::sweep`] regularly.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Lifetime of files with whole outputs.
pub const RETENTION: Duration = Duration::from_hours(7 * 24);

/// Prefix of file names. Only files with it are ever removed.
const PREFIX: &str = "tool_";

/// Longest part of a file name that comes from the caller.
const MAX_NAME: usize = 80;

/// Limits on shown output; both apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub lines: usize,
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lines: 2000, bytes: 51_200 }
    }
}

/// The end of an output that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Head,
    Tail,
}

/// A truncated output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut<'t> {
    pub shown: &'t str,
    pub omitted: Omitted,
}

/// The omitted amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omitted {
    /// Whole lines, because there were too many.
    Lines(usize),
    /// Bytes, because lines were too long.
    Bytes(usize),
}

/// Truncates an output; `None` if it is within the limits.
pub fn cut(text: &str, limits: Limits, end: End) -> Option<Cut<'_>> {
    let count = text.split('\n').count();
    if count <= limits.lines && text.len() <= limits.bytes {
        return None;
    }
    let lines = part_by_lines(text, limits.lines, end);
    if lines.len() <= limits.bytes {
        return Some(Cut { shown: lines, omitted: Omitted::Lines(count - limits.lines) });
    }
    let shown = part_by_bytes(lines, limits.bytes, end);
    Some(Cut { shown, omitted: Omitted::Bytes(text.len() - shown.len()) })
}

fn part_by_lines(text: &str, lines: usize, end: End) -> &str {
    let mut breaks = text.match_indices('\n').map(|(at, _)| at);
    let part = match end {
        End::Head => breaks.nth(lines.saturating_sub(1)).and_then(|at| text.get(..at)),
        End::Tail => {
            text.rmatch_indices('\n').nth(lines.saturating_sub(1)).and_then(|(at, _)| text.get(at + 1..))
        }
    };
    part.unwrap_or(text)
}

/// Whole lines if possible; a single overlong line is cut.
fn part_by_bytes(text: &str, bytes: usize, end: End) -> &str {
    match end {
        End::Head => {
            let part = text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
            part.rfind('\n').and_then(|at| part.get(..at)).unwrap_or(part)
        }
        End::Tail => {
            let part =
                text.get(text.ceil_char_boundary(text.len().saturating_sub(bytes))..).unwrap_or_default();
            part.find('\n').and_then(|at| part.get(at + 1..)).filter(|rest| !rest.is_empty()).unwrap_or(part)
        }
    }
}

/// A directory of whole outputs, accessible only to its owner because outputs may contain anything that tools
/// read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputDirectory {
    directory: PathBuf,
}

impl OutputDirectory {
    /// The directory is created on first use.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a whole output to a new file.
    pub fn keep(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let (path, mut file) = self.create(name)?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }

    /// Creates an empty file with a name based on `name`.
    pub fn create(&self, name: &str) -> io::Result<(PathBuf, File)> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.directory)?;
        let plain =
            |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
        let name: String = name
            .chars()
            .map(|character| if plain(character) { character } else { '_' })
            .take(MAX_NAME)
            .collect();
        // Models number their calls, but not always uniquely.
        for number in 0_u32.. {
            let suffix = if number == 0 { String::new() } else { format!("_{number}") };
            let path = self.directory.join(format!("{PREFIX}{name}{suffix}"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes files older than `age` and returns their number.
    pub fn sweep(&self, now: SystemTime, age: Duration) -> io::Result<usize> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut removed = 0;
        for entry in entries.flatten() {
            let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
            let changed = entry.metadata().and_then(|about| about.modified());
            let old = changed.is_ok_and(|time| now.duration_since(time).is_ok_and(|passed| passed > age));
            if ours && old && fs::remove_file(entry.path()).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    const SMALL: Limits = Limits { lines: 3, bytes: 10 };

    fn shown(text: &str, end: End) -> Option<(&str, Omitted)> {
        cut(text, SMALL, end).map(|cut| (cut.shown, cut.omitted))
    }

    #[test]
    fn short_outputs_are_not_truncated() {
        for text in ["", "a\nb\nc", "0123456789", "a\nb\n"] {
            assert_eq!(shown(text, End::Head), None, "{text:?}");
        }
    }

    #[test]
    fn too_many_lines_are_cut_at_either_end() {
        assert_eq!(shown("a\nb\nc\nd\ne", End::Head), Some(("a\nb\nc", Omitted::Lines(2))));
        assert_eq!(shown("a\nb\nc\nd\ne", End::Tail), Some(("c\nd\ne", Omitted::Lines(2))));
    }

    #[test]
    fn too_many_bytes_are_cut_at_a_line_or_else_at_a_character() {
        assert_eq!(shown("1234\n5678\n90", End::Head), Some(("1234\n5678", Omitted::Bytes(3))));
        assert_eq!(shown("12\n3456\n7890", End::Tail), Some(("3456\n7890", Omitted::Bytes(3))));
        assert_eq!(shown("ééééééé", End::Head), Some(("ééééé", Omitted::Bytes(4))));
        assert_eq!(shown("aééééééé", End::Tail), Some(("ééééé", Omitted::Bytes(5))));
        assert_eq!(shown("12345678901\n", End::Tail), Some(("345678901\n", Omitted::Bytes(2))));
    }

    #[test]
    fn outputs_are_kept_apart_and_private() {
        let directory = TempDir::new().unwrap();
        let output_directory = OutputDirectory::new(directory.path().join("deep/er"));
        let one = output_directory.keep("ses_1/../call:1", "one").unwrap();
        let two = output_directory.keep("ses_1/../call:1", "two").unwrap();
        assert_eq!(one.file_name().unwrap(), "tool_ses_1____call_1");
        assert_eq!(two.file_name().unwrap(), "tool_ses_1____call_1_1");
        assert_eq!(fs::read_to_string(&one).unwrap(), "one");
        assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(output_directory.directory()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn only_old_outputs_are_removed() {
        let directory = TempDir::new().unwrap();
        let output_directory = OutputDirectory::new(directory.path());
        let kept = output_directory.keep("a", "x").unwrap();
        fs::write(directory.path().join("precious"), "x").unwrap();
        let now = fs::metadata(&kept).unwrap().modified().unwrap();
        assert_eq!(output_directory.sweep(now + RETENTION, RETENTION).unwrap(), 0);
        assert_eq!(output_directory.sweep(now + RETENTION + Duration::from_mins(1), RETENTION).unwrap(), 1);
        assert!(!kept.exists() && directory.path().join("precious").exists());
        assert_eq!(OutputDirectory::new("/no/such/directory").sweep(now, RETENTION).unwrap(), 0);
    }
}
