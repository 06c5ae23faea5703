//! Access control tested over real sockets.

use std::fmt::Write as _;

use axum::{
    Router,
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;

struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

async fn start(policy: AccessPolicy) -> u16 {
    let health =
        |caller: super::Caller| async move { if caller.is_signed_in() { "known" } else { "unknown" } };
    let router = Router::new()
        .route("/session", get(|| async { "seen" }))
        .route("/do", post(|| async { "done" }))
        .route(HEALTH, get(health));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(crate::serve::serve(listener, layer(router, policy), std::future::pending()));
    port
}

async fn call(port: u16, line: &str, headers: &[(&str, &str)]) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut call = format!("{line} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        write!(call, "host: localhost:{port}\r\n").unwrap();
    }
    for (name, value) in headers {
        write!(call, "{name}: {value}\r\n").unwrap();
    }
    stream.write_all(format!("{call}\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    Answer { status: text[9..12].parse().unwrap(), text }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

#[tokio::test]
async fn the_own_user_on_this_machine_needs_no_password() {
    let port = start(AccessPolicy::local()).await;
    let answer = call(port, "GET /session", &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("vary"), Some("origin"));
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn an_unknown_host_is_refused_with_every_method_and_on_every_path() {
    let port = start(AccessPolicy::local()).await;
    for method in METHODS {
        for path in ["/session", "/do", "/nowhere"] {
            let answer = call(port, &format!("{method} {path}"), &[("host", "evil.example")]).await;
            assert_eq!(answer.status, 403, "{method} {path}");
            let json = answer.header("content-type") == Some("application/json");
            assert!(json && (method == "HEAD" || answer.text.contains("ForbiddenError")), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_foreign_origin_is_refused_with_every_method_and_on_every_path() {
    let port = start(AccessPolicy::local()).await;
    for method in METHODS {
        for path in ["/session", "/do", "/nowhere"] {
            let headers = [("origin", "http://evil.example"), ("access-control-request-method", "POST")];
            let answer = call(port, &format!("{method} {path}"), &headers).await;
            assert_eq!(answer.status, 403, "{method} {path}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    let form = [("origin", "http://evil.example"), ("content-type", "text/plain"), ("content-length", "0")];
    assert_eq!(call(port, "POST /do", &form).await.status, 403);
}

#[tokio::test]
async fn an_allowed_page_may_call_and_read() {
    let port = start(AccessPolicy::local().allow_origin("https://app.example").unwrap()).await;
    let own = format!("http://localhost:{port}");
    for (origin, site) in
        [(&*own, "same-origin"), ("tauri://localhost", "cross-site"), ("https://app.example", "cross-site")]
    {
        let headers = [("origin", origin), ("sec-fetch-site", site)];
        let answer = call(port, "GET /session", &headers).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("vary"), Some("origin"));
    }
}

#[tokio::test]
async fn a_page_of_another_site_or_port_is_refused_with_every_method_and_on_every_path() {
    let port = start(AccessPolicy::local()).await;
    for method in METHODS {
        for path in ["/session", "/do", "/nowhere"] {
            for headers in [
                [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
                [("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate")],
                [("sec-fetch-site", "same-site"), ("origin", "http://localhost:5173")],
                [("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:5173")],
            ] {
                let answer = call(port, &format!("{method} {path}"), &headers).await;
                assert_eq!(answer.status, 403, "{method} {path} {headers:?}");
                assert!(method == "HEAD" || answer.text.contains("--cors http://localhost:5173"));
            }
        }
    }
    for site in ["same-origin", "none"] {
        assert_eq!(call(port, "GET /session", &[("sec-fetch-site", site)]).await.status, 200, "{site}");
    }
}

#[tokio::test]
async fn a_preflight_is_answered_without_a_password() {
    let policy = AccessPolicy::local().with_credentials(Credentials::new(None, "secret"));
    let port = start(policy.allow_origin("http://localhost:3000").unwrap()).await;
    let headers = [
        ("origin", "http://localhost:3000"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization, content-type"),
    ];
    let answer = call(port, "OPTIONS /do", &headers).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:3000"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization, content-type"));
    assert_eq!(answer.header("access-control-max-age"), Some("86400"));
    assert!(answer.header("access-control-allow-methods").unwrap().contains("PATCH"));
}

#[tokio::test]
async fn a_configured_password_is_needed_even_by_the_own_user() {
    let policy = AccessPolicy::local().with_credentials(Credentials::new(Some("me"), "secret"));
    let port = start(policy.allow_origin("http://localhost").unwrap()).await;
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let none = call(port, "GET /session", &[]).await;
    assert_eq!(none.status, 401);
    assert_eq!(none.header("www-authenticate"), Some("Basic realm=\"Secure Area\""));
    assert!(none.text.contains("UnauthorizedError"));
    assert_eq!(call(port, "GET /nowhere", &[]).await.status, 401, "unknown paths tell nothing either");
    let wrong = basic("me:wrong");
    let refused =
        call(port, "GET /session", &[("authorization", &wrong), ("origin", "http://localhost")]).await;
    assert_eq!(refused.status, 401);
    assert_eq!(
        refused.header("access-control-allow-origin"),
        Some("http://localhost"),
        "the page may ask again"
    );
    let right = basic("me:secret");
    assert_eq!(call(port, "GET /session", &[("authorization", &right)]).await.status, 200);
    let line = format!("GET /session?auth_token={}", STANDARD.encode("me:secret"));
    assert_eq!(call(port, &line, &[]).await.status, 200);
}

#[tokio::test]
async fn a_call_without_a_socket_has_no_user() {
    let router = layer(Router::new().route("/session", get(|| async { "seen" })), AccessPolicy::local());
    let request = http::Request::builder().uri("/session").header("host", "localhost");
    let request = request.body(axum::body::Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
}

/// A client at a fixed address that sends calls with passwords.
struct Caller {
    router: Router,
    peer: Peer,
}

impl Caller {
    fn new(router: &Router, address: &str) -> Self {
        let local = "192.168.1.1:4096".parse().unwrap();
        Self { router: router.clone(), peer: Peer::new(format!("{address}:5000").parse().unwrap(), local) }
    }

    async fn call(&self, password: Option<&str>) -> Response {
        let mut request = http::Request::builder().uri("/session").header("host", "localhost");
        if let Some(password) = password {
            let basic = format!("Basic {}", STANDARD.encode(format!("opencode:{password}")));
            request = request.header("authorization", basic);
        }
        let mut request = request.body(axum::body::Body::empty()).unwrap();
        request.extensions_mut().insert(self.peer.clone());
        tower::ServiceExt::oneshot(self.router.clone(), request).await.unwrap()
    }

    async fn status(&self, password: Option<&str>) -> u16 {
        self.call(password).await.status().as_u16()
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_passwords_cost_growing_waits_and_do_not_lock_out_others() {
    let policy = AccessPolicy::local().with_credentials(Credentials::new(None, "secret"));
    let router = layer(Router::new().route("/session", get(|| async { "seen" })), policy);
    let (attacker, owner) = (Caller::new(&router, "10.0.0.1"), Caller::new(&router, "10.0.0.2"));
    for _ in 0..=guesses::FREE_GUESSES {
        assert_eq!(attacker.status(Some("wrong")).await, 401);
    }
    let refused = attacker.call(Some("secret")).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    let body = axum::body::to_bytes(refused.into_body(), usize::MAX).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["name"], "TooManyRequests");
    assert!(body["data"]["message"].as_str().unwrap().contains("in 1 seconds"), "{body}");
    assert_eq!(attacker.status(None).await, 401, "a call without a password is no guess");
    assert_eq!(owner.status(Some("secret")).await, 200);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(attacker.status(Some("wrong")).await, 401);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(attacker.status(Some("secret")).await, 429, "the second wait is longer");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(attacker.status(Some("secret")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_the_right_password_is_not_locked_out_by_others() {
    let policy = AccessPolicy::local().with_credentials(Credentials::new(None, "secret"));
    let router = layer(Router::new().route("/session", get(|| async { "seen" })), policy);
    let (attacker, owner) = (Caller::new(&router, "10.0.0.1"), Caller::new(&router, "10.0.0.1"));
    assert_eq!(owner.status(Some("secret")).await, 200);
    for _ in 0..=guesses::FREE_GUESSES {
        assert_eq!(attacker.status(Some("wrong")).await, 401);
    }
    assert_eq!(owner.status(Some("secret")).await, 200);
    assert_eq!(owner.status(Some("wrong")).await, 401);
    assert_eq!(owner.status(Some("secret")).await, 429, "a wrong password ends the exemption");
}

/// The own user can do more than guess, and one of their programs with an old password must not lock them out.
#[tokio::test]
async fn the_own_user_never_waits() {
    let port = start(AccessPolicy::local().with_credentials(Credentials::new(None, "secret"))).await;
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("opencode:{password}")));
    for _ in 0..4 * guesses::FREE_GUESSES {
        assert_eq!(call(port, "GET /session", &[("authorization", &basic("wrong"))]).await.status, 401);
    }
    assert_eq!(call(port, "GET /session", &[("authorization", &basic("secret"))]).await.status, 200);
}

/// Needs a second user, so it does nothing unless it runs as root on a system with the usual tools.
#[tokio::test]
async fn another_user_of_the_machine_is_refused() {
    let tools = ["/usr/bin/setpriv", "/bin/bash"];
    if !rustix::process::geteuid().is_root() || !tools.iter().all(|tool| std::path::Path::new(tool).exists())
    {
        return;
    }
    let port = start(AccessPolicy::local()).await;
    let ask = |uid: &'static str| async move {
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; \
             printf 'GET /session HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n' >&3; cat <&3"
        );
        #[expect(
            clippy::disallowed_methods,
            reason = "a short-lived program of another user, for this test only"
        )]
        let mut command = tokio::process::Command::new("/usr/bin/setpriv");
        command.args(["--reuid", uid, "--clear-groups", "/bin/bash", "-c", &script]);
        String::from_utf8(command.output().await.unwrap().stdout).unwrap()
    };
    assert!(ask("0").await.starts_with("HTTP/1.1 200"));
    assert!(ask("4711").await.starts_with("HTTP/1.1 401"));
}

#[test]
fn an_address_that_other_machines_can_reach_needs_a_password() {
    let open = AccessPolicy::local();
    let closed = AccessPolicy::local().with_credentials(Credentials::new(None, "secret"));
    for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(open.check_bind(address.parse().unwrap()), Ok(()), "{address}");
    }
    for address in ["0.0.0.0", "::", "192.168.1.5", "::ffff:192.168.1.5"] {
        let address = address.parse().unwrap();
        assert_eq!(open.check_bind(address), Err(Error::Exposed(address)));
        assert_eq!(closed.check_bind(address), Ok(()));
    }
}

#[tokio::test]
async fn a_probe_without_the_password_learns_only_that_the_server_is_up() {
    let port = start(AccessPolicy::local().with_credentials(Credentials::new(Some("ada"), "secret"))).await;
    for method in ["GET", "HEAD"] {
        assert_eq!(call(port, &format!("{method} {HEALTH}"), &[]).await.status, 200, "{method}");
    }
    assert!(call(port, &format!("GET {HEALTH}"), &[]).await.text.ends_with("unknown"));
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("ada:{password}")));
    let right = call(port, &format!("GET {HEALTH}"), &[("authorization", &basic("secret"))]).await;
    assert!(right.text.ends_with("known") && !right.text.ends_with("unknown"), "{}", right.text);
    let wrong = call(port, &format!("GET {HEALTH}"), &[("authorization", &basic("wrong"))]).await;
    assert_eq!(wrong.status, 401, "a wrong password is refused");
    for line in ["POST /global/health", "GET /global/health/", "GET /session"] {
        assert_eq!(call(port, line, &[]).await.status, 401, "{line}");
    }
    let foreign = call(port, &format!("GET {HEALTH}"), &[("host", "evil.example")]).await;
    assert_eq!(foreign.status, 403);
}

#[test]
fn an_unknown_host_is_named_if_it_is_a_plain_name() {
    let refusal = |host: &str| {
        let call = http::Request::builder().header("host", host).body(()).unwrap();
        unknown_host(call.headers())
    };
    assert_eq!(
        refusal("box.example:4096"),
        "unknown Host \"box.example\"; start the server with --allow-host box.example to accept it"
    );
    for odd in ["", "a b", "<script>", &"x".repeat(300)] {
        assert!(refusal(odd).contains("--allow-host NAME"), "{odd}");
    }
}
