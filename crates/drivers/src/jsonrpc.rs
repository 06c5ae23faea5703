//! JSON-RPC with the program of an agent: the leaf `jsonrpc` over a [`RpcProcess`].

mod link;

pub use ::jsonrpc::{
    Asked, Dialect, Error, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, Id, Inbox, Incoming, Options, Peer,
};
pub use link::RpcProcess;
