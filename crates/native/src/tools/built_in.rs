//! Built-in tools: tools with a fixed name and a typed input.

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::input::parse;
use super::{Call, Output, Tool, ToolFailure};

/// A tool with a fixed name and a typed input. See [`Tool`] for its properties.
pub(super) trait BuiltIn: Send + Sync {
    const NAME: &'static str;
    const PERMISSION: &'static str = Self::NAME;
    const IS_CONCURRENT: bool = false;

    type Input: DeserializeOwned + Send;

    fn description(&self) -> String;

    fn schema(&self) -> Value;

    fn is_available(&self) -> bool {
        true
    }

    /// Validates the input beyond its type.
    fn check(&self, _input: &Self::Input) -> Result<(), String> {
        Ok(())
    }

    fn run(
        &self,
        call: &Call<'_>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Output, ToolFailure>> + Send;
}

impl<T: BuiltIn> Tool for T {
    fn name(&self) -> &str {
        T::NAME
    }

    fn permission(&self) -> &str {
        T::PERMISSION
    }

    fn description(&self) -> String {
        BuiltIn::description(self)
    }

    fn schema(&self) -> Value {
        BuiltIn::schema(self)
    }

    fn is_available(&self) -> bool {
        BuiltIn::is_available(self)
    }

    fn is_concurrent(&self) -> bool {
        T::IS_CONCURRENT
    }

    fn check(&self, input: &Extra) -> Result<(), String> {
        BuiltIn::check(self, &parse(input)?)
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, ToolFailure>> {
        async move {
            let input = parse(call.input).map_err(ToolFailure::Error)?;
            BuiltIn::run(self, call, input).await
        }
        .boxed()
    }
}
