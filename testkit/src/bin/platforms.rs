//! Runs a fake chat service for tests in other languages: `platforms NAME [OPTIONS AS JSON]`.
//!
//! Prints one line of JSON and ends when its standard input does. The line has the service's address (`url`), the same
//! service behind a breaker (`broken`), and the address that controls the breaker (`breaker`).

#![allow(clippy::print_stdout, reason = "a test reads the address")]

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use reqwest::Url;
use serde_json::{Value, json};
use testkit::{
    breaker::{self, Breaker},
    platforms::{slack::Slack, telegram::Telegram, whatsapp::WhatsApp},
};
use tokio::{io::AsyncReadExt, net::TcpListener};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("name a platform: slack, telegram or whatsapp")?;
    let options: Value = serde_json::from_str(arguments.next().as_deref().unwrap_or("{}"))?;
    let address = start(&name, options).await?;
    let (broken, breaker) = break_at(&address).await?;
    println!("{}", json!({"url": address, "broken": broken, "breaker": breaker}));
    // The parent process has ended when its end of the pipe is closed.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Puts a breaker in front of a fake. Returns the fake's address behind it, and the breaker's own.
async fn break_at(address: &str) -> Result<(String, String)> {
    let mut url = Url::parse(address)?;
    let target = url.socket_addrs(|| None)?.pop().context("the fake has no address")?;
    let breaker = Arc::new(Breaker::start(target).await?);
    url.set_port(Some(breaker.address().port())).map_err(|()| anyhow::anyhow!("the address has no port"))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let control = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, breaker::control(breaker)).await });
    Ok((url.as_str().trim_end_matches('/').to_owned(), control))
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
