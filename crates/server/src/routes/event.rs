//! The event stream of one directory.

use protocol::Event;

use crate::{
    openapi::{Class, Route},
    sse,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Record, "/event", "event.subscribe", sse::event)
            .summary("Follow the events of a directory")
            .streams::<Event>(),
    ]
}
