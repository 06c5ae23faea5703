//! JSON-RPC with the plugin host. Payloads stay raw, because most of them are only forwarded and some are whole
//! conversations.

use std::time::Duration;

use jsonrpc::{Error, ErrorObject, Options, Payload, Peer, pipe};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};

/// Limit for one line, in bytes. A conversation with images is one line.
const MAX_LINE: usize = 32 * 1024 * 1024;

/// The requests that the host may make.
const METHODS: &[&str] = &["auth.get", "tool.ask"];

/// The error code for an exception of a plugin; other codes are errors of the host itself.
const THROWN: i64 = -32000;

pub(super) type Raw = Box<RawValue>;
pub(super) type Asked = jsonrpc::Asked<Raw>;
pub(super) type Inbox = jsonrpc::Inbox<Raw>;
pub(super) type Incoming = jsonrpc::Incoming<Raw>;

/// Reasons why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The plugin threw an exception.
    #[error("{0}")]
    Thrown(String),
    /// The process has ended.
    #[error("the plugin host has exited")]
    Gone,
    /// The parameters or the result cannot be encoded, or the host refused the call.
    #[error("{0}")]
    Misfit(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Ended { .. } => Self::Gone,
            Error::Refused { fault, .. } if fault.code == THROWN => Self::Thrown(fault.message),
            Error::Refused { fault, .. } => Self::Misfit(fault.message),
            error => Self::Misfit(error.to_string()),
        }
    }
}

/// The sending half of the connection to the host.
#[derive(Debug)]
pub(super) struct Wire(Peer<Raw>);

impl Wire {
    /// Connects through the pipes of the process. The requests and notifications of the host arrive in the inbox, which
    /// keeps the connection alive.
    pub(super) fn new(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> (Self, Inbox) {
        let options = Options { methods: METHODS, cancel: Some("cancel"), ..Options::default() };
        let (peer, inbox) = pipe::start(options, input, output, MAX_LINE);
        (Self(peer), inbox)
    }

    /// Waits until the host has closed its pipe or broken the protocol.
    pub(super) async fn ended(&self) {
        self.0.ended().await;
    }

    /// Calls a method. The caller has a deadline; dropping the future withdraws the call.
    pub(super) async fn call(&self, method: &str, params: &(impl Serialize + Sync)) -> Result<Raw, Failure> {
        let params = Raw::encode(params).map_err(|error| Failure::Misfit(error.to_string()))?;
        Ok(self.0.call(method, params).await?)
    }

    /// Sends a notification; waits for room in the queue until the deadline.
    pub(super) async fn notify(&self, method: &str, params: Raw, deadline: Duration) -> Result<(), Error> {
        self.0.notify(method, params, deadline).await
    }

    /// Sends a notification if the queue has room, for callers that cannot wait.
    pub(super) fn tell(&self, method: &str, params: &impl Serialize) {
        self.0.post(method, params);
    }
}

/// Answers a request of the host; an error becomes an exception in the plugin.
pub(super) fn answer(asked: Asked, result: Result<Value, String>) {
    let result = result.and_then(|value| Raw::encode(&value).map_err(|error| error.to_string()));
    asked.answer(result.map_err(|why| ErrorObject::new(THROWN, why)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};

    /// The local end, and the pipe of the host.
    fn connected() -> (Wire, Inbox, BufReader<DuplexStream>) {
        let (near, far) = duplex(1024);
        let (output, input) = split(near);
        let (wire, inbox) = Wire::new(input, output);
        (wire, inbox, BufReader::new(far))
    }

    async fn heard(far: &mut BufReader<DuplexStream>) -> Value {
        let mut line = String::new();
        far.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn say(far: &mut BufReader<DuplexStream>, message: Value) {
        far.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_gets_its_own_answer() {
        let (wire, _inbox, mut far) = connected();
        let (one, two) = (json!(1), json!(2));
        let peer = async {
            let (first, second) = (heard(&mut far).await, heard(&mut far).await);
            assert_eq!((&first["method"], &first["params"]), (&json!("hook"), &json!(1)));
            let thrown = json!({ "code": -32000, "message": "no" });
            say(&mut far, json!({ "jsonrpc": "2.0", "id": second["id"], "error": thrown })).await;
            say(&mut far, json!({ "jsonrpc": "2.0", "id": first["id"], "result": "yes" })).await;
        };
        let (first, second, ()) = tokio::join!(wire.call("hook", &one), wire.call("hook", &two), peer);
        assert_eq!(first.unwrap().get(), "\"yes\"");
        assert_eq!(second.unwrap_err(), Failure::Thrown("no".to_owned()));
    }

    #[tokio::test]
    async fn a_call_that_its_caller_gives_up_is_withdrawn() {
        let (wire, _inbox, mut far) = connected();
        let id = {
            let params = json!({});
            let call = wire.call("tool", &params);
            tokio::pin!(call);
            tokio::select! {
                biased;
                _ = &mut call => unreachable!(),
                message = heard(&mut far) => message["id"].clone(),
            }
        };
        let cancel = heard(&mut far).await;
        assert_eq!((&cancel["method"], &cancel["params"]["id"]), (&json!("cancel"), &id));
    }

    #[tokio::test]
    async fn messages_of_the_host_arrive_in_order_and_can_be_answered() {
        let (_wire, mut inbox, mut far) = connected();
        say(&mut far, json!({ "jsonrpc": "2.0", "method": "report", "params": { "message": "m" } })).await;
        far.write_all(b"this is no message\n").await.unwrap();
        say(&mut far, json!({ "jsonrpc": "2.0", "id": 7, "method": "tool.ask" })).await;
        assert!(matches!(inbox.next().await, Some(Incoming::Told { method, .. }) if method == "report"));
        assert!(matches!(inbox.next().await, Some(Incoming::Malformed(_))));
        let Some(Incoming::Asked(asked)) = inbox.next().await else { panic!("a request") };
        answer(asked, Err("refused".to_owned()));
        let answer = heard(&mut far).await;
        assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!(7), &json!("refused")));
    }

    #[tokio::test]
    async fn pending_and_later_calls_fail_when_the_process_ends() {
        let (wire, mut inbox, mut far) = connected();
        let params = json!({});
        let peer = async {
            heard(&mut far).await;
            drop(far);
        };
        let (answer, ()) = tokio::join!(wire.call("hook", &params), peer);
        assert_eq!(answer.unwrap_err(), Failure::Gone);
        assert!(inbox.next().await.is_none());
        assert_eq!(wire.call("hook", &params).await.unwrap_err(), Failure::Gone);
    }

    #[tokio::test]
    async fn a_line_over_the_limit_ends_the_connection() {
        let (near, mut far) = duplex(1024 * 1024);
        let (output, input) = split(near);
        let (wire, mut inbox) = Wire::new(input, output);
        let flood = async {
            let chunk = vec![b'x'; 1024 * 1024];
            // The connection ends before all chunks are written.
            for _ in 0..40 {
                if far.write_all(&chunk).await.is_err() {
                    break;
                }
            }
        };
        let ended = async {
            assert!(inbox.next().await.is_none());
            wire.ended().await;
        };
        tokio::select! {
            () = flood => panic!("the connection did not end"),
            () = ended => {}
        }
    }
}
