//! Computes the result of a patch and writes all files or none.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::path::{Path, PathBuf};

use super::{Error, Operation, hunks};
use crate::files::{self, LineEnds};

/// Result for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchedFile {
    pub path: PathBuf,
    /// New path, if the file moves.
    pub target: Option<PathBuf>,
    /// Old content; `None` if the file did not exist.
    pub before: Option<String>,
    /// New content; `None` if the file was deleted.
    pub after: Option<String>,
}

/// The result of a patch without writing it.
pub fn prepare(operations: &[Operation]) -> Result<Vec<PatchedFile>, Error> {
    Ok(Plan::new(operations)?.outcomes)
}

/// Applies a patch to the current files.
pub fn apply(operations: &[Operation]) -> Result<Vec<PatchedFile>, Error> {
    let paths = operations.iter().flat_map(Operation::paths).map(PathBuf::as_path);
    files::hold(paths, || {
        let plan = Plan::new(operations)?;
        plan.carry_out()?;
        Ok(plan.outcomes)
    })
}

#[derive(Default)]
struct Plan {
    outcomes: Vec<PatchedFile>,
    /// Planned content of each file; `None` if it will be deleted. Later operations see the results of earlier
    /// ones.
    files: BTreeMap<PathBuf, Option<String>>,
    /// Source of a moved file, for its permissions.
    moved: BTreeMap<PathBuf, PathBuf>,
}

impl Plan {
    fn new(operations: &[Operation]) -> Result<Self, Error> {
        let mut plan = Self::default();
        for operation in operations {
            plan.add(operation)?;
        }
        Ok(plan)
    }

    fn add(&mut self, operation: &Operation) -> Result<(), Error> {
        match operation {
            Operation::Add { path, content } => {
                let before = self.current(path)?;
                let ends = before.as_deref().map_or(LineEnds::Unix, LineEnds::of);
                self.becomes(path, None, before, Some(ends.apply(content)));
            }
            Operation::Delete { path } => {
                let before = self.current(path)?.ok_or_else(|| files::Error::NotFound(path.clone()))?;
                self.becomes(path, None, Some(before), None);
            }
            Operation::Update { path, target, hunks } => {
                let before = match self.files.get(path) {
                    Some(known) => known.clone().ok_or_else(|| files::Error::NotFound(path.clone()))?,
                    None => files::text(path)?,
                };
                let (mark, body) = files::split_mark(&before);
                let after = format!("{mark}{}", hunks::apply(path, body, hunks)?);
                let target = target.as_ref().filter(|target| *target != path);
                if let Some(target) = target {
                    if self.current(target)?.is_some() {
                        return Err(Error::Exists(target.clone()));
                    }
                    self.moved.insert(target.clone(), path.clone());
                }
                self.becomes(path, target.cloned(), Some(before), Some(after));
            }
        }
        Ok(())
    }

    /// Content of a file at this point of the patch.
    fn current(&self, path: &Path) -> Result<Option<String>, Error> {
        match self.files.get(path) {
            Some(known) => Ok(known.clone()),
            None => Ok(files::current(path)?),
        }
    }

    fn becomes(
        &mut self,
        path: &Path,
        target: Option<PathBuf>,
        before: Option<String>,
        after: Option<String>,
    ) {
        match &target {
            Some(target) => {
                self.files.insert(path.to_owned(), None);
                self.files.insert(target.clone(), after.clone());
            }
            None => {
                self.files.insert(path.to_owned(), after.clone());
            }
        }
        self.outcomes.push(PatchedFile { path: path.to_owned(), target, before, after });
    }

    /// Writes everything, or restores the written files if one fails.
    fn carry_out(&self) -> Result<(), Error> {
        // Writes before it removes, because a moved file takes its permissions from the old path.
        let mut files: Vec<(&PathBuf, Option<&str>)> =
            self.files.iter().map(|(path, content)| (path, content.as_deref())).collect();
        files.sort_by_key(|(_, content)| content.is_none());
        // Saves every file before it changes any, so that each changed file can be restored.
        let kept: Vec<OriginalFile> =
            files.iter().map(|(path, _)| OriginalFile::of(path)).collect::<Result<_, _>>()?;
        let mut done = 0;
        let result = files.iter().try_for_each(|(path, content)| {
            done += 1;
            self.write(path, *content)
        });
        if result.is_err() {
            for file in kept.iter().take(done) {
                file.put_back();
            }
        }
        result
    }

    fn write(&self, path: &Path, content: Option<&str>) -> Result<(), Error> {
        match content {
            Some(content) => {
                let source = self.moved.get(path).and_then(|from| fs::metadata(from).ok());
                files::save(path, content)?;
                if let Some(about) = source {
                    fs::set_permissions(path, about.permissions()).map_err(files::Error::io(path))?;
                }
                Ok(())
            }
            None if path.exists() => Ok(fs::remove_file(path).map_err(files::Error::io(path))?),
            None => Ok(()),
        }
    }
}

/// The content and permissions of a file before the patch.
struct OriginalFile {
    path: PathBuf,
    content: Option<(Vec<u8>, Permissions)>,
}

impl OriginalFile {
    fn of(path: &Path) -> Result<Self, Error> {
        let content = match files::load(path) {
            Ok(bytes) => Some((bytes, fs::metadata(path).map_err(files::Error::io(path))?.permissions())),
            Err(files::Error::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { path: path.to_owned(), content })
    }

    /// Restores the file as far as possible: the cause that broke the patch may break this, too.
    fn put_back(&self) {
        let result = match &self.content {
            Some((bytes, permissions)) => {
                let restored = fs::write(&self.path, bytes);
                restored.and_then(|()| fs::set_permissions(&self.path, permissions.clone()))
            }
            None => fs::remove_file(&self.path),
        };
        if let Err(error) = result
            && self.content.is_some()
        {
            tracing::error!(path = %self.path.display(), %error, "cannot restore a file after a failed patch");
        }
    }
}
