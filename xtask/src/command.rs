//! Starts other programs, and reports which one failed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that started this process, so that a pinned toolchain stays pinned in nested calls.
pub(crate) fn cargo(dir: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(dir);
    // Removes the variables about xtask's own package. Otherwise some build scripts would run again, and their
    // dependents compile again, whenever calls with and without xtask alternate.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_package(name)) {
        command.env_remove(name);
    }
    command
}

fn is_about_package(variable: &OsStr) -> bool {
    variable
        .to_str()
        .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
}

/// Any other program, looked up on the `PATH`.
pub(crate) fn program(name: &str, dir: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(dir);
    command
}

/// Runs a command to its end with the terminal shared; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a command to its end and returns its standard output; diagnostics still reach the terminal.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed something that is not UTF-8"))
}

/// Returns true if a program can be started and accepts its arguments; for `--version`.
pub(crate) fn present(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as a developer types it: without the directory of the program.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_without_its_directory() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` failed (exit status: 3)");
    }

    #[test]
    fn cargo_gets_no_variables_about_this_package() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "tests get it too");
        let command = cargo(Path::new("."));
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        assert!(removed.contains(&(OsStr::new("CARGO_MANIFEST_DIR"), None)));
        assert!(removed.iter().all(|(name, _)| is_about_package(name)), "{removed:?}");
    }

    #[test]
    fn a_missing_program_is_an_error_and_not_present() {
        let name = "baton-no-such-program";
        assert!(run(&mut Command::new(name)).unwrap_err().to_string().contains(name));
        assert!(!present(&mut Command::new(name)));
    }

    #[test]
    fn capture_returns_standard_output() {
        assert_eq!(capture(Command::new("sh").args(["-c", "echo out"])).unwrap(), "out\n");
    }
}
