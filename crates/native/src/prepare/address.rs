//! The URLs of attachments. Pure.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose};
use reqwest::Url;
use workspace::files::{MAX_LINES, Window};

/// Base64 with or without padding, because clients write both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The location of an attachment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address<'a> {
    /// In the URL itself.
    Data(Data<'a>),
    /// In a file of this machine, or some lines of one.
    File(PathBuf, Option<Window>),
    /// On the web. The server does not read it.
    Web,
}

/// The contents of a `data:` URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Data<'a> {
    base64: bool,
    content: &'a str,
}

impl<'a> Address<'a> {
    /// Parses a URL. The error describes the fault.
    pub(super) fn parse(url: &'a str) -> Result<Self, String> {
        if let Some(rest) = url.strip_prefix("data:") {
            let (head, content) = rest.split_once(',').ok_or("its data: URL has no comma")?;
            return Ok(Self::Data(Data { base64: head.ends_with(";base64"), content }));
        }
        let parsed = Url::parse(url).map_err(|error| format!("its URL is invalid ({error})"))?;
        match parsed.scheme() {
            "http" | "https" => Ok(Self::Web),
            "file" => {
                let path = parsed.to_file_path().map_err(|()| "its URL names no file of this machine")?;
                Ok(Self::File(path, window(&parsed)))
            }
            other => Err(format!("its URL must begin with data:, file: or https:, not with {other}:")),
        }
    }
}

impl Data<'_> {
    /// Returns the length in base64.
    pub(super) fn size(&self) -> usize {
        if self.base64 { self.content.len() } else { self.content.len().div_ceil(3).saturating_mul(4) }
    }

    /// Decodes the contents as text.
    pub(super) fn text(&self) -> Result<String, String> {
        let plain = unescape(self.content);
        let bytes = if self.base64 {
            BASE64.decode(&plain).map_err(|error| format!("its data: URL is not valid base64 ({error})"))?
        } else {
            plain
        };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the URL with its contents in base64, as models require.
    pub(super) fn embedded(&self, mime: &str) -> String {
        let content = unescape(self.content);
        if self.base64 {
            return format!("data:{mime};base64,{}", String::from_utf8_lossy(&content));
        }
        format!("data:{mime};base64,{}", general_purpose::STANDARD.encode(content))
    }
}

/// Returns the lines that `?start=&end=` selects, counted from 1, both included.
fn window(url: &Url) -> Option<Window> {
    let number = |wanted: &str| {
        let mut pairs = url.query_pairs();
        pairs.find(|(name, _)| name == wanted).and_then(|(_, value)| value.parse::<usize>().ok())
    };
    let offset = number("start")?.max(1);
    let limit = number("end").map_or(MAX_LINES, |end| end.saturating_sub(offset).saturating_add(1));
    Some(Window { offset, limit: limit.max(1) })
}

/// Decodes percent-encoding.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().iter();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let rest = bytes.as_slice();
        let digit = |at: usize| rest.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (*byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                plain.push(u8::try_from(high * 16 + low).unwrap_or_default());
                bytes.nth(1);
            }
            (byte, ..) => plain.push(byte),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(url: &str) -> Result<String, String> {
        match Address::parse(url)? {
            Address::Data(data) => data.text(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn data_is_read_with_and_without_base64() {
        assert_eq!(text("data:text/plain;base64,aGk=").unwrap(), "hi");
        assert_eq!(text("data:text/plain;base64,aGk").unwrap(), "hi");
        assert_eq!(text("data:text/plain;charset=utf-8;base64,aGk%3D").unwrap(), "hi");
        assert_eq!(text("data:,a%20b%2,%zz").unwrap(), "a b%2,%zz");
        assert_eq!(text("data:,").unwrap(), "");
        assert!(text("data:text/plain").unwrap_err().contains("comma"));
        assert!(text("data:;base64,!").unwrap_err().contains("base64"));
    }

    #[test]
    fn embedded_data_is_base64() {
        let Ok(Address::Data(data)) = Address::parse("data:image/png,%00") else { panic!("no data") };
        assert_eq!((data.embedded("image/png").as_str(), data.size()), ("data:image/png;base64,AA==", 4));
    }

    #[test]
    fn files_have_a_path_and_perhaps_lines() {
        let file = |url: &str| match Address::parse(url) {
            Ok(Address::File(path, window)) => {
                (path.to_string_lossy().into_owned(), window.map(|it| (it.offset, it.limit)))
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(file("file:///a/b%20c.rs"), ("/a/b c.rs".into(), None));
        assert_eq!(file("file:///a?start=3&end=5").1, Some((3, 3)));
        assert_eq!(file("file:///a?start=3&end=3").1, Some((3, 1)));
        assert_eq!(file("file:///a?start=0").1, Some((1, MAX_LINES)));
        assert_eq!(file("file:///a?start=5&end=3").1, Some((5, 1)));
        assert_eq!(file(&format!("file:///a?start={0}&end={0}", usize::MAX)).1, Some((usize::MAX, 1)));
        assert_eq!(file("file:///a?start=x").1, None);
    }

    #[test]
    fn other_addresses_are_refused_with_a_reason() {
        for url in ["file://host/a", "ftp://a/b", "/a/b", "", "javascript:alert(1)"] {
            assert!(!Address::parse(url).unwrap_err().is_empty(), "{url}");
        }
        assert_eq!(Address::parse("https://x.test/a.png"), Ok(Address::Web));
    }
}
