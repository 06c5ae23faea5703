//! Serves the web page: the shell at `/`, the documents beside it (the terminal, the service worker), and its files
//! below `/web/assets/`.
//!
//! The files contain no secret, so they need no password; every call that the page makes does. Addresses in the page
//! are relative, so it works behind a proxy that strips a prefix. No other path falls back to the page: an unknown path
//! remains the API's 404.

use std::{
    io::Read,
    path::{Component, Path, PathBuf},
};

use axum::{
    Router,
    extract::{self, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request::Parts};
use sha1::{Digest, Sha1};

use crate::{App, Error, error::Fault, greeting::greet};

/// Prefix of the page's files.
const ASSETS: &str = "/web/assets/";
/// Names in which a hash of the content makes them immutable.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
/// Header of the health route and of event streams that identifies the page of this server, so that an open page
/// notices when a newer one is served.
const BUILD: HeaderName = HeaderName::from_static("x-baton-page");

/// Only the server's own files, no inline script or style, no other host, no frame around the page. Trusted types
/// refuse a string where the browser would parse HTML; the policy `baton` is for the page's compiled templates.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
     connect-src 'self'; worker-src 'self'; manifest-src 'self'; frame-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types baton",
);
const PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), fullscreen=(), \
     geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), \
     picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), usb=(), \
     xr-spatial-tracking=(), clipboard-read=(), clipboard-write=(self)",
);
/// Policy of the terminal's document, which only the page may frame. xterm writes style elements and does not use
/// trusted types; its own document keeps both exceptions away from the page.
const TERMINAL_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
);
const PROTECTION: [(HeaderName, HeaderValue); 4] = [
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("permissions-policy"), PERMISSIONS),
];

/// The source of the page's files.
#[derive(Debug, Clone, Default)]
pub enum Page {
    /// The files in the binary.
    Embedded,
    /// A directory, for the development of the page.
    Folder(PathBuf),
    /// No page: `/` answers with the name and version of the server.
    #[default]
    Off,
}

/// True if the binary contains the page, and not the note that replaces it.
pub const IS_BUILT: bool = web::IS_BUILT;

pub(crate) fn routes() -> Router<App> {
    let page = Router::new().route("/", get(shell)).route("/web/assets/{*path}", get(asset));
    web::BESIDE.iter().fold(page, |page, name| page.route(&format!("/{name}"), get(beside)))
}

/// True if a call only reads a file of the page.
pub(crate) fn is_page(call: &Parts) -> bool {
    let path = call.uri.path();
    let is_file = path == "/" || path.starts_with(ASSETS) || is_beside(path);
    matches!(call.method, Method::GET | Method::HEAD) && is_file
}

fn is_beside(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|name| web::BESIDE.contains(&name))
}

/// Adds the page's build to the responses by which an open page notices a newer one.
pub(crate) async fn tell_build(call: Request, next: Next) -> Response {
    let tells = matches!(call.uri().path(), "/global/health" | "/global/event" | "/event");
    let mut response = next.run(call).await;
    if tells {
        response.headers_mut().insert(BUILD, HeaderValue::from_static(web::BUILD));
    }
    response
}

