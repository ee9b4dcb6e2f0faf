//! One tokenizer with its segment cache.

use std::fmt;

use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{AddedToken, Tokenizer};

use crate::cache::{CacheStats, Place, SegmentCache};
use crate::definition::{Steps, after_a_seam, after_a_token, outline};
use crate::ends::Ends;
use crate::pieces::{Piece, Pieces};
use crate::pipeline::proven_seams;
use crate::seam::{Seam, segment_end, words};
use crate::words::Words;

/// A tokenizer that cannot be read, or a text or ids that it cannot take; the text says why.
#[derive(Debug)]
pub struct EncoderError(pub String);

impl fmt::Display for EncoderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for EncoderError {}

/// A token of a text at which the text may be gone on with: the ids before it, and the byte at which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub ids: usize,
    pub at: usize,
}

/// The part of the room for segments that words get.
const SHARE_OF_WORDS: u64 = 16;

type Result<T> = std::result::Result<T, EncoderError>;

/// Encodes and decodes as a `tokenizer.json` says. Safe from any thread.
pub struct Encoder {
    whole: Tokenizer,
    after_token: Option<Tokenizer>,
    after_seam: Option<Tokenizer>,
    pieces: Option<Pieces>,
    seams: Vec<Seam>,
    ends: Option<Ends>,
    cache: SegmentCache,
    words: Words,
}

impl Encoder {
    /// From the bytes of a `tokenizer.json`, whose truncation and padding do not count; keeps `cache_bytes` of segments.
    ///
    /// `declared` are tokens that stand elsewhere: those that the file does not have get the next ids, and of others the
    /// flags are taken over. Then come those of `named` that are still not added.
    ///
    /// # Errors
    /// `EncoderError` where the bytes are no such file.
    pub fn new(
        definition: &[u8],
        declared: Vec<AddedToken>,
        mut named: Vec<AddedToken>,
        cache_bytes: u64,
    ) -> Result<Self> {
        let mut whole = tokenizer(definition)?;
        whole.add_tokens(declared).map_err(unreadable)?;
        let known = whole.get_added_tokens_decoder();
        named.retain(|token| known.values().all(|other| other.content != token.content));
        whole.add_tokens(named).map_err(unreadable)?;
        let mut definition = outline(definition).map_err(unreadable)?;
        let added = whole.get_added_tokens_decoder();
        definition["added_tokens"] = serde_json::to_value(added.values().collect::<Vec<_>>()).map_err(unreadable)?;
        let pieces = Pieces::new(added.iter().map(|(&id, token)| (id, token)));
        let seams = if pieces.is_some() {
            proven_seams(&definition)
        } else {
            Vec::new()
        };
        let after_seam = if seams.is_empty() {
            None
        } else {
            after_a_seam(&definition)
        };
        Ok(Self {
            after_token: variant(&whole, after_a_token(&definition))?,
            after_seam: variant(&whole, after_seam)?,
            ends: Ends::of(&whole),
            cache: SegmentCache::new(cache_bytes - cache_bytes / SHARE_OF_WORDS),
            words: Words::new(cache_bytes / SHARE_OF_WORDS),
            whole,
            pieces,
            seams,
        })
    }

