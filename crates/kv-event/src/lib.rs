//! KV events: the bytes that an engine publishes -> operations on the prefix index, in one reading and without a value
//! per token.
//!
//! A payload is checked to be one whole batch first, so bytes that are cut off or followed by others change nothing;
//! from then on an event that cannot be read is left out and the rest of its batch applied. Nothing here recurses, and
//! no length is believed before the bytes that it claims have been seen.
//!
//! | module | is about |
//! | --- | --- |
//! | `msgpack` | one value after another |
//! | `canonical` | values that mean the same as equal bytes |
//! | `fields` | the fields of one event, as arrays or maps, of every engine |
//! | `values` | hashes, token ids, text and numbers in them |
//! | `event` | what the fields of one event mean |
//! | `extra_keys` | adapter, salt, images and embeddings of each block |
//! | `tier` | where a block lies, from the names of media |
//! | `memory` | what earlier events of an engine process tell about later ones |
//! | `ingest` | what events mean for the index |
//! | `zmtp` | the stream in which publishers send: `ZeroMQ`'s, from the subscriber's side |
//!
//! What is written here in terms of bytes is written once more in terms of Python values, in `tests/kv_event/twin`; the
//! tests hold the two together.

mod canonical;
mod event;
mod extra_keys;
mod fields;
mod ingest;
mod memory;
mod msgpack;
#[cfg(test)]
mod properties;
mod report;
mod tier;
mod values;
mod zmtp;

pub use ingest::{BlockSink, Ingest};
pub use report::{REJECTIONS_KEPT, Report, Undecodable};
pub use zmtp::{Message, NotZmtp, Subscriber};
