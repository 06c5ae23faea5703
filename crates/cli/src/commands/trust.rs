//! `baton trust`: grants, revokes and shows the trust in a project's configuration.

use std::path::{Path, PathBuf};

use project::{
    install_plugins,
    settings::site,
    trust::{self, DirectoryTrust},
};
use store::files::{Environment, Places, Site, auth::AuthFile, load, trust::Trust as Trusted};

use crate::{
    args::Trust,
    exit::{Exit, Failure},
    terminal, wiring,
};

/// Changes or shows the trust in a directory. A running server applies a change with the next prompt.
pub(crate) async fn trust(options: &Trust) -> Result<Exit, Failure> {
    let places = wiring::places_in(options.data_dir.as_deref())?;
    let said = if options.list {
        list(&places)?
    } else {
        let directory = directory(options)?;
        if options.status {
            status(&places, directory).await?
        } else {
            let said = set(options, &places, &directory)?;
            if !options.revoke {
                install(&places, directory).await;
            }
            said
        }
    };
    terminal::write(&said).map_err(|error| Failure::error(format!("cannot print the result: {error}")))?;
    Ok(Exit::Completed)
}

fn directory(options: &Trust) -> Result<PathBuf, Failure> {
    let directory = options.directory.as_deref().unwrap_or(Path::new("."));
    let shown = directory.display();
    let unusable = |error| Failure::usage(format!("cannot use {shown}: {error}"));
    match directory.canonicalize() {
        Ok(directory) if !directory.is_dir() => Err(Failure::usage(format!("{shown} is not a directory"))),
        // A directory that no longer exists can still be removed from the list.
        Err(_) if options.revoke => std::path::absolute(directory).map_err(unusable),
        directory => directory.map_err(unusable),
    }
}

fn unreadable(places: &Places, error: &std::io::Error) -> Failure {
    Failure::error(format!("cannot use {}: {error}", Trusted::file(&places.data).display()))
}

fn set(options: &Trust, places: &Places, directory: &Path) -> Result<String, Failure> {
    let changed = trust::set(&places.data, directory, !options.revoke);
    let changed = changed.map_err(|error| unreadable(places, &error))?;
    let list = Trusted::read(&places.data).map_err(|error| unreadable(places, &error))?;
    let shown = directory.display();
    Ok(match (options.revoke, changed, list.covering(directory)) {
        (false, true, _) => {
            format!("{shown} is now trusted: its configuration may run programs and send secrets\n")
        }
        (false, false, _) => format!("{shown} is already trusted\n"),
        (true, _, Some(above)) => {
            format!("{shown} is still trusted, because {} above it is trusted\n", above.display())
        }
        (true, true, None) => format!("{shown} is no longer trusted\n"),
        (true, false, None) => format!("{shown} was not trusted\n"),
    })
}

/// Installs the packages of the directory's plugins, so that the first turn does not run without them. A failure does
/// not change the trust: the server tries again.
async fn install(places: &Places, directory: PathBuf) {
    let environment = Environment::capture();
    let site = site(directory).await;
    let standing = standing(&environment, places, &site);
    // Other commands report an invalid configuration.
    let Ok(loaded) = load(&environment, &site, &standing.guard) else { return };
    if loaded.config.plugin.is_empty() {
        return;
    }
    terminal::note("installing the packages of its plugins …");
    for failure in install_plugins(&environment, &places.cache, &loaded.config).await {
        terminal::note(&format!("{failure}; the server tries again when it loads the plugins"));
    }
}

fn standing(environment: &Environment, places: &Places, site: &Site) -> DirectoryTrust {
    let logins = AuthFile::new(environment, &places.data).read().map(|auth| auth.entries);
    DirectoryTrust::read(&places.data, site, logins.unwrap_or_default().keys())
}

fn list(places: &Places) -> Result<String, Failure> {
    let list = Trusted::read(&places.data).map_err(|error| unreadable(places, &error))?;
    let directories: Vec<String> = list.directories().map(|path| path.display().to_string()).collect();
    Ok(lines(directories))
}

fn lines(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().flat_map(|text| [text, "\n".to_owned()]).collect()
}

/// Describes the trust in a directory and lists the withheld parts of its configuration.
async fn status(places: &Places, directory: PathBuf) -> Result<String, Failure> {
    let environment = Environment::capture();
    let site = site(directory).await;
    let standing = standing(&environment, places, &site);
    let loaded = load(&environment, &site, &standing.guard);
    let loaded = loaded.map_err(|invalid| Failure::usage(format!("invalid configuration\n{invalid}")))?;
    let shown = site.directory.display();
    let mut said = match &standing.by {
        Some(by) if *by == site.directory => format!("{shown} is trusted\n"),
        Some(by) => format!("{shown} is trusted, because {} is\n", by.display()),
        None => format!("{shown} is not trusted\n"),
    };
    let withheld = loaded.withheld.iter();
    said += &lines(withheld.map(|part| format!("withheld: {} ({}) in {}", part.key, part.kind, part.file)));
    if let Some(warning) = trust::warning(&site.directory, &loaded.withheld) {
        terminal::note(&warning);
    }
    Ok(said)
}
