//! Conversations that go on: the ids of what was seen are kept, up to a token that nothing further on can move.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::chat::body::PlainChat;
use crate::chat::skeleton::Skeleton;
use crate::encoder::{Encoder, EncoderError, Mark};

/// Why the ids of a chat were not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// There is no skeleton for its roles.
    Signature,
    /// The template does something else with one of its contents.
    Content,
    /// More of it is new than was allowed.
    Long,
}

/// The beginning of a conversation that was seen.
struct Beginning {
    /// Ids of its text up to `pending`.
    ids: Vec<u32>,
    /// The rest of its text, from the last token that stands fast.
    pending: String,
}

type Kept<Key, Value> = Cache<Key, Arc<Value>, Weight, RandomState>;

/// Conversations with one template and one tokenizer. Safe from any thread.
pub struct Conversations {
    skeletons: Kept<String, Skeleton>,
    beginnings: Kept<u128, Beginning>,
    /// Not to be guessed: whoever knew it could send conversations of one hash.
    seed: u64,
}

/// A first message from this many bytes on is kept by itself: many conversations begin with the same long one.
const LONG_OPENING: usize = 2_048;
/// Text that is gone through again, its segments being known, costs a sixteenth of text that is new.
const KNOWN_DISCOUNT: usize = 16;
const SKELETON_BYTES: u64 = 8 << 20;

impl Conversations {
    /// Keeps about `bytes` of beginnings.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self {
            skeletons: kept(SKELETON_BYTES, 1_024),
            beginnings: kept(bytes, 16 * 1_024),
            seed: RandomState::new().hash_one(0_u64),
        }
    }

    /// Whether there is a skeleton for conversations of these roles.
    #[must_use]
    pub fn knows(&self, signature: &str) -> bool {
        self.skeletons.peek(signature).is_some()
    }

    /// Take in what the template writes for conversations of these roles.
    pub fn learn(&self, signature: String, skeleton: Skeleton) {
        self.skeletons.insert(signature, Arc::new(skeleton));
    }

    /// The ids of the chat in `body`, unless it has about more than `most_new` bytes that were not seen before.
    ///
    /// # Errors
    /// `EncoderError` where the text cannot be encoded.
    pub fn encode(
        &self,
        encoder: &Encoder,
        chat: &PlainChat,
        body: &[u8],
        most_new: usize,
    ) -> Result<Result<Vec<u32>, Unknown>, EncoderError> {
        let Some(skeleton) = self.skeletons.get(chat.signature.as_str()) else {
            return Ok(Err(Unknown::Signature));
        };
        let asked = Asked {
            keys: self.keys(&skeleton, chat, body),
            skeleton: &skeleton,
            chat,
            body,
        };
        let known = self.known(&asked.keys);
        if asked.new_bytes(known.as_ref()) > most_new {
            return Ok(Err(Unknown::Long));
        }
        let Some(text) = asked.text(known.as_ref()) else {
            return Ok(Err(Unknown::Content));
        };
        let mut ids = known
            .as_ref()
            .map_or_else(Vec::new, |known| known.beginning.ids.clone());
        let marks = encoder.encode_marking(&text.whole, &text.shared, &mut ids)?;
        self.keep(&asked, known.as_ref(), &text, &marks, &ids);
        Ok(Ok(ids))
    }

    /// For each place of the conversation a number that stands for all of the text up to it.
    fn keys(&self, skeleton: &Skeleton, chat: &PlainChat, body: &[u8]) -> Keys {
        let mut state = 0_u128;
        let mut then = |number: u128| {
            let mut joined = [0; 32];
            joined[..16].copy_from_slice(&state.to_le_bytes());
            joined[16..].copy_from_slice(&number.to_le_bytes());
            state = xxh3_128_with_seed(&joined, self.seed);
            state
        };
        let both = |slot: usize| {
            let content = xxh3_128_with_seed(chat.written(body, skeleton.message(slot)), self.seed);
            [then(skeleton.print(slot)), then(content)]
        };
        (0..skeleton.contents()).map(both).collect()
    }

    fn known(&self, keys: &Keys) -> Option<Known> {
        let ends = (0..keys.len()).rev().map(Place::After);
        let places = ends.chain((keys.len() > 1).then_some(OPENING));
        places.into_iter().find_map(|place| {
            let beginning = self.beginnings.get(&key(keys, place))?;
            Some(Known { place, beginning })
        })
    }

    fn keep(&self, asked: &Asked<'_>, known: Option<&Known>, text: &Text, marks: &[Option<Mark>], ids: &[u32]) {
        for ((&place, &end), mark) in text.places.iter().zip(&text.shared).zip(marks) {
            let Some(mark) = mark else { continue };
            let beginning = Beginning {
                ids: ids[..mark.ids].to_vec(),
                pending: text.whole[mark.at..end].to_owned(),
            };
            self.beginnings.insert(key(&asked.keys, place), Arc::new(beginning));
            // Whoever goes on from the shorter one goes on from this one, too: a conversation is kept once.
            if let Some(known) = known.filter(|known| known.place != OPENING && known.place != place) {
                self.beginnings.remove(&key(&asked.keys, known.place));
            }
        }
    }
}

