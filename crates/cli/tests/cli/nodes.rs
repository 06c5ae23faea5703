//! Tests of `--node` and `baton nodes`: a server as a node of a fleet.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use testkit::postgres::Cluster;

use crate::harness::{Ended, Harness, Server, finish};

async fn refused(harness: &Harness, args: &[&str]) -> Ended {
    let ended = harness.run_with_data(&[&["serve", "--port", "0"], args].concat()).await;
    assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
    ended
}

#[tokio::test]
async fn a_node_needs_a_database_a_plain_name_and_an_address() {
    let harness = Harness::new();
    let without = refused(&harness, &["--node", "a"]).await;
    assert!(without.stderr.contains("--store or BATON_STORE"), "{}", without.stderr);
    let store = ["--store", "postgres://baton@%2Fnowhere/baton"];
    for name in ["single", "-a b", "a/b", ""] {
        let name = format!("--node={name}");
        let ended = refused(&harness, &[&store[..], &[&name]].concat()).await;
        assert!(ended.stderr.contains("cannot be the name of a node"), "{}", ended.stderr);
    }
    let channels = refused(&harness, &[&store[..], &["--node", "a", "--channels"]].concat()).await;
    assert!(channels.stderr.contains("baton channels --attach"), "{}", channels.stderr);
    let address = refused(&harness, &[&store[..], &["--node", "a", "--address", "10.0.0.5"]].concat()).await;
    assert!(address.stderr.contains("is not the address of a node"), "{}", address.stderr);
    refused(&harness, &["--address", "http://10.0.0.5:4096"]).await;

    let reachable = |args: &[&str]| {
        let args = [&["serve", "--port", "0", "--node", "a"], &store[..], args].concat();
        let mut command = harness.with_data(&args);
        command.env("BATON_PASSWORD", "secret");
        finish(command, "")
    };
    let anywhere = reachable(&["--hostname", "0.0.0.0"]).await;
    assert_eq!(anywhere.code, Some(2), "{anywhere:?}");
    assert!(anywhere.stderr.contains("--address URL"), "{}", anywhere.stderr);
    let keyless = reachable(&["--address", "http://10.0.0.5:4096"]).await;
    assert_eq!(keyless.code, Some(2), "{keyless:?}");
    assert!(keyless.stderr.contains("BATON_FLEET_KEY"), "{}", keyless.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_used_once_and_commands_find_the_fleet() {
    let Some(cluster) = Cluster::start().unwrap() else { return };
    let url = cluster.database("baton").unwrap();
    let harness = Harness::new();
    let serve = ["serve", "--port", "0", "--store", &url];
    let node = Server::start(harness.with_data(&[&serve[..], &["--node", "a"]].concat())).await;
    let session = node.calls.session().await.unwrap();

    let other = Harness::new();
    let twice = refused(&other, &["--store", &url, "--node", "a"]).await;
    assert!(
        twice.stderr.contains("the node a") && twice.stderr.contains("already running"),
        "{}",
        twice.stderr
    );
    let nameless = refused(&other, &["--store", &url]).await;
    assert!(nameless.stderr.contains("belongs to a fleet of nodes"), "{}", nameless.stderr);
    assert!(nameless.stderr.contains("--node NAME"), "{}", nameless.stderr);
    let mut sessions = other.with_data(&["sessions"]);
    sessions.env("BATON_STORE", &url);
    let sessions = finish(sessions, "").await;
    assert_eq!(sessions.code, Some(2), "{sessions:?}");
    assert!(sessions.stderr.contains("--attach URL"), "{}", sessions.stderr);

    // Commands of the node's data directory, and those with its address.
    let listed = harness.run_with_data(&["sessions", "--json"]).await;
    assert!(listed.stdout.contains(&session), "{listed:?}");
    let nodes = harness.run_with_data(&["nodes"]).await;
    assert!(nodes.stdout.starts_with("NODE") && nodes.stdout.contains("its own directories"), "{nodes:?}");
    let places = harness.run_with_data(&["nodes", "--workspaces"]).await;
    let project = harness.project();
    assert!(places.stdout.contains(project.to_str().unwrap()), "{places:?}");
    let attached = other.run(&["nodes", "--json", "--attach", &node.url]).await;
    let list: serde_json::Value = serde_json::from_str(&attached.stdout).unwrap();
    assert_eq!((&list[0]["name"], &list[0]["state"]), (&"a".into(), &"up".into()), "{list}");
    let unknown = other.run(&["nodes", "drain", "nobody", "--attach", &node.url]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    node.signal(Signal::TERM);
    let (status, said, _) = node.ended().await;
    assert!(status.success(), "{said}");
    let stopped = harness.run_with_data(&["nodes"]).await;
    assert_eq!(stopped.code, Some(2), "{stopped:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_refuses_webhooks_and_sessions_of_a_server_without_a_name() {
    let Some(cluster) = Cluster::start().unwrap() else { return };
    let url = cluster.database("baton").unwrap();
    let harness = Harness::new();
    let folder = harness.path("home").join(".config/opencode");
    std::fs::create_dir_all(&folder).unwrap();
    let config = r#"{ "webhook": { "one": { "url": "https://example.com/hook", "secret": "s3cret" } } }"#;
    std::fs::write(folder.join("baton.json"), config).unwrap();
    let webhooks = refused(&harness, &["--store", &url, "--node", "a"]).await;
    assert!(webhooks.stderr.contains("sends no webhooks yet"), "{}", webhooks.stderr);

    let other = Harness::new();
    let alone = Server::start(other.with_data(&["serve", "--port", "0", "--store", &url])).await;
    alone.calls.session().await.unwrap();
    let running = refused(&Harness::new(), &["--store", &url, "--node", "a"]).await;
    assert!(running.stderr.contains("in use by another server"), "{}", running.stderr);
    alone.stop().await;
    let left = refused(&other, &["--store", &url, "--node", "a"]).await;
    assert!(left.stderr.contains("sessions of a server without a node name"), "{}", left.stderr);
}

#[tokio::test]
async fn the_examples_of_a_fleet_are_accepted() {
    let read = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet");
        std::fs::read_to_string(folder.join(name)).unwrap()
    };
    let compose: Value = serde_saphyr::from_str(&read("compose.yaml")).unwrap();
    let pods: Vec<Value> = serde_saphyr::from_multiple(&read("kubernetes.yaml")).unwrap();
    let words = |line: &Value| line.as_str().unwrap().split(' ').map(str::to_owned).collect::<Vec<_>>();
    let container = &pods.iter().find(|it| it["kind"] == "StatefulSet").unwrap()["spec"]["template"]["spec"]
        ["containers"][0];
    let args = container["args"].as_array().unwrap();
    let pod = args.iter().map(|it| it.as_str().unwrap().replace("$(NODE)", "baton-0")).collect();
    let harness = Harness::new();
    for args in
        [words(&compose["services"]["a"]["command"]), words(&compose["services"]["b"]["command"]), pod]
    {
        let args = args
            .iter()
            .filter(|arg| !arg.starts_with("--data-dir"))
            .map(|arg| arg.replace("0.0.0.0", "127.0.0.1"));
        let args: Vec<_> = args.chain(["--port".to_owned(), "0".to_owned()]).collect();
        let mut command = harness.with_data(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let key = "a key of a fleet for tests, long enough";
        command.envs([
            ("BATON_PASSWORD", "secret"),
            ("BATON_FLEET_KEY", key),
            ("BATON_STORE", "mysql://nowhere"),
        ]);
        let ended = finish(command, "").await;
        assert!(
            ended.stderr.contains("it does not begin with postgres://"),
            "only the database is wrong: {ended:?}"
        );
    }
    assert!(read("front.conf").contains("proxy_buffering off;"));
}
