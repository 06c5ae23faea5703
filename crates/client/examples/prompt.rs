//! Sends one prompt and prints the answer while it grows.
//!
//! ```console
//! $ cargo run -p client --example prompt -- http://127.0.0.1:4096 "what is in this directory?"
//! ```

use std::{error::Error, io::Write as _};

use client::{
    Client,
    streaming::{Pace, Progress},
};
use protocol::prompt::{PromptInput, SessionInput};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err("usage: prompt ADDRESS TEXT".into());
    };
    let client = Client::new(&address)?;
    let session = client.create_session(&SessionInput::default()).await?;
    let mut progress = client.prompt_streaming(&session.id, PromptInput::text(text), Pace::default()).await?;
    let mut out = std::io::stdout();
    let mut printed = 0;
    while let Some(step) = progress.next().await {
        match step {
            // The text is the whole answer so far; a correction of earlier words appears at the end.
            Progress::Text(answer) => {
                write!(out, "{}", answer.get(printed..).unwrap_or_default())?;
                out.flush()?;
                printed = answer.len();
            }
            Progress::Tool { title, .. } => writeln!(out, "\n[{title}]")?,
            Progress::Asked(request) => writeln!(out, "\nwaiting for an answer: {request:?}")?,
            Progress::Done(outcome) => writeln!(out, "\n{:?} after {} steps", outcome.ending, outcome.steps)?,
            _ => {}
        }
    }
    Ok(())
}
