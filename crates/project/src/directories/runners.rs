//! The engine's port [`Runners`]: agent, model and runner of a prompt, from the session's directory.

use std::sync::Arc;

use engine::ports::{Resolved, Runners, Unresolved, Wanted};
use futures::future::{BoxFuture, FutureExt, join_all};
use protocol::{
    Session, SessionId,
    prompt::{CommandInput, PromptInput},
};

use super::Directories;
use crate::{lease::Leased, project::Project};

impl Directories {
    /// Returns the project of a session's directory.
    async fn of(&self, session: &Session) -> Result<Arc<Project>, Unresolved> {
        let directory = &session.directory;
        self.project(directory).await.map_err(|invalid| Unresolved::Configuration {
            directory: directory.clone(),
            message: invalid.message,
        })
    }
}

impl Directories {
    /// Returns the project of a session's directory once its required plugins are loaded.
    async fn with_required_plugins(&self, session: &Session) -> Result<Arc<Project>, Unresolved> {
        let project = self.of(session).await?;
        if !project.plugins.are_required() {
            return Ok(project);
        }
        let directory = session.directory.clone();
        let failed = |message| Unresolved::Configuration { directory, message };
        project.plugins.require().await.map_err(failed)?;
        // Plugins that have loaded meanwhile may have changed the configuration.
        self.of(session).await
    }
}

impl Runners for Directories {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let session = wanted.session;
            let lease = self.entry(&session.directory).lease();
            let project = self.with_required_plugins(session).await?;
            self.warn(session, &project);
            let hooks = project.hooks(&self.services, || self.place(session));
            let resolved = project.roster.resolve(wanted).await?;
            let runner = Arc::new(Leased::new(Arc::clone(&resolved.runner), lease));
            Ok(Resolved { hooks, runner, ..resolved })
        }
        .boxed()
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let projects = self.built();
        async move {
            let agents = projects.iter().flat_map(|project| &project.roster.external);
            join_all(agents.map(|agent| agent.forget(session))).await;
        }
        .boxed()
    }

    fn command<'a>(
        &'a self,
        session: &'a Session,
        input: &'a CommandInput,
    ) -> BoxFuture<'a, Result<PromptInput, Unresolved>> {
        async move { self.of(session).await?.roster.command(session, input).await }.boxed()
    }
}
