//! One entry of the table.

use axum::{
    handler::Handler,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::JsonSchema;
use serde_json::Value;

use super::{Described, Operation, Schemas};
use crate::{App, error::Fault};

/// How a route is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Does something.
    Post,
    /// Changes something.
    Patch,
    /// Puts something in the place of what was there.
    Put,
    /// Removes something.
    Delete,
}

impl Method {
    /// As the document writes it.
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

/// One route: what serves it and what it is.
#[derive(Debug)]
pub struct Route {
    method: Method,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<App>,
    describe: Vec<fn(&mut Operation)>,
    faults: Vec<Fault>,
}

impl Route {
    /// A route whose handler describes itself.
    pub fn new<H, T>(method: Method, path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        Self { describe: vec![H::describe], ..Self::opaque(method, path, id, handler) }
    }

    /// A route whose handler reads the call itself; the entry has to say the rest.
    pub fn opaque<H, T>(method: Method, path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let handler = on(method.filter(), handler);
        Self { method, path, id, summary: "", handler, describe: Vec::new(), faults: vec![Fault::Broken] }
    }

    /// Reads something.
    pub fn get<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        Self::new(Method::Get, path, id, handler)
    }

    /// Does something.
    pub fn post<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        Self::new(Method::Post, path, id, handler)
    }

    /// Changes something.
    pub fn patch<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        Self::new(Method::Patch, path, id, handler)
    }

    /// Puts something in the place of what was there.
    pub fn put<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        Self::new(Method::Put, path, id, handler)
    }

    /// Removes something.
    pub fn delete<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        Self::new(Method::Delete, path, id, handler)
    }

    /// What it is for, in a line.
    #[must_use]
    pub fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// What may go wrong besides a call that does not fit.
    #[must_use]
    pub fn faults(mut self, faults: &[Fault]) -> Self {
        self.faults.extend(faults);
        self
    }

    /// It stores something, so the store may refuse.
    #[must_use]
    pub fn stores(self) -> Self {
        self.faults(&[Fault::Overloaded, Fault::Closing, Fault::Full])
    }

    /// Its path has names in it that the handler does not look at.
    #[must_use]
    pub fn takes_names(mut self) -> Self {
        self.describe.push(Operation::takes_names);
        self
    }

    /// It answers with a stream of these.
    #[must_use]
    pub fn streams<T: JsonSchema>(mut self) -> Self {
        self.describe.push(Operation::streams::<T>);
        self
    }

    /// It answers with figures for Prometheus.
    #[must_use]
    pub fn gives_metrics(mut self) -> Self {
        self.describe.push(Operation::gives_metrics);
        self
    }

    /// The path, with names in braces.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// How it is called.
    pub fn method(&self) -> Method {
        self.method
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
