//! Ids and names in the path.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use protocol::{
    ApprovalId, MessageId, PartId, PermissionId, PtyId, QuestionId, SessionId, wire_error::BadRequestKind,
};
use schemars::Schema;

use crate::{Error, openapi::Schemas};

/// Longest name in a path, in bytes.
const MAX_NAME: usize = 256;

/// Values of the braces in a path, in order.
#[derive(Debug)]
pub struct Params<T>(pub T);

/// A type that is parsed from one or more values of a path.
pub trait FromPath: Sized {
    /// Consumes as many values as the type needs.
    fn take<'a>(values: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Result<Self, Error>;

    /// Schemas of the values, in order.
    fn schemas(schemas: &mut Schemas) -> Vec<Schema>;
}

macro_rules! ids {
    ($($id:ty),*) => {$(
        impl FromPath for $id {
            fn take<'a>(values: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
                let Some((name, value)) = values.next() else {
                    return Err(Error::broken(&"a route expects more path parameters than its path has"));
                };
                value.parse().map_err(|error| refuse(format!("{name}: {error}")))
            }

            fn schemas(schemas: &mut Schemas) -> Vec<Schema> {
                vec![schemas.taken::<$id>()]
            }
        }
    )*};
}

ids!(SessionId, MessageId, PartId, PermissionId, QuestionId, ApprovalId, PtyId);

/// A name of limited length.
impl FromPath for String {
    fn take<'a>(values: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let Some((name, value)) = values.next() else {
            return Err(Error::broken(&"a route expects more path parameters than its path has"));
        };
        if value.len() > MAX_NAME || value.chars().any(char::is_control) {
            let message = format!("{name}: a name has at most {MAX_NAME} bytes and no control characters");
            return Err(refuse(message));
        }
        Ok(value.to_owned())
    }

    fn schemas(schemas: &mut Schemas) -> Vec<Schema> {
        vec![schemas.taken::<Self>()]
    }
}

/// Longest value of a `*` at the end of a path, in bytes.
const MAX_TAIL: usize = 4096;

/// The value of a `*` at the end of a path, including slashes.
#[derive(Debug)]
pub struct Tail(pub String);

impl FromPath for Tail {
    fn take<'a>(values: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let Some((_, value)) = values.next() else {
            return Err(Error::broken(&"a route expects more path parameters than its path has"));
        };
        if value.len() > MAX_TAIL {
            return Err(refuse(format!("the path is longer than {MAX_TAIL} bytes")));
        }
        Ok(Self(value.to_owned()))
    }

    /// The document does not describe this value.
    fn schemas(_: &mut Schemas) -> Vec<Schema> {
        Vec::new()
    }
}

impl<A: FromPath, B: FromPath> FromPath for (A, B) {
    fn take<'a>(values: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        Ok((A::take(values)?, B::take(values)?))
    }

    fn schemas(schemas: &mut Schemas) -> Vec<Schema> {
        [A::schemas(schemas), B::schemas(schemas)].concat()
    }
}

impl<A: FromPath, B: FromPath, C: FromPath> FromPath for (A, B, C) {
    fn take<'a>(values: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        Ok((A::take(values)?, B::take(values)?, C::take(values)?))
    }

    fn schemas(schemas: &mut Schemas) -> Vec<Schema> {
        [A::schemas(schemas), B::schemas(schemas), C::schemas(schemas)].concat()
    }
}

impl<T: FromPath, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let raw = RawPathParams::from_request_parts(parts, state).await;
        let raw = raw.map_err(|rejection| refuse(rejection.body_text()))?;
        T::take(&mut raw.iter()).map(Self)
    }
}

fn refuse(message: impl AsRef<str>) -> Error {
    Error::bad_request(BadRequestKind::Params, message)
}
