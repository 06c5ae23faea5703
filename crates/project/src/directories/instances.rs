//! The server's port [`Instances`]: what the routes about a directory show and change.

use std::{collections::BTreeMap, error::Error as StdError, io, path::PathBuf, sync::Arc};

use engine::{
    bus::Place,
    ports::{Hooks, NoHooks},
};
use futures::future::{BoxFuture, FutureExt};
use protocol::{
    diagnostic::Diagnostic,
    login::{Authorization, Login, LoginBegin, LoginComplete, LoginMethod},
    provider::Provider,
    trust::Trust,
};
use serde_json::{Map, Value};
use server::{
    Instance, Instances, LoginFault,
    instance::{Invalid, Refused, ToolInfo, Unchanged},
};
use store::files::{self, auth::AuthFile, redacted};
use tokio::{task::spawn_blocking, time::timeout};

use super::{DEADLINE, Directories, late};
use crate::{
    providers,
    settings::{site, unusable},
    trust::{self, DirectoryTrust},
};

impl Instances for Directories {
    fn find<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Arc<Instance>, Invalid>> {
        async move { Ok(Arc::clone(&self.project(directory).await?.instance)) }.boxed()
    }

    fn others<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Vec<Provider>, Invalid>> {
        async move {
            let project = self.project(directory).await?;
            let others = spawn_blocking(move || {
                let is_usable = |id: &str| project.instance.providers.iter().any(|usable| usable.id == id);
                providers::others(&project.settings.loaded.config, is_usable)
            });
            match others.await {
                Ok(Ok(others)) => Ok(others),
                Ok(Err(error)) => Err(Invalid { path: None, message: error.to_string() }),
                Err(error) => Err(Invalid { path: None, message: error.to_string() }),
            }
        }
        .boxed()
    }

    fn tools<'a>(
        &'a self,
        directory: &'a str,
        model: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<ToolInfo>, Invalid>> {
        async move {
            let info = |tool: llm::Tool| ToolInfo {
                id: tool.name,
                description: tool.description,
                parameters: tool.schema,
            };
            Ok(self.project(directory).await?.native.tools(model).into_iter().map(info).collect())
        }
        .boxed()
    }

