//! Two nodes with one record and real sockets: a client of one node uses the sessions and directories of the other.

mod failures;
mod node;
mod passing;
mod record;
