//! The HTTP relay: reads requests, asks its owner where to send them, carries the bytes.
//!
//! [`Relay`] runs an HTTP/1.1 and HTTP/2 server on threads of its own. Every request becomes an [`Arrival`] in a queue whose
//! file descriptor turns readable; the owner answers with [`Relay::forward`] or [`Relay::respond`]. Answers of
//! workers are carried chunk by chunk without the owner, while a side reader takes the token counts from them.
//! Every arrival ends in exactly one [`Outcome`].
//!
//! The life of a request through the modules: `server` (connection), `exchange` (head, body, decisions), `upstream`
//! and `pool` (one attempt at a worker), `answer` (the bytes on their way back), `settlement` (the outcome).

mod activity;
mod answer;
mod clock;
mod dialect;
mod event;
mod exchange;
mod header;
mod held_bytes;
mod listener;
mod mailbox;
mod options;
mod pool;
mod refusal;
mod relay;
mod request_body;
mod request_head;
mod retry_after;
mod server;
mod settlement;
mod shared;
mod side_reader;
mod sse;
mod target;
mod tls;
mod upstream;
mod usage;
mod watched;

pub use bytes;
pub use event::{Arrival, AttemptFailed, End, Event, Failure, FirstByte, Outcome};
pub use http;
pub use options::Options;
pub use relay::{Forwarding, InvalidAnswer, RawHeaders, Relay};
pub use sse::SseReader;
pub use tls::{ClientFiles, ServerFiles, TlsError};
pub use usage::{Usage, usage_of};