async fn shell(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Response {
    if matches!(*app.page, Page::Off) {
        return greet(&app, &headers);
    }
    serve(&app.page, web::SHELL, &uri, &headers, REVALIDATE).await
}

async fn asset(
    State(app): State<App>,
    extract::Path(path): extract::Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    serve(&app.page, &format!("web/assets/{path}"), &uri, &headers, FOREVER).await
}

/// A document with a fixed name beside the shell. A service worker's address must not change, because a browser
/// compares what it finds there with the worker that it runs.
async fn beside(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/').to_owned();
    serve(&app.page, &path, &uri, &headers, REVALIDATE).await
}

async fn serve(page: &Page, path: &str, uri: &Uri, headers: &HeaderMap, cache: HeaderValue) -> Response {
    let file = match page {
        Page::Embedded => web::find(path).and_then(|asset| File::embedded(asset, headers)),
        // The names of a folder under development are not unique to their content.
        Page::Folder(folder) => read(folder, path).await,
        Page::Off => None,
    };
    let cache = if matches!(page, Page::Embedded) { cache } else { REVALIDATE };
    match file {
        Some(file) => {
            let mut response = file.answer(headers, cache);
            response.headers_mut().extend(framing(path));
            response
        }
        None => Error::plain(Fault::NotFound, format!("There is nothing at {}.", uri.path())).into_response(),
    }
}

/// The headers that say what a document may load and which documents may show it in a frame.
fn framing(path: &str) -> [(HeaderName, HeaderValue); 2] {
    let (policy, frames) =
        if path == web::TERMINAL { (TERMINAL_POLICY, "SAMEORIGIN") } else { (POLICY, "DENY") };
    [(header::CONTENT_SECURITY_POLICY, policy), (header::X_FRAME_OPTIONS, HeaderValue::from_static(frames))]
}

/// A file as one client receives it.
struct File {
    kind: HeaderValue,
    tag: String,
    is_packed: bool,
    content: Bytes,
}

impl File {
    /// The stored, compressed content, or the unpacked one for a client that does not accept it.
    fn embedded(asset: &'static web::Asset, headers: &HeaderMap) -> Option<Self> {
        let kind = HeaderValue::from_static(asset.kind);
        if accepts_gzip(headers) {
            let (tag, content) = (format!("\"{}-gzip\"", asset.hash), Bytes::from_static(asset.gzip));
            return Some(Self { kind, tag, is_packed: true, content });
        }
        let mut content = Vec::new();
        GzDecoder::new(asset.gzip).read_to_end(&mut content).ok()?;
        Some(Self { kind, tag: format!("\"{}\"", asset.hash), is_packed: false, content: content.into() })
    }

    fn answer(self, asked: &HeaderMap, cache: HeaderValue) -> Response {
        let is_known = knows(asked, &self.tag);
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, self.kind)], self.content).into_response()
        };
        let headers = response.headers_mut();
        headers.extend(PROTECTION);
        headers.insert(header::CACHE_CONTROL, cache);
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(header::ETAG, tag);
        }
        if self.is_packed && !is_known {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// Reads a file below a folder. A path that leads out of the folder finds nothing.
async fn read(folder: &Path, path: &str) -> Option<File> {
    let path = Path::new(path);
    if !path.components().all(|component| matches!(component, Component::Normal(_))) {
        return None;
    }
    let content = tokio::fs::read(folder.join(path)).await.ok()?;
    let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(Sha1::digest(&content)));
    let kind = HeaderValue::from_static(kind(path));
    Some(File { kind, tag, is_packed: false, content: content.into() })
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut words = coding.split(';').map(str::trim);
        let is_gzip = words.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let is_refused = words.any(|word| matches!(word, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        is_gzip && !is_refused
    })
}

/// True if the client already has the version with this tag.
fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        for (value, accepted) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.8", true),
            ("*", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(&headers(header::ACCEPT_ENCODING, value)), accepted, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn a_known_version_is_recognised_in_a_list_and_when_it_is_weak() {
        for (value, known) in [("\"a\"", true), ("\"b\", W/\"a\"", true), ("*", true), ("\"b\"", false)] {
            assert_eq!(knows(&headers(header::IF_NONE_MATCH, value), "\"a\""), known, "{value}");
        }
    }

    #[tokio::test]
    async fn a_folder_is_served_and_not_left() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("page");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(folder.path().join("secret.html"), "secret").unwrap();
        std::fs::write(inside.join("index.html"), "page").unwrap();
        assert_eq!(read(&inside, "index.html").await.unwrap().content, "page");
        for path in ["../secret.html", "web/assets/../../../secret.html", "/etc/passwd", "none.html", ""] {
            assert!(read(&inside, path).await.is_none(), "{path}");
        }
    }

    #[test]
    fn only_reading_the_page_needs_no_password() {
        let is_open = |method: Method, path: &str| {
            let call = http::Request::builder().method(method).uri(path).body(()).unwrap();
            is_page(&call.into_parts().0)
        };
        assert!(is_open(Method::GET, "/") && is_open(Method::HEAD, "/web/assets/index.js"));
        assert!(is_open(Method::GET, "/?x=1"));
        assert!(is_open(Method::GET, "/terminal.html") && is_open(Method::GET, "/service-worker.js"));
        for path in [
            "/terminal.html/x",
            "/terminal",
            "/session",
            "/web/session",
            "/web/assets",
            "//",
            "/web/../session",
        ] {
            assert!(!is_open(Method::GET, path), "{path}");
        }
        assert!(!is_open(Method::POST, "/") && !is_open(Method::POST, "/terminal.html"));
    }

    #[test]
    fn only_the_terminal_allows_inline_styles_and_a_frame_and_only_of_the_page() {
        let policy = |path: &str| framing(path)[0].1.to_str().unwrap().to_owned();
        assert!(policy(web::TERMINAL).contains("style-src 'self' 'unsafe-inline'"));
        assert!(policy(web::TERMINAL).contains("frame-ancestors 'self'"));
        assert!(policy(web::TERMINAL).contains("script-src 'self';"));
        for path in [web::SHELL, "service-worker.js", "web/assets/index.js"] {
            assert!(!policy(path).contains("unsafe"), "{path}");
            assert!(policy(path).contains("frame-ancestors 'none'"), "{path}");
        }
    }
}
