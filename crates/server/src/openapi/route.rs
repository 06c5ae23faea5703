//! One entry of the table.

use axum::{
    handler::Handler,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::JsonSchema;
use serde_json::Value;

use super::{Described, Operation, Schemas};
use crate::{App, error::Fault};

/// HTTP method of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Patch,
    Put,
    Delete,
}

impl Method {
    /// The method as the document writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Patch => "patch",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Patch => MethodFilter::PATCH,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// The place that can answer a route, when several nodes share a record. A node passes a call of a session or a directory
/// on to the node that owns its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Any node, from the database: sessions, messages, lists, statuses, event streams.
    Record,
    /// The owner of the session's workspace: commands to its actor.
    Session,
    /// The owner of the directory's workspace: files, terminals, and everything that its configuration decides.
    Directory,
    /// Each node for itself: health, metrics, logins.
    Node,
}

/// One route: handler, id and description.
#[derive(Debug)]
pub struct Route {
    class: Class,
    method: Method,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<App>,
    describe: Vec<fn(&mut Operation)>,
    faults: Vec<Fault>,
    is_stream: bool,
}

impl Route {
    /// A route whose handler describes itself.
    pub fn new<H, T>(class: Class, method: Method, path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        Self { describe: vec![H::describe], ..Self::opaque(class, method, path, id, handler) }
    }

    /// A route whose handler reads the raw call; the table's entry describes it.
    pub fn opaque<H, T>(
        class: Class,
        method: Method,
        path: &'static str,
        id: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let handler = on(method.filter(), handler);
        let (describe, faults) = (Vec::new(), vec![Fault::Broken]);
        Self { class, method, path, id, summary: "", handler, describe, faults, is_stream: false }
    }

    /// One-line description of the operation.
    #[must_use]
    pub fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// Adds errors besides those of the extractors.
    #[must_use]
    pub fn faults(mut self, faults: &[Fault]) -> Self {
        self.faults.extend(faults);
        self
    }

    /// Adds the errors of operations that write to the store.
    #[must_use]
    pub fn stores(self) -> Self {
        self.faults(&[Fault::Overloaded, Fault::Closing, Fault::Full])
    }

    /// Declares path parameters that the handler does not read.
    #[must_use]
    pub(crate) fn takes_names(mut self) -> Self {
        self.describe.push(Operation::takes_names);
        self
    }

    /// Declares a stream of `T` as the response.
    #[must_use]
    pub fn streams<T: JsonSchema>(mut self) -> Self {
        self.describe.push(Operation::streams::<T>);
        self.is_stream = true;
        self
    }

    /// Declares metrics as the response.
    #[must_use]
    pub(crate) fn gives_metrics(mut self) -> Self {
        self.describe.push(Operation::gives_metrics);
        self
    }

    /// The path with names in braces.
    pub fn path(&self) -> &'static str {
        self.path
    }

    pub fn method(&self) -> Method {
        self.method
    }

    pub fn class(&self) -> Class {
        self.class
    }

    /// OpenCode's id of the operation.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// True if the response is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    pub(super) fn document(&self, schemas: Schemas) -> (Value, Schemas) {
        let mut operation = Operation::new(self.path, schemas);
        for describe in &self.describe {
            describe(&mut operation);
        }
        for fault in &self.faults {
            operation.fails(*fault);
        }
        operation.finish(self.id, self.summary)
    }

    pub(super) fn into_handler(self) -> MethodRouter<App> {
        self.handler
    }
}

/// A constructor of [`Route`] for each method.
macro_rules! constructors {
    ($($name:ident => $method:ident),*) => {
        impl Route {
            $(pub fn $name<H, T>(class: Class, path: &'static str, id: &'static str, handler: H) -> Self
            where
                H: Handler<T, App> + Described<T>,
                T: 'static,
            {
                Self::new(class, Method::$method, path, id, handler)
            })*
        }
    };
}

constructors!(get => Get, post => Post, patch => Patch, put => Put, delete => Delete);
