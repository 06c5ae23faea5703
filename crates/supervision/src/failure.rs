//! The reasons why a tool call fails.

use tokio::task;

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolFailure {
    /// An error that the model can react to.
    Error(String),
    /// The user refused; the turn ends after this step.
    Refused(String),
    /// The turn was aborted.
    Cancelled,
}

impl From<workspace::files::Error> for ToolFailure {
    fn from(error: workspace::files::Error) -> Self {
        Self::Error(error.to_string())
    }
}

impl From<workspace::patch::Error> for ToolFailure {
    fn from(error: workspace::patch::Error) -> Self {
        Self::Error(error.to_string())
    }
}

impl From<workspace::search::Error> for ToolFailure {
    fn from(error: workspace::search::Error) -> Self {
        Self::Error(error.to_string())
    }
}

/// Runs blocking work. A panic becomes an error of the tool.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolFailure> {
    task::spawn_blocking(work)
        .await
        .map_err(|error| ToolFailure::Error(format!("the tool failed unexpectedly: {error}")))
}
