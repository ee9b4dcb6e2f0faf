//! Plain chats, from the bytes of a body to token ids without the template: only what is new is read, rendered, encoded.
//!
//! For a given sequence of roles a chat template writes the same text around the contents of the messages, as long as
//! these hold nothing that it looks for. That text is a [`Skeleton`], found by whoever can run templates. With it, a
//! conversation that goes on ([`Conversations`]) costs the hashing of what was seen and the encoding of what was not.

mod body;
mod conversations;
mod skeleton;

pub use body::{PlainChat, Role};
pub use conversations::{Conversations, Unknown};
pub use skeleton::{Guard, Piece, Skeleton, Strip};
