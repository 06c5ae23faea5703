//! Real programs on real terminals.

use tempfile::TempDir;

use super::*;
use crate::process::tests::lives;

const PATIENCE: Duration = Duration::from_secs(20);

fn start(script: &str) -> (Terminal, TempDir) {
    let directory = TempDir::new().unwrap();
    let spec = Spec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        directory: directory.path().into(),
        environment: vec![("GIVEN".into(), "given".into())],
        hidden: vec!["PATH".into()],
    };
    (Terminal::start(&spec).unwrap(), directory)
}

/// All output until the program ends.
async fn rest(terminal: &Terminal) -> String {
    let (mut screen, mut place, mut text) = (terminal.screen(), 0, String::new());
    let read = async {
        while let Some((piece, after)) = screen.next(place).await {
            text.push_str(&piece);
            place = after;
        }
    };
    timeout(PATIENCE, read).await.unwrap();
    text
}

/// Output so far, as soon as it contains `words`.
async fn until(terminal: &Terminal, words: &str) -> String {
    let (mut screen, mut place, mut text) = (terminal.screen(), 0, String::new());
    let read = async {
        while !text.contains(words) {
            let (piece, after) = screen.next(place).await.expect("the program ended before it printed this");
            text.push_str(&piece);
            place = after;
        }
    };
    timeout(PATIENCE, read).await.unwrap();
    text
}

#[tokio::test]
async fn a_program_has_a_terminal_a_size_and_an_environment_without_secrets() {
    let (terminal, _directory) = start(
        "test -t 0 && test -t 2 && /bin/stty size; echo $TERM $GIVEN [$(/usr/bin/env | /bin/grep ^PATH=)]; exit 3",
    );
    let text = rest(&terminal).await;
    assert_eq!(text, "24 80\r\nxterm-256color given []\r\n");
    assert_eq!(terminal.screen().exit(), Some(Exit::Code(3)));
}

#[tokio::test]
async fn typed_text_arrives_and_a_new_size_is_noticed() {
    // A signal may interrupt `read` without input; then it is repeated.
    let (terminal, _directory) = start(
        "trap '/bin/stty size' WINCH; echo ready; until read line; do :; done; echo \"<$line>\"; \
         until read line; do :; done",
    );
    until(&terminal, "ready").await;
    terminal.resize(Size { rows: 50, columns: 132 }).unwrap();
    terminal.write("ä\n".as_bytes()).await.unwrap();
    until(&terminal, "<ä>").await;
    until(&terminal, "50 132").await;
    terminal.write(b"\x03").await.unwrap();
    rest(&terminal).await;
    assert_eq!(terminal.screen().exit(), Some(Exit::Signal(2)));
}

#[tokio::test]
async fn all_descendants_end_with_it() {
    let script =
        "trap '' HUP TERM; /usr/bin/setsid /bin/sleep 600 & echo $!; /bin/sleep 600 & echo $! $$ ready; wait";
    for stopped in [true, false] {
        let (terminal, _directory) = start(script);
        let text = until(&terminal, "ready").await;
        let processes: Vec<_> = text.split_whitespace().filter(|word| *word != "ready").collect();
        assert_eq!(processes.len(), 3);
        assert!(processes.iter().all(|id| lives(id)));
        if stopped {
            timeout(PATIENCE, terminal.stop()).await.unwrap();
            assert_eq!(terminal.screen().exit(), Some(Exit::Cancelled));
        } else {
            let mut screen = terminal.screen();
            drop(terminal);
            assert_eq!(timeout(PATIENCE, screen.ended()).await.unwrap(), None);
        }
        assert!(!processes.iter().any(|id| lives(id)), "stopped: {stopped}");
    }
}

#[tokio::test]
async fn no_process_survives_the_end_of_the_program() {
    let (terminal, _directory) = start("/usr/bin/setsid /bin/sleep 600 & echo $!");
    let text = rest(&terminal).await;
    assert_eq!(terminal.screen().exit(), Some(Exit::Code(0)));
    assert!(!lives(text.trim()), "{text}");
}

#[tokio::test]
async fn output_without_a_viewer_does_not_block_the_program() {
    let (terminal, _directory) = start("/usr/bin/head -c 3000000 /dev/zero | /usr/bin/tr '\\0' x; echo end");
    timeout(PATIENCE, terminal.screen().ended()).await.unwrap();
    let screen = terminal.screen();
    assert_eq!(screen.end(), 3_000_005);
    assert_eq!(screen.read(3_000_000).0, "end\r\n");
    assert!(rest(&terminal).await.len() < 2 * SCROLLBACK);
}

#[tokio::test]
async fn a_missing_program_cannot_be_started() {
    let spec = Spec {
        program: "/nonexistent/program".into(),
        args: Vec::new(),
        directory: "/".into(),
        environment: Vec::new(),
        hidden: Vec::new(),
    };
    let error = Terminal::start(&spec).unwrap_err().to_string();
    assert!(error.starts_with("cannot start `/nonexistent/program`: No such file"), "{error}");
}
