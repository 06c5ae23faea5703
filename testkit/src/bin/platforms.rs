//! Runs a fake chat service for tests in other languages: `platforms NAME [OPTIONS AS JSON]`.
//!
//! Prints one line of JSON with its address, and ends when its standard input does.

#![allow(clippy::print_stdout, reason = "a test reads the address")]

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use testkit::platforms::{slack::Slack, telegram::Telegram, whatsapp::WhatsApp};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("name a platform: slack, telegram or whatsapp")?;
    let options: Value = serde_json::from_str(arguments.next().as_deref().unwrap_or("{}"))?;
    let address = start(&name, options).await?;
    println!("{}", json!({"url": address}));
    // The parent process has ended when its end of the pipe is closed.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Starts a fake and returns its address.
async fn start(name: &str, options: Value) -> Result<String> {
    match name {
        "slack" => Ok(Slack::start(serde_json::from_value(options)?).await?.api()),
        "telegram" => Ok(Telegram::start(serde_json::from_value(options)?).await?.address().to_owned()),
        "whatsapp" => Ok(WhatsApp::start(serde_json::from_value(options)?).await?.address().to_owned()),
        _ => bail!("there is no platform {name}"),
    }
}
