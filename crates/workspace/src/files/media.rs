//! Images and documents, which models view instead of reading them as text.

use std::io::{Read, Seek};
use std::path::Path;

use super::Error;
use super::open::{content, open};

/// Largest image or document, in bytes. Encoded in base64 it is a third larger, which still fits the limits of
/// providers and of one event.
pub const MAX_MEDIA: u64 = 15 * 256 * 1024;

/// An image or a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Type determined by the first bytes, not by the name.
    pub mime: &'static str,
    pub bytes: Vec<u8>,
}

impl Media {
    pub fn is_image(&self) -> bool {
        self.mime.starts_with("image/")
    }
}

/// Reads an image or a PDF; `None` if the file is neither.
pub fn media(path: &Path) -> Result<Option<Media>, Error> {
    let mut opening = [0; 16];
    let mut file = match open(path) {
        Ok(file) => file,
        Err(Error::IsDirectory(_) | Error::Binary(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.metadata().map_err(Error::io(path))?.len();
    let read = file.read(&mut opening).map_err(Error::io(path))?;
    let Some(mime) = mime(opening.get(..read).unwrap_or_default()) else { return Ok(None) };
    if size > MAX_MEDIA {
        return Err(Error::MediaTooLarge { path: path.to_owned(), mime, size });
    }
    file.rewind().map_err(Error::io(path))?;
    Ok(Some(Media { mime, bytes: content(path, &mut file)? }))
}

/// The type of an image or document that begins with these bytes; `None` for all others.
pub fn mime(opening: &[u8]) -> Option<&'static str> {
    match opening {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::temporary;
    use super::*;

    #[test]
    fn media_types_follow_from_the_first_bytes() {
        for (opening, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"%PDF-1.7\n", Some("application/pdf")),
            (b"<svg/>", None),
            (b"\x7fELF", None),
            (b"", None),
        ] {
            let file = temporary::file();
            std::fs::write(file.path(), opening).unwrap();
            let found = media(file.path()).unwrap();
            assert_eq!(found.as_ref().map(|media| media.mime), expected);
            assert!(found.is_none_or(|media| media.bytes == opening));
        }
        assert_eq!(media(&std::env::temp_dir().canonicalize().unwrap()).unwrap(), None);
        assert_eq!(media(Path::new("/dev/zero")).unwrap(), None);
        assert!(matches!(media(Path::new("/no/such/file")), Err(Error::NotFound(_))));
    }

    #[test]
    fn reading_a_pipe_without_a_writer_does_not_block() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let directory = temporary::directory();
        let pipe = directory.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(media(&pipe).unwrap(), None);
        assert!(matches!(crate::files::read(&pipe, crate::files::Window::default()), Err(Error::Binary(_))));
    }

    #[test]
    fn files_that_are_too_large_are_refused_unread() {
        let file = temporary::file();
        std::fs::write(file.path(), b"%PDF-1.7\n").unwrap();
        file.as_file().set_len(MAX_MEDIA + 1).unwrap();
        let error = media(file.path()).unwrap_err().to_string();
        assert!(error.contains("application/pdf") && error.contains("too large"), "{error}");
    }
}
