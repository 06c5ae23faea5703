//! Keeps secrets out of the environment that `/proc/PID/environ` shows.
//!
//! A process cannot remove a variable from the memory that `/proc/PID/environ` shows: only `execve` replaces it. So a
//! program that was started with keys in its environment executes itself again, in the same process and with the same
//! arguments, without those variables. They travel in a sealed memory file. The memory file and the real standard
//! input travel through a socket that takes the place of standard input during `execve`: descriptors received from a
//! socket are owned values and close on exec, so nothing is adopted by its number and nothing reaches a child.
//!
//! Without secrets in the environment nothing happens. If `execve` fails, the program continues with the
//! environment unchanged.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::secret::is_secret;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::stdio::{dup2_stdin, stdin};
use store::files::Environment;

use crate::{environment, exit::Failure, terminal};

/// Holds the process id between `execve` and the first lines of the new program. A child that inherits the variable
/// has another id, so it does not wait for a hand-over.
const MARK: &str = "BATON_HANDOVER";

/// The name under which `/proc` lists the memory file.
const MEMORY: &str = "baton-environment";

/// Returns true if a variable holds keys although its name does not suggest it.
fn is_opaque(name: &str) -> bool {
    environment::SECRETS.contains(&name) || name == environment::STORE
}

/// Secrets by variable name.
type Variables = BTreeMap<String, OsString>;

/// Receives the variables that the program passed to itself, or passes them and restarts. Must run before any
/// code reads standard input or the environment or starts a thread.
pub(crate) fn secure() -> Result<(), Failure> {
    protect();
    if environment::read(MARK).is_some_and(|id| id == std::process::id().to_string()) {
        let lost = |error| {
            Failure::error(format!(
                "cannot read the keys back after the restart that removed them from the environment: {error}"
            ))
        };
        environment::adopt(receive().map_err(lost)?, MARK);
        return Ok(());
    }
    let secrets = secrets(Environment::capture().variables);
    if !secrets.is_empty() {
        // Returns only if this is still the old program.
        let error = send(&secrets);
        terminal::note(&format!(
            "warning: the keys in the environment stay visible in /proc/{}/environ: {error}",
            std::process::id()
        ));
    }
    Ok(())
}

