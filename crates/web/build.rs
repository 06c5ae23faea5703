//! Builds the page with Node and writes the table of its files, `assets.rs`, into the output directory.
//!
//! `BATON_WEB=off` leaves the page out, `BATON_WEB=required` fails without it. Otherwise a machine without Node gets a
//! small page that says what is missing, and one warning. An error in the sources of the page always fails the build.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a build script: it reads its environment, starts npm and Vite, and talks to cargo on standard output"
)]

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
};

use flate2::{Compression, write::GzEncoder};
use sha1::{Digest, Sha1};

/// The oldest version of Node that Vite runs on.
const OLDEST_NODE: u32 = 20;
/// Sources of the page: a change of any of them builds it again.
const SOURCES: [&str; 8] = [
    "src",
    "build",
    "index.html",
    "terminal.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
];
/// Lines of a failed program's output that are shown.
const SHOWN_LINES: usize = 30;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<()> {
    let ui = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("ui");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let wanted = env::var("BATON_WEB").unwrap_or_default();
    for source in SOURCES {
        println!("cargo::rerun-if-changed=ui/{source}");
    }
    println!("cargo::rerun-if-changed=missing.html");
    println!("cargo::rerun-if-env-changed=BATON_WEB");
    let obstacle = if wanted == "off" { Some("BATON_WEB is off".to_owned()) } else { prepare(&ui) };
    let Some(obstacle) = obstacle else {
        let dist = out.join("dist");
        bundle(&ui, &dist)?;
        return pack(&list(&dist)?, true, &out);
    };
    if wanted == "required" {
        return Err(format!("BATON_WEB=required, but the page cannot be built: {obstacle}").into());
    }
    println!("cargo::warning=the binary will not contain the web page: {obstacle}");
    let missing = ("index.html".to_owned(), fs::read("missing.html")?);
    pack(&[missing], false, &out)
}

/// Installs the packages of the page. Returns the reason why the page cannot be built on this machine, if there is one.
fn prepare(ui: &Path) -> Option<String> {
    if node_version().is_none_or(|version| version < OLDEST_NODE) {
        return Some(format!("Node {OLDEST_NODE} or newer is not installed"));
    }
    if is_installed(ui) {
        return None;
    }
    // Not `npm ci`: it refuses a lock file without the packages of other platforms, which not every registry has.
    let arguments =
        ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    match Command::new("npm").args(arguments).current_dir(ui).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            Some(format!("`npm install` failed in crates/web/ui: {}", tail(&output).replace('\n', " ")))
        }
        Err(error) => Some(format!("npm cannot be started: {error}")),
    }
}

fn node_version() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// npm writes the inner lock file last, so its date is the date of the installation.
fn is_installed(ui: &Path) -> bool {
    let modified = |path: &str| fs::metadata(ui.join(path)).and_then(|metadata| metadata.modified()).ok();
    match (modified("package-lock.json"), modified("node_modules/.package-lock.json")) {
        (Some(lock), Some(installed)) => installed >= lock,
        _ => false,
    }
}

fn bundle(ui: &Path, dist: &Path) -> Result<()> {
    let output = Command::new("node")
        .args(["node_modules/vite/bin/vite.js", "build", "--emptyOutDir", "--logLevel", "warn", "--outDir"])
        .arg(dist)
        .current_dir(ui)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let shown = tail(&output);
    Err(format!(
        "the web page does not build; `npm run build` in crates/web/ui shows the same error, and \
                 BATON_WEB=off builds the server without the page:\n{shown}"
    )
    .into())
}

fn tail(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n")
}

/// All files below a directory, by relative path, in order.
fn list(root: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root)?.to_str().ok_or("a file name is not UTF-8")?;
            files.push((name.replace('\\', "/"), fs::read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Compresses the files and writes the table. The same files give the same bytes.
fn pack(files: &[(String, Vec<u8>)], is_built: bool, out: &Path) -> Result<()> {
    let packed = out.join("packed");
    fs::create_dir_all(&packed)?;
    let (mut table, mut whole) = (String::new(), Sha1::new());
    for (index, (path, content)) in files.iter().enumerate() {
        let file = packed.join(format!("{index}.gz"));
        fs::write(&file, gzip(content)?)?;
        let (kind, hash) = (kind(path)?, hex(&Sha1::digest(content)));
        whole.update(format!("{path} {hash}\n"));
        let file = file.to_str().ok_or("the output directory's path is not UTF-8")?;
        writeln!(
            table,
            "    Asset {{ path: {path:?}, kind: {kind:?}, hash: {hash:?}, gzip: include_bytes!({file:?}) }},"
        )?;
    }
    let build = hex(&whole.finalize()).chars().take(12).collect::<String>();
    let text = format!(
        "/// False if this build contains a note in place of the page.\n\
         pub const IS_BUILT: bool = {is_built};\n\
         /// Identifies the page: equal for equal files.\n\
         pub const BUILD: &str = {build:?};\n\
         /// Every file of the page.\n\
         pub static ASSETS: &[Asset] = &[\n{table}];\n"
    );
    Ok(fs::write(out.join("assets.rs"), text)?)
}

fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    // The header of the encoder has no date and no name, so the result depends on the content only.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn kind(path: &str) -> Result<&'static str> {
    Ok(match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        _ => return Err(format!("{path} has no known media type; add it to crates/web/build.rs").into()),
    })
}
