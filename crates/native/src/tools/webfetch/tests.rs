//! A real server, real redirects, and names that resolve to forbidden addresses.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use net::{AddressGuard, Lookup};

use super::*;

/// Answers paths with prepared responses and records the requests.
async fn server(answers: &[(&str, String)]) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers: HashMap<String, String> =
        answers.iter().map(|(path, answer)| ((*path).to_owned(), answer.clone())).collect();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if socket.read(&mut byte).await.unwrap_or(0) == 0 {
                    break;
                }
                heard.extend_from_slice(&byte);
            }
            let heard = String::from_utf8(heard).unwrap();
            let path = heard.split(' ').nth(1).unwrap_or_default().to_owned();
            log.lock().unwrap().push(heard);
            let answer = answers.get(&path).cloned().unwrap_or_else(|| answer("404 Not Found", "", "no"));
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    (address, asked)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn page(kind: &str, body: &str) -> String {
    answer("200 OK", &format!("Content-Type: {kind}\r\n"), body)
}

fn redirect(to: &str) -> String {
    answer("302 Found", &format!("Location: {to}\r\n"), "")
}

/// A resolver with names that only the tests know.
struct Names(HashMap<&'static str, IpAddr>, Mutex<usize>);

impl Lookup for Names {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        *self.1.lock().unwrap() += 1;
        let found = self.0.get(host).map(|address| vec![SocketAddr::new(*address, port)]);
        std::future::ready(found.ok_or_else(|| io::Error::other("no such name"))).boxed()
    }
}

/// The local server counts as public; all other addresses of this machine do not.
fn is_public(address: IpAddr) -> bool {
    address == IpAddr::V4(Ipv4Addr::LOCALHOST)
}

fn fetcher() -> Fetcher {
    let names = HashMap::from([
        ("page.test", IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ("inside.test", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7))),
    ]);
    Fetcher(AddressGuard::with(Box::new(Names(names, Mutex::new(0))), is_public))
}

async fn get(url: &str) -> Result<Fetched, String> {
    match fetcher().get(url, "text/html").await {
        Ok(fetched) => Ok(fetched),
        Err(ToolFailure::Error(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_is_got_from_the_address_that_was_checked() {
    let (address, asked) = server(&[("/a?b", page("text/html; charset=iso-8859-1", "x"))]).await;
    let port = address.port();
    // No other resolver knows this name, so only the pinned address can have been used.
    let fetched = get(&format!("http://page.test:{port}/a?b")).await.unwrap();
    assert_eq!((fetched.mime(), fetched.body.as_slice()), ("text/html", &b"x"[..]));
    let asked = asked.lock().unwrap().join("").to_lowercase();
    assert!(
        asked.contains(&format!("host: page.test:{port}")) && asked.contains("accept: text/html"),
        "{asked}"
    );
}

#[tokio::test]
async fn redirects_are_followed_and_checked_at_every_hop() {
    let (address, asked) = server(&[
        ("/start", redirect("/next")),
        ("/next", redirect("http://page.test/elsewhere")),
        ("/to-ip", redirect("http://127.0.0.2/")),
        ("/to-name", redirect("http://inside.test/")),
        ("/to-metadata", redirect("http://169.254.169.254/latest/meta-data/")),
        ("/to-number", redirect("http://2130706434/")),
        ("/to-file", redirect("file:///etc/passwd")),
        ("/round", redirect("/round")),
        ("/end", page("text/plain", "end")),
        ("/relative", redirect("end")),
    ])
    .await;
    let from = |path: &str| format!("http://{address}{path}");
    assert_eq!(get(&from("/relative")).await.unwrap().body, b"end");
    for (path, expected) in [
        ("/to-ip", "127.0.0.2 is 127.0.0.2, which is not a public address"),
        ("/to-name", "inside.test is 10.0.0.7, which is not a public address"),
        ("/to-metadata", "169.254.169.254 is 169.254.169.254"),
        ("/to-number", "127.0.0.2 is 127.0.0.2"),
        ("/to-file", "only http and https can be reached, not file"),
        ("/round", "redirects too often"),
    ] {
        let error = get(&from(path)).await.unwrap_err();
        assert!(error.contains(expected), "{path}: {error}");
    }
    assert_eq!(asked.lock().unwrap().iter().filter(|line| line.starts_with("GET /round")).count(), 11);
}

#[tokio::test]
async fn addresses_of_this_machine_are_refused_unless_allowed() {
    let (address, _) = server(&[("/", page("text/plain", "hello"))]).await;
    let url = format!("http://{address}/");
    let refused = Fetcher::new(false).get(&url, "*/*").await.unwrap_err();
    assert!(matches!(refused, ToolFailure::Error(error) if error.contains("may not be reached")));
    let refused = Fetcher::new(false).get(&format!("http://localhost:{}/", address.port()), "*/*").await;
    assert!(refused.is_err());
    assert_eq!(Fetcher::new(true).get(&url, "*/*").await.unwrap().body, b"hello");
}

#[tokio::test]
async fn pages_that_are_too_large_or_fail_are_errors() {
    let huge = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", limits::FETCH_BYTES + 1);
    let endless =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "x".repeat(limits::FETCH_BYTES + 1));
    let (address, _) = server(&[("/huge", huge), ("/endless", endless)]).await;
    for path in ["/huge", "/endless"] {
        let error = get(&format!("http://{address}{path}")).await.unwrap_err();
        assert!(error.contains("too large"), "{path}: {error}");
    }
    let error = get(&format!("http://{address}/nothing")).await.unwrap_err();
    assert!(error.ends_with("answered 404 Not Found"), "{error}");
    assert!(get("http://no-such-name.test/").await.unwrap_err().contains("cannot be found"));
    assert!(get("http://").await.unwrap_err().contains("is not a valid URL"));
}

#[tokio::test]
async fn pages_are_shown_in_the_format_that_was_asked_for() {
    let fetched = |kind: &str, body: &[u8]| Fetched { kind: kind.to_owned(), body: body.to_vec() };
    let html = b"<h1>Caf\xe9</h1>";
    for (format, expected) in
        [(Format::Markdown, "# Café"), (Format::Text, "Café"), (Format::Html, "<h1>Café</h1>")]
    {
        let output = show("u", format, fetched("text/html; charset=ISO-8859-1", html)).await.unwrap();
        assert_eq!(
            (output.text.as_str(), output.title.as_str()),
            (expected, "u (text/html; charset=ISO-8859-1)")
        );
    }
    let output = show("u", Format::Markdown, fetched("application/json", b"{\"a\": \"<b>\"}")).await.unwrap();
    assert_eq!(output.text, "{\"a\": \"<b>\"}");
    assert!(show("u", Format::Text, fetched("application/zip", b"PK\0\0")).await.is_err());
    let output = show("u", Format::Text, fetched("image/png", b"x")).await.unwrap();
    assert_eq!(output.attachments[0].url, "data:image/png;base64,eA==");
}
