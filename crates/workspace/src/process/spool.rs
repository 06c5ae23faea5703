//! Writes the whole output of a program to a file.

use std::path::PathBuf;

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::Output;
use crate::output::OutputDirectory;

/// Largest file, in bytes. Output beyond it is only counted.
pub const MAX_SPOOL: u64 = 64 * 1024 * 1024;

/// Destination of output that exceeds the captured amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spool {
    pub output_directory: OutputDirectory,
    /// Name of the file.
    pub name: String,
}

/// The file, created on demand. A full disk does not stop a program; the file is then missing or shorter.
#[derive(Debug)]
pub(super) enum Spooling {
    /// No file was requested, or it could not be created.
    Off,
    /// The file was not needed yet.
    Ready(Spool),
    Open {
        path: PathBuf,
        file: File,
        size: u64,
    },
}

impl Spooling {
    pub(super) fn new(spool: Option<Spool>) -> Self {
        spool.map_or(Self::Off, Self::Ready)
    }

    /// Adds the next bytes, before they become part of `before`.
    pub(super) async fn add(&mut self, before: &Output, bytes: &[u8]) {
        if let Self::Ready(spool) = self {
            if !before.overflows(bytes.len()) {
                return;
            }
            let Spool { output_directory, name } = spool.clone();
            let created = tokio::task::spawn_blocking(move || output_directory.create(&name)).await;
            *self = match created {
                Ok(Ok((path, file))) => Self::Open { path, file: File::from_std(file), size: 0 },
                _ => Self::Off,
            };
            self.write(&before.bytes()).await;
        }
        self.write(bytes).await;
    }

    async fn write(&mut self, bytes: &[u8]) {
        let Self::Open { file, size, .. } = self else { return };
        let room = MAX_SPOOL.saturating_sub(*size);
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        *size += u64::try_from(fits).unwrap_or_default();
        if file.write_all(bytes.get(..fits).unwrap_or_default()).await.is_err() {
            *self = Self::Off;
        }
    }

    /// Completes the file and returns its path, if there is one.
    pub(super) async fn finish(&mut self) -> Option<PathBuf> {
        let Self::Open { path, mut file, size } = std::mem::replace(self, Self::Off) else { return None };
        if size >= MAX_SPOOL {
            let remark = "\n[... the rest of the output was not kept ...]\n";
            file.write_all(remark.as_bytes()).await.ok()?;
        }
        file.flush().await.ok()?;
        Some(path)
    }
}
