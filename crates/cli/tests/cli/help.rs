//! Help, version and usage errors.

use std::fmt::Write as _;

use crate::harness::Harness;

#[tokio::test]
async fn help_is_as_written() {
    let harness = Harness::new();
    let mut text = String::new();
    for command in [
        &["--help"][..],
        &["serve", "--help"],
        &["run", "--help"],
        &["sessions", "--help"],
        &["check", "--help"],
        &["channels", "--help"],
    ] {
        let ended = harness.run(command).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        writeln!(text, "$ baton {}\n{}", command.join(" "), ended.stdout).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn the_version_is_the_packages() {
    let (harness, version) = (Harness::new(), env!("CARGO_PKG_VERSION"));
    assert_eq!(harness.run(&["-V"]).await.stdout, format!("baton {version}\n"));
    let long = harness.run(&["--version"]).await.stdout;
    let page = if server::web::IS_BUILT { "with" } else { "without" };
    assert_eq!(long, format!("baton {version} ({page} the web page)\n"));
}

#[tokio::test]
async fn the_openapi_document_is_json_with_the_servers_routes() {
    let ended = Harness::new().run(&["openapi"]).await;
    assert_eq!(ended.code, Some(0));
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/global/event"]["get"].is_object());
}

#[tokio::test]
async fn an_invalid_command_line_is_a_usage_error() {
    let harness = Harness::new();
    for args in [&["fly"][..], &["serve", "--port", "many"], &["run", "x", "--yes", "--deny"]] {
        let ended = harness.run(args).await;
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
    }
}
