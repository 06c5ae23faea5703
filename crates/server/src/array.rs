//! Streams a JSON array while its pages are read.
//!
//! The first page is read before the response begins, so an error there still gets a status. If a later page
//! cannot be read, the connection is cut: every client treats a truncated body as an error, while a properly
//! closed array would be a wrong list.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::{
    Pages,
    ports::{Cursor, Record},
};
use futures::stream;
use http::header;
use serde::Serialize;

use crate::Error;

/// Encoded elements of an array, separated by commas.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    bytes: Vec<u8>,
    any: bool,
}

impl Elements {
    /// Adds an element that is already encoded.
    pub(crate) fn record(&mut self, record: &Record) {
        self.separate();
        record.write(&mut self.bytes);
    }

    /// Encodes and adds an element.
    pub(crate) fn push(&mut self, value: &impl Serialize) -> Result<(), Error> {
        self.separate();
        serde_json::to_writer(&mut self.bytes, value).map_err(|error| Error::broken(&error))
    }

    fn separate(&mut self) {
        if std::mem::replace(&mut self.any, true) {
            self.bytes.push(b',');
        }
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Encodes one page as elements.
pub(crate) type Write = Box<dyn FnMut(&[Record], &mut Elements) -> Result<(), Error> + Send>;

/// A JSON array that is read page by page.
pub(crate) struct Array {
    pages: Pages,
    write: Write,
    elements: Elements,
    close: &'static str,
    /// Cursor of the first message.
    pub(crate) first: Option<Cursor>,
    /// Bytes encoded before the response begins.
    begun: Vec<u8>,
}

impl Array {
    /// Reads the first page. `open` and `close` are the text before and after the elements.
    pub(crate) async fn begin(
        pages: Pages,
        (open, close): (&'static str, &'static str),
        write: impl FnMut(&[Record], &mut Elements) -> Result<(), Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let elements = Elements { bytes: open.as_bytes().to_vec(), any: false };
        let (write, first, begun): (Write, _, _) = (Box::new(write), None, Vec::new());
        let mut array = Self { pages, write, elements, close, first, begun };
        let page = array.pages.next().await?;
        array.begun = array.encode(&page)?;
        array.first = page.into_iter().next().map(|record| record.place);
        Ok(array)
    }

    fn encode(&mut self, page: &[Record]) -> Result<Vec<u8>, Error> {
        (self.write)(page, &mut self.elements)?;
        let mut bytes = self.elements.take();
        if self.pages.is_done() {
            bytes.extend_from_slice(self.close.as_bytes());
        }
        Ok(bytes)
    }

    async fn read(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        if self.pages.is_done() {
            return Ok(None);
        }
        let page = self.pages.next().await.map_err(|error| Error::broken(&error))?;
        let bytes = self.encode(&page)?;
        Ok(Some((bytes.into(), self)))
    }
}

impl IntoResponse for Array {
    fn into_response(mut self) -> Response {
        let begun = Bytes::from(std::mem::take(&mut self.begun));
        let json = [(header::CONTENT_TYPE, "application/json")];
        if self.pages.is_done() {
            return (json, begun).into_response();
        }
        let first = stream::once(async { Ok(begun) });
        let rest = stream::try_unfold(self, Self::read);
        (json, Body::from_stream(futures::StreamExt::chain(first, rest))).into_response()
    }
}