    /// The ids of `text`; `special` adds those that the post-processor puts around it.
    ///
    /// # Errors
    /// `EncoderError` where the model cannot encode it.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let ends = match (special, &self.ends) {
            (false, _) => None,
            (true, Some(ends)) => Some(ends),
            (true, None) => return self.encode_whole(text, true),
        };
        let mut ids = Vec::with_capacity(text.len() / 3 + 8);
        ids.extend(ends.iter().flat_map(|ends| &ends.before));
        self.encode_pieces(text, text.len(), &mut ids)?;
        ids.extend(ends.iter().flat_map(|ends| &ends.after));
        Ok(ids)
    }

    /// The leading ids of every text that begins with `text`: those before its last cut that nothing further on can move.
    ///
    /// # Errors
    /// As `encode`.
    pub fn encode_prefix(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let (Some(pieces), true) = (&self.pieces, !special || self.ends.is_some()) else {
            return Ok(Vec::new());
        };
        let mut ids = Vec::with_capacity(text.len() / 3 + 8);
        if special {
            ids.extend(self.ends.iter().flat_map(|ends| &ends.before));
        }
        // A token that begins before this is seen whole.
        let settled = text.len().saturating_sub(pieces.longest + 1);
        self.encode_pieces(text, settled, &mut ids)?;
        Ok(ids)
    }

    /// Append the ids of `text`, which begins where a text does or with an added token, and tell of each of `shared`,
    /// which rise, up to which of these tokens all texts have the same ids that have the same bytes up to there.
    ///
    /// # Errors
    /// As `encode`.
    pub fn encode_marking(&self, text: &str, shared: &[usize], ids: &mut Vec<u32>) -> Result<Vec<Option<Mark>>> {
        let mut marks = vec![None; shared.len()];
        let Some(pieces) = &self.pieces else {
            ids.extend(self.encode_whole(text, false)?);
            return Ok(marks);
        };
        for piece in pieces.of(text) {
            match &piece {
                Piece::Token(id, range) => {
                    let mark = Mark {
                        ids: ids.len(),
                        at: range.start,
                    };
                    // A longer token may begin at the same place, but not end later than this.
                    let settled = shared.partition_point(|&end| end < range.start + pieces.longest.max(range.len()));
                    marks[settled..].fill(Some(mark));
                    ids.push(*id);
                }
                Piece::Text(range) => self.encode_segments(text, range.start, range.end, text.len(), ids)?,
            }
        }
        Ok(marks)
    }

    /// The ids of `text` without any cut and without the cache: what `encode` must give.
    ///
    /// # Errors
    /// As `encode`.
    pub fn encode_whole(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        ids_of(&self.whole, text, special)
    }

    /// The text of `ids`; bytes that are no character become U+FFFD.
    ///
    /// # Errors
    /// `EncoderError` where the decoder cannot take them.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        self.whole.decode(ids, skip_special).map_err(unreadable)
    }

    /// Tokens in the vocabulary, added ones included.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.whole.get_vocab_size(true)
    }

    /// The added tokens with their ids, in no order.
    #[must_use]
    pub fn added_tokens(&self) -> Vec<(u32, String)> {
        let added = self.whole.get_added_tokens_decoder();
        added.into_iter().map(|(id, token)| (id, token.content)).collect()
    }

    /// The kinds of seam at which long texts are cut.
    #[must_use]
    pub fn seams(&self) -> &[Seam] {
        &self.seams
    }

    /// What the segment cache holds and did.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        let mut stats = self.cache.stats();
        stats.bytes += self.words.bytes();
        stats
    }

    /// Up to the last cut at `limit` or before; all of the text where that is its length.
    fn encode_pieces(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Result<()> {
        let Some(pieces) = &self.pieces else {
            ids.extend(self.encode_whole(text, false)?);
            return Ok(());
        };
        for piece in pieces.of(text) {
            match &piece {
                Piece::Token(id, range) if range.end <= limit => ids.push(*id),
                Piece::Text(range) => self.encode_segments(text, range.start, range.end, limit, ids)?,
                Piece::Token(..) => {}
            }
            if piece.end() > limit {
                break;
            }
        }
        Ok(())
    }

    fn encode_segments(&self, text: &str, start: usize, end: usize, limit: usize, ids: &mut Vec<u32>) -> Result<()> {
        let piece = &text[start..end];
        let mut place = if start == 0 { Place::Start } else { Place::AfterToken };
        let mut from = 0;
        while from < piece.len() {
            let to = segment_end(piece, from, &self.seams);
            if start + to > limit {
                return Ok(());
            }
            let segment = &piece[from..to];
            self.cache
                .get(place, segment, || self.encode_words(place, segment), ids)?;
            (from, place) = (to, Place::AfterSeam);
        }
        Ok(())
    }

    fn encode_words(&self, place: Place, segment: &str) -> Result<Vec<u32>> {
        let encode = |place, text: &str| ids_of(self.tokenizer_for(place), text, false);
        let words: Vec<&str> = words(segment, &self.seams).collect();
        if words.len() < 2 {
            return encode(place, segment);
        }
        self.words.encode(place, &words, segment, encode)
    }

    fn tokenizer_for(&self, place: Place) -> &Tokenizer {
        let own = match place {
            Place::Start => None,
            Place::AfterToken => self.after_token.as_ref(),
            Place::AfterSeam => self.after_seam.as_ref(),
        };
        own.unwrap_or(&self.whole)
    }
}

fn tokenizer(definition: &[u8]) -> Result<Tokenizer> {
    let mut tokenizer = Tokenizer::from_bytes(definition).map_err(unreadable)?;
    // Engines switch both off; a repository of an embedding model often has them on.
    tokenizer.with_padding(None).with_truncation(None).map_err(unreadable)?;
    Ok(tokenizer)
}

fn variant(whole: &Tokenizer, steps: Option<Steps>) -> Result<Option<Tokenizer>> {
    let Some(steps) = steps else {
        return Ok(None);
    };
    let mut tokenizer = whole.clone();
    let normalizer: Option<NormalizerWrapper> = serde_json::from_value(steps.normalizer).map_err(unreadable)?;
    let pre_tokenizer: Option<PreTokenizerWrapper> = serde_json::from_value(steps.pre_tokenizer).map_err(unreadable)?;
    tokenizer.with_normalizer(normalizer).map_err(unreadable)?;
    tokenizer.with_pre_tokenizer(pre_tokenizer);
    Ok(Some(tokenizer))
}

fn unreadable(error: impl fmt::Display) -> EncoderError {
    EncoderError(error.to_string())
}

fn ids_of(tokenizer: &Tokenizer, text: &str, special: bool) -> Result<Vec<u32>> {
    tokenizer
        .encode_fast(text, special)
        .map(|encoding| encoding.get_ids().to_vec())
        .map_err(unreadable)
}
