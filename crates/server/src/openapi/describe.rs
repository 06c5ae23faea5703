//! Derives the description of an operation from a handler's signature.

use axum::{Extension, Json, extract::State, response::Response};
use http::HeaderMap;
use schemars::JsonSchema;

use super::Operation;
use crate::{
    App, Error,
    error::Fault,
    extract::{
        Body, ClientName, Directory, FromPath, Link, OptionalBody, Params, Query, Sent, directory::Elsewhere,
    },
    fleet::Offered,
    instance::Here,
    security::Caller,
};

/// An argument of a handler.
pub trait Takes {
    /// Adds the parameters it reads and the errors it can return.
    fn describe(operation: &mut Operation);
}

/// The return type of a handler.
pub trait Gives {
    /// Adds the response.
    fn describe(operation: &mut Operation);
}

/// A handler that describes itself. `T` is axum's list of its arguments.
pub trait Described<T> {
    /// Adds everything that follows from the signature.
    fn describe(operation: &mut Operation);
}

impl Takes for State<App> {
    fn describe(_: &mut Operation) {}
}

impl Takes for Link {
    fn describe(_: &mut Operation) {}
}

impl Takes for Caller {
    fn describe(_: &mut Operation) {}
}

/// The header is between Baton and its plugin host, and not part of the interface.
impl Takes for Sent {
    fn describe(_: &mut Operation) {}
}

/// Only nodes send it.
impl<I> Takes for Offered<I> {
    fn describe(_: &mut Operation) {}
}

/// The fleet's layer adds it; no client sends it.
impl Takes for Option<Extension<Elsewhere>> {
    fn describe(_: &mut Operation) {}
}

impl Takes for ClientName {
    fn describe(operation: &mut Operation) {
        operation.takes_client_name();
    }
}

impl Takes for HeaderMap {
    fn describe(_: &mut Operation) {}
}

impl<T: FromPath> Takes for Params<T> {
    fn describe(operation: &mut Operation) {
        operation.takes_path::<T>();
        operation.fails(Fault::BadRequest);
    }
}

impl<T: JsonSchema> Takes for Query<T> {
    fn describe(operation: &mut Operation) {
        operation.takes_query::<T>();
        operation.fails(Fault::BadRequest);
    }
}

impl Takes for Directory {
    fn describe(operation: &mut Operation) {
        operation.takes_directory();
        operation.fails(Fault::BadRequest);
    }
}

impl Takes for Here {
    fn describe(operation: &mut Operation) {
        operation.takes_directory();
        operation.fails(Fault::BadRequest);
        operation.fails(Fault::Configuration);
    }
}

impl<T: JsonSchema> Takes for Body<T> {
    fn describe(operation: &mut Operation) {
        operation.takes_body::<T>(true);
        refuses_bodies(operation);
    }
}

impl<T: JsonSchema> Takes for OptionalBody<T> {
    fn describe(operation: &mut Operation) {
        operation.takes_body::<T>(false);
        refuses_bodies(operation);
    }
}

fn refuses_bodies(operation: &mut Operation) {
    for fault in [Fault::BadRequest, Fault::TooSlow, Fault::TooLarge, Fault::UnsupportedMedia] {
        operation.fails(fault);
    }
}

impl<T: Gives> Gives for Result<T, Error> {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

impl<T: JsonSchema> Gives for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.gives::<T>(&[]);
    }
}

/// The errors are described by the extractors and the table.
impl Gives for Error {
    fn describe(_: &mut Operation) {}
}

/// The table's entry describes the response.
impl Gives for Response {
    fn describe(_: &mut Operation) {}
}

macro_rules! described {
    ($($argument:ident),+) => {
        impl<F, Fut, M, $($argument),+> Described<(M, $($argument,)+)> for F
        where
            F: FnOnce($($argument),+) -> Fut,
            Fut: Future<Output: Gives>,
            $($argument: Takes,)+
        {
            fn describe(operation: &mut Operation) {
                $($argument::describe(operation);)+
                Fut::Output::describe(operation);
            }
        }
    };
}

described!(A);
described!(A, B);
described!(A, B, C);
described!(A, B, C, D);
described!(A, B, C, D, E);

impl<F, Fut> Described<((),)> for F
where
    F: FnOnce() -> Fut,
    Fut: Future<Output: Gives>,
{
    fn describe(operation: &mut Operation) {
        Fut::Output::describe(operation);
    }
}
