//! A home, a data directory and projects of their own, with the services that directories need.

use std::{fs, path::Path, sync::Arc};

use engine::{
    bus::Bus,
    ports::{Resolved, Runners, SystemClock, SystemRandom, Unresolved, Wanted},
};
use llm::demo::Demo;
use protocol::{Session, message::ModelRef};
use serde_json::{Value, json};
use server::{Instance, Instances, instance::Invalid};
use store::files::{Environment, Places};
use tempfile::TempDir;

use crate::{Directories, Services, services::Options};

pub(super) const CONFIG: &str = "opencode.json";

pub(super) struct Harness {
    root: TempDir,
    pub(super) bus: Arc<Bus>,
    pub(super) directories: Arc<Directories>,
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with_variables(&[])
    }

    /// The environment consists of `HOME` and these variables. It has no `PATH`, so that no installed agent is found.
    pub(super) fn with_variables(variables: &[(&str, &str)]) -> Self {
        let root = TempDir::with_prefix("baton-project-").unwrap();
        for name in ["home", "data"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let home = root.path().join("home");
        let mut environment = Environment::of(variables.iter().copied());
        environment.variables.insert("HOME".to_owned(), home.into());
        let places = Places::resolve(Some(&root.path().join("data")), &environment).unwrap();
        let bus = Arc::new(Bus::default());
        let directories = Arc::new(Directories::new(Services::new(Options {
            environment,
            places,
            demo: Demo::built_in().unwrap(),
            authorization: None,
            bus: bus.clone(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        })));
        Self { root, bus, directories }
    }

    pub(super) fn data(&self) -> std::path::PathBuf {
        self.root.path().join("data")
    }

    /// Creates a project with this configuration.
    pub(super) fn project(&self, name: &str, config: &Value) -> String {
        let path = self.root.path().join(name);
        fs::create_dir(&path).unwrap();
        let directory = path.canonicalize().unwrap().to_str().unwrap().to_owned();
        write(&directory, CONFIG, &config.to_string());
        directory
    }

    /// Writes the user's own configuration.
    pub(super) fn configure_user(&self, config: &Value) {
        let home = self.root.path().join("home");
        write(home.to_str().unwrap(), ".config/opencode/opencode.json", &config.to_string());
    }

    pub(super) async fn find(&self, directory: &str) -> Result<Arc<Instance>, Invalid> {
        self.directories.find(directory).await
    }

    pub(super) async fn instance(&self, directory: &str) -> Arc<Instance> {
        self.find(directory).await.unwrap()
    }

    /// Resolves a prompt, with a model as `provider/model` if it names one.
    pub(super) async fn resolve(&self, directory: &str, model: Option<&str>) -> Result<Resolved, Unresolved> {
        let model = model.and_then(|name| name.split_once('/'));
        let model = model.map(|(provider, model)| ModelRef::new(provider, model));
        let session = session(directory);
        self.directories.resolve(Wanted { session: &session, agent: None, model: model.as_ref() }).await
    }

    pub(super) async fn provider_ids(&self, directory: &str) -> Vec<String> {
        self.instance(directory).await.providers.iter().map(|provider| provider.id.clone()).collect()
    }
}

pub(super) fn write(directory: &str, name: &str, text: &str) {
    let path = Path::new(directory).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn session(directory: &str) -> Session {
    serde_json::from_value(json!({
        "id": "ses_1", "slug": "s", "projectID": "global", "directory": directory, "title": "t", "version": "0",
        "time": { "created": 1, "updated": 1 },
    }))
    .unwrap()
}

/// Returns the names of agents or commands.
pub(super) fn names<'a, T>(list: &'a [T], name: impl Fn(&'a T) -> &'a String) -> Vec<&'a str> {
    list.iter().map(|entry| name(entry).as_str()).collect()
}
