//! Prints every change of a session's status, across lost connections and restarts of the server.
//!
//! ```console
//! $ cargo run -p client --example watch -- http://127.0.0.1:4096
//! ```

use std::{error::Error, io::Write as _};

use client::{Client, Scope};
use futures::StreamExt as _;
use protocol::EventBody;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: watch ADDRESS")?;
    let mut events = Client::new(&address)?.events(Scope::Global, None);
    let mut out = std::io::stdout();
    while let Some(received) = events.next().await {
        // An error is a lost connection; the stream connects again and resumes after its last cursor.
        match received.map(|received| received.event.body) {
            Ok(EventBody::SessionStatus(change)) => {
                writeln!(out, "{} {:?}", change.session_id, change.status)?;
            }
            Ok(_) => {}
            Err(error) => writeln!(out, "connection lost: {error}")?,
        }
    }
    Ok(())
}
