//! Text to token ids, exactly as a `tokenizer.json` says, encoding only what was not seen before.
//!
//! The encoding itself is that of Hugging Face's `tokenizers`. Around it, a text is cut where tokens provably cannot
//! cross, and the ids of each segment are kept:
//!
//! 1. At **added tokens** (`pieces`): the pipeline itself takes these out of the raw text before anything else happens,
//!    and treats what stands between them piece by piece.
//! 2. At **seams** inside long pieces (`seam`): places such as between a word and the space before the next one, used
//!    only where the pre-tokenizer's patterns, or else the vocabulary, prove that no token covers both sides and that
//!    neither side depends on the other (`pipeline`, `pattern`).
//!
//! 3. What is new is put together from **words** that were seen, between all the seams (`words`).
//!
//! Which seam ends a segment depends on the bytes around it alone, so a text that is cut from the front or edited in
//! its middle falls into the same segments again soon after.

mod cache;
pub mod chat;
mod definition;
mod encoder;
mod ends;
mod pattern;
mod pieces;
mod pipeline;
mod seam;
mod words;

pub use cache::CacheStats;
pub use encoder::{Encoder, EncoderError};
pub use seam::Seam;
pub use tokenizers::AddedToken;
