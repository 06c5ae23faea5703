//! The browser interface as a table of files.
//!
//! The build script compiles the TypeScript in `ui/` and packs the result. Without Node it packs one page that says
//! how to get the interface, so the Rust build never depends on Node. `server` serves the table; no other room uses
//! it.

/// One file of the page.
#[derive(Debug)]
pub struct Asset {
    /// The path relative to the page, such as `web/assets/index-3f2a.js`; `index.html` is the page itself.
    pub path: &'static str,
    /// The media type.
    pub kind: &'static str,
    /// SHA-1 of the unpacked content, in hexadecimal digits.
    pub hash: &'static str,
    /// The content, compressed with gzip.
    pub gzip: &'static [u8],
}

/// The path of the page itself.
pub const SHELL: &str = "index.html";
/// The path of the document that shows a terminal in a frame of the page.
pub const TERMINAL: &str = "terminal.html";
/// Documents beside the shell, whose names do not change with their content.
pub const BESIDE: [&str; 2] = [TERMINAL, "service-worker.js"];

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The file at a path relative to the page.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_page_and_no_two_files_of_one_name() {
        let shell = find(SHELL).expect("there is always a page");
        assert_eq!(shell.kind, "text/html; charset=utf-8");
        for (index, asset) in ASSETS.iter().enumerate() {
            assert!(asset.gzip.starts_with(&[0x1f, 0x8b]), "{} is not compressed", asset.path);
            assert_eq!(asset.hash.len(), 40, "{}", asset.path);
            assert!(ASSETS[..index].iter().all(|other| other.path != asset.path), "{}", asset.path);
        }
    }

    #[test]
    fn only_the_documents_lie_outside_of_the_assets() {
        for asset in ASSETS.iter().filter(|asset| asset.path != SHELL && !BESIDE.contains(&asset.path)) {
            assert!(asset.path.starts_with("web/assets/"), "{}", asset.path);
        }
        assert!(find("../Cargo.toml").is_none());
    }

    #[test]
    fn a_built_page_stays_within_its_budget() {
        let total: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(total <= 450 * 1024, "{total} bytes");
        assert!(
            !IS_BUILT || BESIDE.iter().all(|path| find(path).is_some()),
            "a built page has all documents"
        );
    }
}
