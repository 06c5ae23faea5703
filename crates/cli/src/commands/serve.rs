//! `baton serve`: runs the server from start to shutdown.

mod node;

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use ::channels::gateway::Gateway;
use server::{
    App, Router, metrics, router,
    security::{self, AccessPolicy},
    serve::{Admission, Capacity, serve_and_close},
    terminals::Terminals,
    web::Page,
};
use store::files::Places;
use tokio::{
    net::{TcpListener, TcpSocket, lookup_host},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{channels, host::Host};
use crate::{
    args::Serve,
    environment,
    exit::{Exit, Failure},
    logging,
    signals::Signals,
    terminal,
    wiring::{self, Engine, Purpose, browsers},
};

/// OpenCode's port, which clients try first.
const PORT: u16 = 4096;
/// Bound on connections that wait to be accepted.
const BACKLOG: u32 = 1_024;
/// Timeout for plugins to shut down and the store to close after everything else has ended.
const CLOSING: Duration = Duration::from_millis(1_500);
/// Limit of open files: enough for every connection, and low enough for tools that loop over all descriptors.
const FILES: u64 = 8_192;
/// OpenCode's SDK starts a program of this name and waits for OpenCode's own line on standard output.
const OPENCODE: &str = "opencode";

/// Serves until a signal stops it.
pub(crate) async fn serve(options: Serve) -> Result<Exit, Failure> {
    let signals = Signals::catch();
    let policy = policy(&options)?;
    node::check(&options)?;
    let places = wiring::places(&options.engine)?;
    let target = if options.engine.print_logs {
        logging::Target::Terminal
    } else {
        logging::Target::File(&places.log)
    };
    logging::start(&target, options.engine.log_level);
    let capacity = Capacity::of_files(raise_file_limit());
    let admission = Admission { capacity, own_user_only: policy.is_own_user_only() };
    // Binds the port first, so that a second server fails before it repairs sessions that are not broken.
    // Listens last, so that clients rarely see a session in need of repair.
    let (socket, host) = bind(&options, &policy).await?;
    let here = std::env::current_dir()
        .map_err(|error| Failure::usage(format!("cannot use the current directory: {error}")))?;
    let identity = node::identity(&options, &socket, &host)?;
    let engine = wiring::engine(&options.engine, &here, Purpose::Run, identity.as_ref());
    let engine = Box::pin(engine).await?;
    let ready = async {
        let (listener, address) = listen(socket, &host)?;
        let gateway = if options.channels { Some(gateway(&address, &places).await?) } else { None };
        Ok((listener, address, gateway))
    };
    match ready.await {
        Ok((listener, address, gateway)) => {
            let policy = policy.with_browsers(browsers::open(&places));
            let page = page(&options);
            let drain = Duration::from_secs(options.node.drain);
            let serving = Serving { listener, admission, policy, page, drain };
            Box::pin(run(engine, serving, &address, gateway, signals)).await
        }
        Err(failure) => {
            engine.close().await;
            Err(failure)
        }
    }
}

/// Opens the chat gateway for this server.
async fn gateway(address: &str, places: &Places) -> Result<Gateway, Failure> {
    let configured = channels::configured()?;
    let address = configured.server().unwrap_or(address).to_owned();
    channels::open(&configured, &address, places, configured.server().is_none()).await
}

/// The listener and its access rules.
struct Serving {
    listener: TcpListener,
    admission: Admission,
    policy: AccessPolicy,
    page: Page,
    /// Time that a node gives its turns before it stops.
    drain: Duration,
}

async fn run(
    engine: Engine,
    serving: Serving,
    address: &str,
    gateway: Option<Gateway>,
    mut signals: Signals,
) -> Result<Exit, Failure> {
    let Serving { listener, admission, policy, page, drain } = serving;
    let (router, terminals) = edge(&engine, policy, page);
    let warnings = warnings(&engine).await;
    engine.announce(address);
    tracing::info!(address, "listening");
    if let Err(error) = terminal::line(&format!("{} listening on {address}", name())) {
        tracing::warn!(%error, "cannot print the address of the server");
    }
    for warning in &warnings {
        terminal::warn(warning);
    }
    let pruning = engine.start_pruning();
    let chats = CancellationToken::new();
    let chatting = gateway.map(|gateway| {
        channels::tell(&gateway, address);
        tokio::spawn(channels::attend(gateway, chats.clone()))
    });
    let stop = async {
        signals.next().await;
        if let Some(node) = &engine.node {
            node::drain(&engine.sessions, &node.member, drain, &mut signals).await;
        }
        tracing::info!("stopping");
        // Messages without an answer stay in the ledger and are answered after the next start.
        chats.cancel();
        // A second signal ends the program at once.
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(Exit::Interrupted.code().into());
        });
    };
    let close = async {
        tokio::join!(engine.sessions.shutdown(), terminals.close());
    };
    tokio::select! {
        () = serve_and_close(listener, router, admission, stop, close) => {}
        failure = node::lost(&engine) => {
            engine.withdraw();
            return Err(failure);
        }
    }
    if let Some(pruning) = pruning {
        pruning.abort();
    }
    if let Some(chatting) = chatting {
        let _ = timeout(CLOSING, chatting).await;
    }
    if timeout(CLOSING, engine.close()).await.is_err() {
        tracing::warn!("the store did not close in time; the next start recovers it");
    }
    tracing::info!("stopped");
    Ok(Exit::Completed)
}