/// For each content a number for the text up to it, and one for the text to its end.
type Keys = Vec<[u128; 2]>;

/// Where in a conversation a beginning ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a content, what the template writes there included.
    Before(usize),
    After(usize),
}

/// After the first message: where many conversations part.
const OPENING: Place = Place::Before(1);

fn key(keys: &Keys, place: Place) -> u128 {
    match place {
        Place::Before(slot) => keys[slot][0],
        Place::After(slot) => keys[slot][1],
    }
}

/// A beginning that a conversation has.
struct Known {
    place: Place,
    beginning: Arc<Beginning>,
}

impl Known {
    /// The first content that is not in it, and whether what comes before that is.
    fn next(&self) -> (usize, bool) {
        match self.place {
            Place::Before(slot) => (slot, true),
            Place::After(slot) => (slot + 1, false),
        }
    }
}

/// The text from where a beginning's ids end, and where in it beginnings to be kept end.
struct Text {
    whole: String,
    places: Vec<Place>,
    shared: Vec<usize>,
}

impl Text {
    fn keep_here(&mut self, place: Place) {
        self.places.push(place);
        self.shared.push(self.whole.len());
    }
}

struct Asked<'a> {
    skeleton: &'a Skeleton,
    chat: &'a PlainChat,
    body: &'a [u8],
    keys: Keys,
}

impl Asked<'_> {
    fn written(&self, slot: usize) -> usize {
        self.chat.written(self.body, self.skeleton.message(slot)).len()
    }

    fn new_bytes(&self, known: Option<&Known>) -> usize {
        let next = known.map_or(0, |known| known.next().0);
        let new: usize = (next..self.keys.len()).map(|slot| self.written(slot)).sum();
        new + known.map_or(0, |known| known.beginning.pending.len() / KNOWN_DISCOUNT)
    }

    /// None where the skeleton does not hold.
    fn text(&self, known: Option<&Known>) -> Option<Text> {
        let (next, begun) = known.map_or((0, false), Known::next);
        let mut text = Text {
            whole: known.map_or_else(String::new, |known| known.beginning.pending.clone()),
            places: Vec::new(),
            shared: Vec::new(),
        };
        for slot in next..self.keys.len() {
            if slot > next || !begun {
                text.whole.push_str(self.skeleton.literal(slot));
                if Place::Before(slot) == OPENING && self.written(0) >= LONG_OPENING {
                    text.keep_here(OPENING);
                }
            }
            let content = self.chat.text(self.body, self.skeleton.message(slot))?;
            if !self.skeleton.write(slot, &content, &mut text.whole) {
                return None;
            }
        }
        if next < self.keys.len() {
            text.keep_here(Place::After(self.keys.len() - 1));
        }
        text.whole.push_str(self.skeleton.end());
        Some(text)
    }
}

#[derive(Clone)]
struct Weight;

/// What an entry takes beside its texts and ids.
const ENTRY_BYTES: usize = 160;

impl Weighter<u128, Arc<Beginning>> for Weight {
    fn weight(&self, _: &u128, kept: &Arc<Beginning>) -> u64 {
        (ENTRY_BYTES + kept.pending.len() + size_of::<u32>() * kept.ids.len()) as u64
    }
}

impl Weighter<String, Arc<Skeleton>> for Weight {
    fn weight(&self, signature: &String, skeleton: &Arc<Skeleton>) -> u64 {
        (ENTRY_BYTES + signature.len() + skeleton.size()) as u64
    }
}

fn kept<Key, Value>(bytes: u64, usual_bytes: u64) -> Kept<Key, Value>
where
    Key: Eq + std::hash::Hash + Clone,
    Weight: Weighter<Key, Arc<Value>>,
{
    let expected = usize::try_from(bytes / usual_bytes).unwrap_or(usize::MAX).max(1);
    Cache::with(expected, bytes, Weight, RandomState::new(), DefaultLifecycle::default())
}
