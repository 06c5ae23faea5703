//! One call of a hook: an input, and a value that plugins may change.

use std::{any::Any, fmt};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

use super::HookPoint;

/// A value that plugins may change, which OpenCode's plugin interface calls the output of a hook. Its type identifies
/// the point.
pub trait HookOutput: HookValue + Clone {
    const POINT: HookPoint;
    /// The context that plugins read besides the value.
    type Input: HookValue;
}

/// The input or the output of a hook without its type, so that implementations can pass on all hooks in one method.
pub trait HookValue: Any + fmt::Debug + Send + Sync {
    fn encode(&self) -> serde_json::Result<Box<RawValue>>;

    /// Replaces the value by the one in `json`; an error leaves it unchanged.
    fn decode(&mut self, json: &RawValue) -> serde_json::Result<()>;

    fn copy(&self) -> Box<dyn HookValue>;

    /// Replaces the value by a copy that was changed; a value of another type has no effect.
    fn assign(&mut self, changed: Box<dyn HookValue>);
}

impl<T> HookValue for T
where
    T: Any + Clone + fmt::Debug + DeserializeOwned + Send + Serialize + Sync,
{
    fn encode(&self) -> serde_json::Result<Box<RawValue>> {
        to_raw_value(self)
    }

    fn decode(&mut self, json: &RawValue) -> serde_json::Result<()> {
        *self = serde_json::from_str(json.get())?;
        Ok(())
    }

    fn copy(&self) -> Box<dyn HookValue> {
        Box::new(self.clone())
    }

    fn assign(&mut self, changed: Box<dyn HookValue>) {
        let changed: Box<dyn Any> = changed;
        if let Ok(changed) = changed.downcast() {
            *self = *changed;
        }
    }
}

/// A call of a hook.
#[derive(Debug)]
pub struct HookCall<'a> {
    pub point: HookPoint,
    pub input: &'a dyn HookValue,
    pub output: &'a mut dyn HookValue,
}

impl<'a> HookCall<'a> {
    pub fn new<O: HookOutput>(input: &'a O::Input, output: &'a mut O) -> Self {
        Self { point: O::POINT, input, output }
    }

    /// The input and the output; `None` if `O` belongs to another point.
    pub fn typed<O: HookOutput>(self) -> Option<(&'a O::Input, &'a mut O)> {
        let (input, output): (&dyn Any, &mut dyn Any) = (self.input, self.output);
        Some((input.downcast_ref()?, output.downcast_mut()?))
    }
}