/// Returns the warnings about the server's own directory. The server has no address yet, so this starts no plugin: plugins
/// call the server while they load, and the first call of a client waits longer for them than a call beside it. Warnings that
/// come later are in the log and in `GET /config/diagnostics`.
async fn warnings(engine: &Engine) -> BTreeSet<String> {
    let trust = engine.begin().await;
    if let Some(trust) = &trust {
        tracing::warn!("{trust}");
    }
    let known = Host::local(engine).diagnostics(&engine.facts.directory).await.unwrap_or_default();
    known.into_iter().chain(trust).collect()
}

/// Builds the router of an engine with the access policy, and the registry of terminals that clients open.
pub(super) fn edge(engine: &Engine, policy: AccessPolicy, page: Page) -> (Router, Terminals) {
    let app = App::new(engine.sessions.clone(), engine.facts.clone(), engine.instances.clone())
        .with_channels(engine.channels())
        .with_page(page);
    let app = match node::forwarding(engine) {
        Some(options) => app.with_fleet(options),
        None => app,
    };
    let terminals = app.terminals.clone();
    let policy = policy.with_tickets(terminals.tickets()).with_fleet(app.forwarding());
    (security::layer(metrics::with_store(router(app), engine.counted()), policy), terminals)
}

/// First words of the line on standard output.
fn name() -> &'static str {
    let called = std::env::args_os().next();
    let called = called.as_deref().map(Path::new).and_then(Path::file_name);
    if called.is_some_and(|called| called == OPENCODE) { "opencode server" } else { "baton" }
}

fn page(options: &Serve) -> Page {
    match &options.web_dir {
        _ if options.no_web => Page::Off,
        Some(folder) => Page::Folder(folder.clone()),
        None => Page::Embedded,
    }
}

fn policy(options: &Serve) -> Result<AccessPolicy, Failure> {
    let refuse = |error: security::Error| Failure::usage(error.to_string());
    let mut policy = AccessPolicy::local().with_credentials(environment::credentials());
    for host in options.allow_host.iter().chain([&options.hostname]) {
        policy = policy.allow_host(host).map_err(refuse)?;
    }
    for origin in &options.cors {
        policy = policy.allow_origin(origin).map_err(refuse)?;
    }
    Ok(policy)
}

/// Binds the port without listening. Also returns the host as it is displayed.
async fn bind(options: &Serve, policy: &AccessPolicy) -> Result<(TcpSocket, String), Failure> {
    let ip = resolve(&options.hostname).await?;
    policy.check_bind(ip).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("set BATON_PASSWORD, or leave --hostname out to listen on this machine only")
    })?;
    let host = if options.hostname.contains(':') { format!("[{ip}]") } else { options.hostname.clone() };
    let port = options.port.unwrap_or(PORT);
    let bound = match socket(SocketAddr::new(ip, port)) {
        // The default port is taken; the user did not ask for it, so any other will do.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && options.port.is_none() => {
            socket(SocketAddr::new(ip, 0))
        }
        bound => bound,
    };
    bound.map(|socket| (socket, host)).map_err(|error| cannot_listen(&format!("{ip}:{port}"), &error))
}

async fn resolve(host: &str) -> Result<IpAddr, Failure> {
    if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(ip);
    }
    let unknown = |why: &str| {
        Failure::usage(format!("cannot listen on \"{host}\": {why}"))
            .hint("--hostname takes an address such as 127.0.0.1, or a name that resolves to one")
    };
    let mut found = lookup_host((host, 0)).await.map_err(|error| unknown(&error.to_string()))?;
    found.next().map(|address| address.ip()).ok_or_else(|| unknown("the name resolves to no address"))
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Lets a restart bind the port while connections of the previous server are still in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn listen(socket: TcpSocket, host: &str) -> Result<(TcpListener, String), Failure> {
    let port = socket.local_addr().map_or(0, |address| address.port());
    let address = format!("{host}:{port}");
    let listener = socket.listen(BACKLOG).map_err(|error| cannot_listen(&address, &error))?;
    Ok((listener, format!("http://{address}")))
}

fn cannot_listen(address: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::usage(format!("{address} is in use by another program"))
            .hint("--port 0 picks a free port"),
        io::ErrorKind::PermissionDenied => {
            Failure::usage(format!("no permission to listen on {address}: {error}"))
                .hint("ports below 1024 need privileges; --port 0 picks a free port")
        }
        _ => Failure::usage(format!("cannot listen on {address}: {error}")),
    }
}

/// Raises the limit of open files, because every subscriber needs a descriptor and the usual limit of 1024 is
/// too low. Returns the effective limit; `None` means unlimited.
fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current?;
    let wanted = limit.maximum.map_or(FILES, |maximum| maximum.min(FILES));
    if before >= wanted {
        return Some(before);
    }
    limit.current = Some(wanted);
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => Some(wanted),
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit of open files");
            Some(before)
        }
    }
}