    fn login_methods<'a>(
        &'a self,
        directory: &'a str,
    ) -> BoxFuture<'a, Result<BTreeMap<String, Vec<LoginMethod>>, Invalid>> {
        async move { Ok(self.project(directory).await?.plugins.login_methods()) }.boxed()
    }

    fn begin_login<'a>(
        &'a self,
        directory: &'a str,
        provider: &'a str,
        how: LoginBegin,
    ) -> BoxFuture<'a, Result<Option<Authorization>, LoginFault>> {
        async move { self.project(directory).await?.plugins.begin_login(provider, how).await }.boxed()
    }

    fn complete_login<'a>(
        &'a self,
        directory: &'a str,
        provider: &'a str,
        how: LoginComplete,
    ) -> BoxFuture<'a, Result<Option<Login>, LoginFault>> {
        async move { self.project(directory).await?.plugins.complete_login(provider, how).await }.boxed()
    }

    fn hooks<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Arc<dyn Hooks>> {
        async move {
            match self.project(&place.directory).await {
                Ok(project) => project.hooks(&self.services, || place.clone()),
                // Calls that need the configuration report what is wrong with it.
                Err(_) => NoHooks::shared(),
            }
        }
        .boxed()
    }

    fn forget(&self, directory: Option<&str>) {
        let mut entries = self.entries.lock();
        match directory {
            Some(directory) => drop(entries.remove(directory)),
            None => entries.clear(),
        }
    }

    fn user_config(&self) -> BoxFuture<'_, Result<Value, Invalid>> {
        let environment = self.services.environment.clone();
        let read = spawn_blocking(move || files::load_user(&environment));
        async move {
            match timeout(DEADLINE, read).await {
                Ok(Ok(Ok(loaded))) => Ok(redacted(&loaded.config)),
                Ok(Ok(Err(invalid))) => Err(unusable(&invalid)),
                Ok(Err(error)) => Err(Invalid { path: None, message: error.to_string() }),
                Err(_) => Err(late("reading the user's configuration")),
            }
        }
        .boxed()
    }

    fn configure<'a>(
        &'a self,
        directory: Option<&'a str>,
        change: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, Unchanged>> {
        async move {
            let site = match directory {
                Some(directory) => Some(site(directory.into()).await),
                None => None,
            };
            let (environment, changes) = (self.services.environment.clone(), Arc::clone(&self.changes));
            let data = self.services.places.data.clone();
            let changed = spawn_blocking(move || {
                let _held = changes.lock();
                let site = site.map(|site| {
                    let logins = AuthFile::new(&environment, &data).read().map(|auth| auth.entries);
                    let guard = DirectoryTrust::read(&data, &site, logins.unwrap_or_default().keys()).guard;
                    (site, guard)
                });
                files::change(&environment, site.as_ref().map(|(site, guard)| (site, guard)), &change)
            });
            match timeout(DEADLINE, changed).await {
                Ok(Ok(Ok(loaded))) => Ok(redacted(&loaded.config)),
                Ok(Ok(Err(error))) => Err(unchanged(&error)),
                Ok(Err(error)) => Err(refused(&error).into()),
                Err(_) => Err(late("changing the configuration").into()),
            }
        }
        .boxed()
    }

    fn diagnostics<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Vec<Diagnostic>, Invalid>> {
        async move { Ok(self.project(directory).await?.diagnostics()) }.boxed()
    }

    fn trust<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Trust, Invalid>> {
        async move {
            let settings = self.settings(directory).await?;
            Ok(settings.standing.report(&settings.site.directory, &settings.loaded.withheld))
        }
        .boxed()
    }

    fn set_trust<'a>(&'a self, directory: &'a str, trusted: bool) -> BoxFuture<'a, Result<(), Refused>> {
        let (data, path) = (self.services.places.data.clone(), PathBuf::from(directory));
        let trusting = Arc::clone(&self.trusting);
        let written = spawn_blocking(move || {
            let _held = trusting.lock();
            trust::set(&data, &path, trusted)
        });
        async move {
            match timeout(DEADLINE, written).await {
                Ok(Ok(Ok(_))) => Ok(()),
                Ok(Ok(Err(error))) => {
                    let message = format!("the list of trusted directories cannot be written: {error}");
                    Err(if is_full(&error) { Refused::Full(message) } else { Refused::Unfit(message) })
                }
                Ok(Err(error)) => Err(Refused::Unfit(error.to_string())),
                Err(_) => Err(Refused::Unfit(late("writing the list of trusted directories").message)),
            }
        }
        .boxed()
    }

    fn log_in<'a>(&'a self, provider: &'a str, login: Option<Login>) -> BoxFuture<'a, Result<(), Refused>> {
        let auth = AuthFile::new(&self.services.environment, &self.services.places.data);
        let provider = provider.to_owned();
        let written = spawn_blocking(move || match login {
            Some(login) => auth.set(&provider, &login),
            None => auth.remove(&provider),
        });
        async move {
            match timeout(DEADLINE, written).await {
                Ok(Ok(Ok(()))) => Ok(()),
                Ok(Ok(Err(error))) => Err(refused(&error)),
                Ok(Err(error)) => Err(refused(&error)),
                Err(_) => Err(Refused::Unfit(late("writing the login").message)),
            }
        }
        .boxed()
    }
}

fn unchanged(error: &files::Unchanged) -> Unchanged {
    match error {
        files::Unchanged::Invalid(invalid) => {
            Invalid { message: error.to_string(), ..unusable(invalid) }.into()
        }
        _ => refused(error).into(),
    }
}

/// Tells a full disk, which the client may solve, from every other reason.
fn refused(error: &(dyn StdError + 'static)) -> Refused {
    let (mut cause, mut full) = (Some(error), false);
    while let Some(error) = cause {
        full |= error.downcast_ref().is_some_and(is_full);
        cause = error.source();
    }
    if full { Refused::Full(error.to_string()) } else { Refused::Unfit(error.to_string()) }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
