//! `baton models`: lists the models that can be used in this directory.

use client::Provider;

use super::host::Host;
use crate::{
    args::{Models, Target},
    environment,
    exit::{Exit, Failure},
    terminal,
    wiring::{Engine, Purpose},
};

/// Prints one model per line, as `--model` takes it.
pub(crate) async fn models(options: Models) -> Result<Exit, Failure> {
    let here = environment::here()?;
    let (host, engine) = open(&options.target, &here).await?;
    let providers = host.providers(&here).await;
    close(engine).await;
    let word = options.word.unwrap_or_default().to_lowercase();
    let names = names(providers?).into_iter().filter(|name| name.to_lowercase().contains(&word));
    let lines: String = names.map(|name| name + "\n").collect();
    if lines.is_empty() {
        return Err(Failure::usage(format!("no model has \"{word}\" in its name"))
            .hint("`baton models` lists all of them"));
    }
    terminal::write(&lines).map_err(|error| Failure::error(format!("cannot print the list: {error}")))?;
    Ok(Exit::Completed)
}

/// The names of all models, as `provider/model`.
pub(super) fn names(providers: Vec<Provider>) -> Vec<String> {
    let names = providers
        .into_iter()
        .flat_map(|Provider { id, models, .. }| models.into_iter().map(move |model| format!("{id}/{model}")));
    names.collect()
}

/// The host of a command that only looks at something.
pub(super) async fn open(target: &Target, here: &str) -> Result<(Host, Option<Engine>), Failure> {
    let options = crate::args::Engine { data_dir: target.data_dir.clone(), ..crate::args::Engine::default() };
    Host::open(&options, target.attach.as_deref(), here.as_ref(), Purpose::Manage).await
}

pub(super) async fn close(engine: Option<Engine>) {
    if let Some(engine) = engine {
        engine.close().await;
    }
}
