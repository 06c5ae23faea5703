//! Checks of `Host`, `Origin` and `Sec-Fetch-Site`: the server's names and the pages that may call it.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts, uri::Authority};

/// Names of the machine itself, accepted on every bind address.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Header in which browsers report the site a call comes from. Unlike `Origin`, browsers also send it with
/// images, scripts and links.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Origins of OpenCode's desktop programs.
const DESKTOP_PAGES: [&str; 4] =
    ["tauri://localhost", "oc://renderer", "http://tauri.localhost", "https://tauri.localhost"];

/// Header in which browsers report the kind of a call.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Returns true if a page's script makes the call, and not a user who opens an address. Such a call gets no challenge
/// for a password, because the browser would show its own dialog in front of the page.
pub(super) fn is_call_of_a_page(headers: &HeaderMap) -> bool {
    headers.get(FETCH_MODE).is_some_and(|mode| mode != "navigate")
}

/// The origin of the calling page, if a page calls.
pub(super) fn of(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(header::ORIGIN)
}

/// The name of a host without port and brackets; `None` if the text is not a host.
pub(super) fn host_name(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let authority = Authority::from_str(text).ok()?;
    if authority.as_str().contains('@') {
        return None;
    }
    let host = authority.host();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// Returns true if the call names this server. A call may do so in the request line and in `Host`; both must be
/// right, because a proxy may read either.
pub(super) fn host_is_ours(call: &Parts, more: &[String], local: Option<SocketAddr>) -> bool {
    let target = call.uri.authority().map(|authority| Ok(authority.as_str()));
    let headers = call.headers.get_all(header::HOST).iter().map(HeaderValue::to_str);
    let mut named = target.into_iter().chain(headers).peekable();
    let ours =
        |name: &String| LOCAL_HOSTS.contains(&name.as_str()) || more.contains(name) || is_local(name, local);
    named.peek().is_some() && named.all(|name| name.ok().and_then(host_name).is_some_and(|name| ours(&name)))
}

/// A server bound to all addresses accepts the address on which the call arrived. That is safe: a page in a DNS
/// rebinding attack uses a name, not this address.
fn is_local(name: &str, local: Option<SocketAddr>) -> bool {
    let address = name.parse::<IpAddr>().map(|address| address.to_canonical());
    local.is_some_and(|local| address == Ok(local.ip().to_canonical()))
}

/// Returns true if the calling page may call, or if no page calls.
///
/// Pages on other ports of this machine may not, because another user or a program in a container can serve
/// one. Programs other than browsers send neither header and are not affected.
pub(super) fn is_allowed(call: &Parts, more: &[String]) -> bool {
    let mut origins = call.headers.get_all(header::ORIGIN).iter();
    let origin = match (origins.next(), origins.next()) {
        (None, _) => return !is_from_another_site(call),
        (Some(origin), None) => origin.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return false,
    };
    DESKTOP_PAGES.contains(&origin)
        || more.iter().any(|other| other == origin)
        || (is_own_page(origin, call) && !is_from_another_site(call))
}

/// Returns true if a browser reports that the call comes from another site, or from another origin of the same
/// site. Without an allowed `Origin` such a call is an image, a script, a form or a link, which browsers send
/// to any address without a preflight. An unknown value counts as another site.
fn is_from_another_site(call: &Parts) -> bool {
    let mut sites = call.headers.get_all(FETCH_SITE).iter();
    sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// Returns true for a page that this server itself sent; its host was checked before. The scheme may be either,
/// because a proxy may add TLS in front of this server.
fn is_own_page(origin: &str, call: &Parts) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let host = call.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = call.uri.authority().map(Authority::as_str).or(host);
    authority.is_some() && authority == host
}

/// Normalises a configured origin to the form that browsers send.
pub(super) fn configured(text: &str) -> Option<String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let authority = Authority::from_str(rest).ok()?;
    let is_plain = !rest.contains(['@', '*']) && !authority.host().is_empty();
    (is_scheme && is_plain).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri("/session");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn knows(host: &str) -> bool {
        let local = "192.168.1.5:4096".parse().unwrap();
        host_is_ours(&call(&[("host", host)]), &["baton.example".to_owned()], Some(local))
    }

    #[test]
    fn own_names_are_accepted_with_any_port_and_in_any_case() {
        for host in ["localhost", "localhost:4096", "LocalHost.", "127.0.0.1:1", "[::1]:4096", "[::1]"] {
            assert!(knows(host), "{host}");
        }
        for host in ["baton.example", "Baton.Example:443", "192.168.1.5:4096", "[::ffff:192.168.1.5]:4096"] {
            assert!(knows(host), "{host}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:4096",
            "localhost:80@evil.example",
            "evil@localhost",
            "192.168.1.6:4096",
            "127.0.0.2",
            "",
            ":4096",
        ] {
            assert!(!knows(host), "{host}");
        }
    }

    #[test]
    fn request_line_and_header_must_both_name_the_server() {
        let both = call(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(!host_is_ours(&both, &[], None));
        let mut absolute = call(&[("host", "localhost")]);
        absolute.uri = "http://evil.example/session".parse().unwrap();
        assert!(!host_is_ours(&absolute, &[], None));
        absolute.uri = "http://localhost:4096/session".parse().unwrap();
        assert!(host_is_ours(&absolute, &[], None));
        assert!(!host_is_ours(&call(&[]), &[], None), "a call that names no server");
    }

    fn may(origin: &str) -> bool {
        let request = call(&[("host", "baton.example:4096"), ("origin", origin)]);
        is_allowed(&request, &["https://app.example".to_owned()])
    }

    #[test]
    fn desktop_configured_and_own_pages_may_call() {
        for origin in [
            "tauri://localhost",
            "oc://renderer",
            "http://tauri.localhost",
            "https://tauri.localhost",
            "https://app.example",
            "http://baton.example:4096",
            "https://baton.example:4096",
        ] {
            assert!(may(origin), "{origin}");
        }
        assert!(is_allowed(&call(&[]), &[]), "no page at all");
    }

    #[test]
    fn other_pages_may_not() {
        for origin in [
            "http://evil.example",
            "null",
            "",
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:4096",
            "http://[::1]:4096",
            "http://localhost:1@evil.example",
            "https://opencode.ai",
            "http://app.example",
            "https://app.example.evil.example",
            "http://baton.example",
            "oc://renderer.evil.example",
        ] {
            assert!(!may(origin), "{origin}");
        }
        let two = call(&[("origin", "https://app.example"), ("origin", "https://app.example")]);
        assert!(!is_allowed(&two, &["https://app.example".to_owned()]));
    }

    #[test]
    fn pages_of_the_own_machine_may_call_their_own_port_only() {
        for host in ["localhost:4096", "127.0.0.1:4096", "[::1]:4096"] {
            let from = |origin: String| is_allowed(&call(&[("host", host), ("origin", &origin)]), &[]);
            assert!(from(format!("http://{host}")));
            assert!(!from(format!("http://{}", host.replace("4096", "5173"))));
        }
    }

    #[test]
    fn calls_from_another_site_need_an_allowed_origin() {
        let own = "http://localhost:4096";
        let from = |site: &str, origin: Option<&str>| {
            let mut headers = vec![("host", "localhost:4096"), ("sec-fetch-site", site)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            is_allowed(&call(&headers), &["http://localhost:5173".to_owned()])
        };
        for site in ["cross-site", "same-site", "Same-Origin", "", "something-new"] {
            assert!(!from(site, None), "an image or a link: {site}");
            assert!(!from(site, Some(own)), "another scheme of the same name: {site}");
            assert!(from(site, Some("http://localhost:5173")), "{site}");
            assert!(from(site, Some("tauri://localhost")), "{site}");
        }
        for site in ["same-origin", "none"] {
            assert!(from(site, None) && from(site, Some(own)), "{site}");
        }
    }

    #[test]
    fn configured_origins_are_validated() {
        assert_eq!(configured("https://App.example/"), Some("https://app.example".into()));
        assert_eq!(configured("app://x:1"), Some("app://x:1".into()));
        for text in
            ["*", "https://*.example", "app.example", "https://", "https://a/b", "https://u@a", "://a"]
        {
            assert_eq!(configured(text), None, "{text}");
        }
    }
}
