//! The address of a call, for links to the next page.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::{header, request::Parts};

/// Parts of a call's address that a `Link` header needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    host: Option<String>,
    path: String,
    query: String,
}

impl<S: Sync> FromRequestParts<S> for Link {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok().map(str::to_owned));
        let host = host.or_else(|| parts.uri.authority().map(ToString::to_string));
        let query = parts.uri.query().unwrap_or_default().to_owned();
        Ok(Self { host, path: parts.uri.path().to_owned(), query })
    }
}

impl Link {
    /// A `Link` header to the next page: the same address with these query values replaced.
    pub fn next(&self, values: &[(&str, &str)]) -> String {
        // The query may contain a password, which must not appear in a response.
        let keep = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default();
            // The next page of a page around a message has only a cursor.
            !name.is_empty()
                && !["auth_token", "around"].contains(&name)
                && values.iter().all(|(other, _)| *other != name)
        };
        let mut query: Vec<String> = self.query.split('&').filter(keep).map(str::to_owned).collect();
        query.extend(values.iter().map(|(name, value)| format!("{name}={value}")));
        let origin = self.host.as_ref().map_or_else(String::new, |host| format!("http://{host}"));
        format!("<{origin}{}?{}>; rel=\"next\"", self.path, query.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_keeps_everything_but_the_page_and_the_password() {
        let link = Link {
            host: Some("localhost:4096".into()),
            path: "/session/ses_1/message".into(),
            query: "limit=2&before=old&auth_token=secret&directory=%2Ftmp".into(),
        };
        assert_eq!(
            link.next(&[("limit", "2"), ("before", "new")]),
            "<http://localhost:4096/session/ses_1/message?directory=%2Ftmp&limit=2&before=new>; rel=\"next\""
        );
    }
}