/// Keeps other processes of the user from reading this process's memory and open files, and prevents core
/// dumps.
fn protect() {
    // A kernel that refuses leaves the process unprotected; the program still starts.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// The variables that must not stay in the environment.
fn secrets(mut variables: Variables) -> Variables {
    variables.retain(|name, value| !value.is_empty() && holds_secret(name));
    variables
}

fn holds_secret(name: &str) -> bool {
    // A personal access token, as some services call their keys.
    let is_access_token = name.ends_with("_PAT");
    is_access_token || is_opaque(name) || is_secret(name)
}

/// Restarts the program without these variables. Returns only if that is impossible.
fn send(secrets: &Variables) -> io::Error {
    let ready = remember(secrets).and_then(|memory| {
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let input = fcntl_dupfd_cloexec(stdin(), 3)?;
        post(&near, &input, &memory)?;
        Ok((far, input, program()?))
    });
    let (far, input, program) = match ready {
        Ok(ready) => ready,
        Err(error) => return error,
    };
    if let Err(error) = dup2_stdin(&far) {
        return error.into();
    }
    let error = restart(&program, secrets);
    match dup2_stdin(&input) {
        Ok(()) => error,
        Err(lost) => lost.into(),
    }
}

/// Writes the variables into a sealed memory file, which cannot change any more.
fn remember(secrets: &Variables) -> io::Result<File> {
    let mut memory = File::from(memfd_create(MEMORY, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    memory.write_all(&encode(secrets))?;
    fcntl_add_seals(&memory, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(memory)
}

fn post(near: &OwnedFd, input: &OwnedFd, memory: &File) -> io::Result<()> {
    let files = [input.as_fd(), memory.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(near, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The program under its real path, which process lists show. If the file was replaced or removed since the
/// start, `/proc/self/exe` still refers to it.
fn program() -> io::Result<PathBuf> {
    let named = std::env::current_exe()?;
    Ok(if named.exists() { named } else { PathBuf::from("/proc/self/exe") })
}

fn restart(program: &Path, secrets: &Variables) -> io::Error {
    let mut args = std::env::args_os();
    #[expect(clippy::disallowed_methods, reason = "replaces this process and starts no other")]
    let mut command = Command::new(program);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    for name in secrets.keys() {
        command.env_remove(name);
    }
    command.args(args).env(MARK, std::process::id().to_string()).exec()
}

/// Receives the variables from [`send`] and restores the real standard input.
fn receive() -> io::Result<Variables> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(stdin(), &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    let mut files = files.into_iter();
    let (Some(input), Some(memory)) = (files.next(), files.next()) else {
        return Err(io::Error::other("standard input is not the socket with the keys"));
    };
    dup2_stdin(&input)?;
    let (mut memory, mut bytes) = (File::from(memory), Vec::new());
    memory.rewind()?;
    memory.read_to_end(&mut bytes)?;
    Ok(decode(&bytes))
}

/// `NAME=value` and a zero byte for each, as the kernel keeps an environment.
fn encode(variables: &Variables) -> Vec<u8> {
    let pieces = variables.iter().flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"]);
    pieces.collect::<Vec<_>>().concat()
}

fn decode(bytes: &[u8]) -> Variables {
    let variable = |piece: &[u8]| {
        let at = piece.iter().position(|byte| *byte == b'=')?;
        let (name, value) = piece.split_at_checked(at)?;
        let value = OsStr::from_bytes(value.get(1..)?);
        Some((String::from_utf8(name.to_vec()).ok()?, OsString::from_vec(value.as_bytes().to_vec())))
    };
    bytes.split(|byte| *byte == 0).filter_map(variable).collect()
}

#[cfg(test)]
mod tests {
    use llm::Catalogue;

    use super::*;

    /// Settings of providers that hold an address or an account, not a key.
    const NO_SECRETS: [&str; 13] = [
        "AWS_REGION",
        "AZURE_COGNITIVE_SERVICES_RESOURCE_NAME",
        "AZURE_RESOURCE_NAME",
        "CLOUDFLARE_ACCOUNT_ID",
        "CLOUDFLARE_GATEWAY_ID",
        "DATABRICKS_HOST",
        "GOOGLE_VERTEX_LOCATION",
        "GOOGLE_VERTEX_PROJECT",
        "INFOMANIAK_PRODUCT_ID",
        "NEON_AI_GATEWAY_BASE_URL",
        "PRIVATEMODE_ENDPOINT",
        "SNOWFLAKE_ACCOUNT",
        "WATSONX_AI_PROJECT_ID",
    ];

    #[test]
    fn every_key_of_a_known_provider_leaves_the_environment() {
        let catalogue = Catalogue::built_in().unwrap();
        for name in catalogue.entries().flat_map(|entry| &entry.env) {
            assert!(holds_secret(name) || NO_SECRETS.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn passwords_tokens_and_whole_configurations_leave_the_environment() {
        let own = environment::PASSWORDS.into_iter().chain(environment::SECRETS);
        let own = own.chain([environment::STORE, environment::FLEET_KEY]);
        for name in
            own.chain(["GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "SLACK_BOT_TOKEN", "a_secret"])
        {
            assert!(holds_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "LANG", "TERM", "NO_COLOR", "XDG_DATA_HOME", "HTTP_PROXY", "SHELL"] {
            assert!(!holds_secret(name), "{name}");
        }
    }

    #[test]
    fn variables_survive_being_written_down() {
        let odd = OsString::from_vec(b"a=b\n\xff".to_vec());
        let variables = Variables::from([("A_KEY".to_owned(), odd), ("B_TOKEN".to_owned(), "b".into())]);
        assert_eq!(decode(&encode(&variables)), variables);
        assert!(decode(b"").is_empty());
    }

    #[test]
    fn an_empty_variable_is_no_secret() {
        let found = secrets([("A_KEY".into(), "".into()), ("B_KEY".into(), "b".into())].into());
        assert_eq!(found.keys().collect::<Vec<_>>(), ["B_KEY"]);
    }
}
