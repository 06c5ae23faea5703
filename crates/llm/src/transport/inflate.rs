//! Decompresses responses. None is requested compressed, because compression delays the pieces of a stream, but
//! some gateways compress all the same.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::write::{GzDecoder, ZlibDecoder};

use crate::Error;

/// Decompressor of one response.
#[derive(Debug)]
pub(super) enum Inflate {
    Plain,
    Gzip(Box<GzDecoder<Vec<u8>>>),
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
}

impl Inflate {
    /// The decompressor for a `content-encoding`.
    pub(super) fn of(encoding: Option<&str>) -> Result<Self, Error> {
        match encoding.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Plain),
            "gzip" | "x-gzip" => Ok(Self::Gzip(Box::new(GzDecoder::new(Vec::new())))),
            "deflate" => Ok(Self::Zlib(Box::new(ZlibDecoder::new(Vec::new())))),
            other => Err(Error::Garbled(format!("unsupported compression `{other}`"))),
        }
    }

    /// Decompresses the next bytes as far as possible.
    pub(super) fn push(&mut self, bytes: Bytes) -> Result<Bytes, Error> {
        let inflated = match self {
            Self::Plain => return Ok(bytes),
            Self::Gzip(decoder) => decoder
                .write_all(&bytes)
                .and_then(|()| decoder.flush())
                .map(|()| std::mem::take(decoder.get_mut())),
            Self::Zlib(decoder) => decoder
                .write_all(&bytes)
                .and_then(|()| decoder.flush())
                .map(|()| std::mem::take(decoder.get_mut())),
        };
        inflated
            .map(Bytes::from)
            .map_err(|error: io::Error| Error::Garbled(format!("decompression failed ({error})")))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    #[test]
    fn compressed_pieces_are_decompressed_without_delay() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        let mut pieces = Vec::new();
        for text in ["data: one\n\n", "data: zwei €\n\n"] {
            gzip.write_all(text.as_bytes()).unwrap();
            gzip.flush().unwrap();
            pieces.push((text, std::mem::take(gzip.get_mut())));
        }
        let mut inflate = Inflate::of(Some("gzip")).unwrap();
        for (text, piece) in pieces {
            assert_eq!(inflate.push(piece.into()).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn zlib_is_decompressed_byte_by_byte() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(b"hello hello hello").unwrap();
        let bytes = zlib.finish().unwrap();
        let mut inflate = Inflate::of(Some("Deflate")).unwrap();
        let text: Vec<u8> =
            bytes.chunks(1).flat_map(|piece| inflate.push(Bytes::copy_from_slice(piece)).unwrap()).collect();
        assert_eq!(text, b"hello hello hello");
    }

    #[test]
    fn other_compression_and_invalid_data_are_errors() {
        assert!(matches!(Inflate::of(Some("br")), Err(Error::Garbled(_))));
        let mut inflate = Inflate::of(Some("gzip")).unwrap();
        assert!(matches!(
            inflate.push(Bytes::from_static(b"data: one\n\n, uncompressed")),
            Err(Error::Garbled(_))
        ));
        assert_eq!(Inflate::of(None).unwrap().push(Bytes::from_static(b"x")).unwrap(), "x");
    }
}
