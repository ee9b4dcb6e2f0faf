//! One event: the fields that engines give it, and what they mean.
//!
//! vLLM, `SGLang` and TensorRT-LLM share one layout: the first six fields of a store agree in name, type and position in
//! every release, and what one adds the others leave out. So one reading serves all, and no family has to be configured
//! or guessed. An event is an array in older releases (vLLM up to 0.23, `SGLang` up to 0.5.19) and a map in newer ones.
//! Arrays may end early, keys may be absent; further members and unknown keys are passed over, for engines append fields.
//!
//! A field is taken as strictly as it is needed: a wrong block hash spoils the event, an odd `lora_id` must not.

use std::borrow::Cow;
use std::ops::Range;

use prefix_index::{EngineHash, Tier};

use crate::extra_keys::Stated;
use crate::memory::Group;
use crate::msgpack::{Cursor, Malformed, Value};
use crate::report::Reason;
use crate::tier::{is_remote, tier_of};

/// The hashes and tokens of all events of a batch, one after the other, in memory that the next batch uses again.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub hashes: Vec<EngineHash>,
    pub tokens: Vec<u32>,
}

/// An event; ranges are of [`Lists`].
#[derive(Debug)]
pub(crate) enum Event<'a> {
    Stored(Stored<'a>),
    Removed(Removed),
    Cleared,
}

#[derive(Debug)]
pub(crate) struct Removed {
    pub hashes: Range<usize>,
    pub tier: Tier,
    pub group: Group,
}

#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub hashes: Range<usize>,
    pub tokens: Range<usize>,
    pub parent: Option<EngineHash>,
    /// 0 where it is not told or makes no sense.
    pub block_size: usize,
    pub tier: Tier,
    pub adapter: Option<Cow<'a, str>>,
    /// The number of a named adapter's loading.
    pub adapter_load: Option<i128>,
    pub salt: Option<&'a str>,
    /// One per block, or none at all.
    pub keys: Vec<Option<Vec<u8>>>,
    pub group: Group,
    pub kind: Option<&'a [u8]>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Type,
    EventType,
    BlockHashes,
    SeqHashes,
    Parent,
    TokenIds,
    BlockSize,
    LoraId,
    Medium,
    LoraName,
    ExtraKeys,
    Group,
    Kind,
    Locality,
    CacheSalt,
    MmKeys,
}

/// What follows the tag of a store that is an array, position by position as vLLM (0.33) declares it; `SGLang` ends after
/// `medium`, but 0.5.18 and 0.5.19 put a map (`{"cache_salt": ...}`) where vLLM has `lora_name`.
const STORED: [Option<Field>; 12] = [
    Some(Field::BlockHashes),
    Some(Field::Parent),
    Some(Field::TokenIds),
    Some(Field::BlockSize),
    Some(Field::LoraId),
    Some(Field::Medium),
    Some(Field::LoraName),
    Some(Field::ExtraKeys),
    Some(Field::Group),
    Some(Field::Kind),
    None, // the width of a sliding window
    Some(Field::Locality),
];

const REMOVED: [Option<Field>; 4] = [
    Some(Field::BlockHashes),
    Some(Field::Medium),
    Some(Field::Group),
    Some(Field::Locality),
];

const UNKNOWN: Reason = Reason("there is no such type of event");

impl Field {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"type" => Self::Type,
            b"event_type" => Self::EventType,
            b"block_hashes" => Self::BlockHashes,
            b"seq_hashes" => Self::SeqHashes,
            b"parent_block_hash" => Self::Parent,
            b"token_ids" => Self::TokenIds,
            b"block_size" => Self::BlockSize,
            b"lora_id" => Self::LoraId,
            b"medium" => Self::Medium,
            b"lora_name" => Self::LoraName,
            b"extra_keys" => Self::ExtraKeys,
            b"group_idx" => Self::Group,
            b"kv_cache_spec_kind" => Self::Kind,
            b"locality" => Self::Locality,
            b"cache_salt" => Self::CacheSalt,
            b"mm_keys" => Self::MmKeys,
            _ => return None,
        })
    }
}

/// The fields of one event while they are read, in whatever order. What spoils a store must not spoil a remove that
/// happens to carry it, so it is only noted.
struct Fields<'a> {
    /// Where its lists start.
    start: (usize, usize),
    seen: u32,
    kind: Option<&'a [u8]>,
    event_type: Option<&'a [u8]>,
    hashes: Result<(), Reason>,
    seq_hashes: Option<&'a [u8]>,
    spoilt: Option<Reason>,
    parent: Option<EngineHash>,
    block_size: usize,
    lora_id: Value<'a>,
    medium: Value<'a>,
    lora_name: Option<&'a str>,
    extra_keys: Option<&'a [u8]>,
    group: Group,
    spec_kind: Option<&'a [u8]>,
    is_remote: bool,
    cache_salt: Option<&'a str>,
    mm_keys: Option<&'a [u8]>,
}

impl Lists {
    fn len(&self) -> (usize, usize) {
        (self.hashes.len(), self.tokens.len())
    }

    fn truncate(&mut self, (hashes, tokens): (usize, usize)) {
        self.hashes.truncate(hashes);
        self.tokens.truncate(tokens);
    }

    pub fn clear(&mut self) {
        /// One huge batch must not hold its memory for good.
        const USUAL: usize = 1 << 16;
        if self.tokens.capacity() > USUAL || self.hashes.capacity() > USUAL {
            *self = Self::default();
        }
        self.truncate((0, 0));
    }
}

impl<'a> Event<'a> {
    /// Reads one event, and adds its hashes and tokens to the lists.
    ///
    /// One that says nothing sensible is passed over, and the reason is given inside. Malformed bytes are an error.
    pub fn read(cursor: &mut Cursor<'a>, lists: &mut Lists) -> Result<Result<Self, Reason>, Malformed> {
        let (start, before) = (*cursor, lists.len());
        let event = Self::read_sound(cursor, lists);
        if event.is_err() {
            lists.truncate(before);
            *cursor = start;
            cursor.skip()?;
        }
        Ok(event)
    }

    /// Reads one event; where it fails, cursor and lists are left somewhere within.
    fn read_sound(cursor: &mut Cursor<'a>, lists: &mut Lists) -> Result<Self, Reason> {
        let mut fields = Fields::new(lists);
        match cursor.read()? {
            Value::Array(members) => fields.read_array(members, cursor, lists)?,
            Value::Map(pairs) => fields.read_map(pairs, cursor, lists)?,
            _ => return Err(Reason("an event is neither an array nor a map")),
        }
        fields.mean(lists)
    }
}

impl<'a> Fields<'a> {
    fn new(lists: &Lists) -> Self {
        Self {
            start: lists.len(),
            seen: 0,
            kind: None,
            event_type: None,
            hashes: Err(Reason("there are no block_hashes")),
            seq_hashes: None,
            spoilt: None,
            parent: None,
            block_size: 0,
            lora_id: Value::Nil,
            medium: Value::Nil,
            lora_name: None,
            extra_keys: None,
            group: None,
            spec_kind: None,
            is_remote: false,
            cache_salt: None,
            mm_keys: None,
        }
    }

    fn read_array(&mut self, members: u32, cursor: &mut Cursor<'a>, lists: &mut Lists) -> Result<(), Reason> {
        let tag = if members > 0 { cursor.read_whole()? } else { Value::Nil };
        let places: &[Option<Field>] = match tag {
            Value::Text(b"BlockStored") => &STORED,
            Value::Text(b"BlockRemoved") => &REMOVED,
            Value::Text(b"AllBlocksCleared") => &[],
            _ => return Err(UNKNOWN),
        };
        self.kind = text(tag);
        for place in 1..members {
            let field = usize::try_from(place - 1).ok().and_then(|place| places.get(place));
            match field {
                Some(Some(Field::LoraName)) => self.read_name_or_metadata(cursor)?,
                Some(Some(field)) => self.read_field(*field, cursor, lists)?,
                _ => cursor.skip()?,
            }
        }
        Ok(())
    }

    fn read_map(&mut self, pairs: u32, cursor: &mut Cursor<'a>, lists: &mut Lists) -> Result<(), Reason> {
        for _ in 0..pairs {
            match text(cursor.read_whole()?).and_then(Field::named) {
                Some(field) => self.read_field(field, cursor, lists)?,
                None => cursor.skip()?,
            }
        }
        Ok(())
    }

    fn read_field(&mut self, field: Field, cursor: &mut Cursor<'a>, lists: &mut Lists) -> Result<(), Reason> {
        let bit = 1 << field as u32;
        if self.seen & bit != 0 {
            return Err(Reason("a field occurs twice"));
        }
        self.seen |= bit;
        match field {
            Field::BlockHashes => self.hashes = or_skip(cursor, |cursor| read_hashes(cursor, &mut lists.hashes))?,
            Field::TokenIds => {
                let read = or_skip(cursor, |cursor| read_tokens(cursor, &mut lists.tokens))?;
                self.note(read);
            }
            Field::SeqHashes => self.seq_hashes = Some(cursor.skip_over()?),
            Field::ExtraKeys => self.extra_keys = Some(cursor.skip_over()?).filter(|value| *value != [0xC0]),
            Field::MmKeys => self.mm_keys = Some(cursor.skip_over()?),
            _ => self.take(field, cursor.read_whole()?),
        }
        Ok(())
    }

    /// Takes a field that is one value.
    fn take(&mut self, field: Field, value: Value<'a>) {
        match field {
            Field::Type => self.kind = text(value),
            Field::EventType => self.event_type = text(value),
            Field::Parent => match value {
                Value::Nil => {}
                value => self.parent = self.noted(engine_hash(value)),
            },
            Field::BlockSize => match value {
                Value::Unsigned(size) => self.block_size = usize::try_from(size).unwrap_or(0),
                Value::Nil | Value::Negative(_) => {}
                _ => self.spoilt = Some(Reason("block_size is not an integer")),
            },
            Field::LoraId => self.lora_id = value,
            Field::Medium => self.medium = value,
            Field::LoraName => self.lora_name = self.name(value),
            Field::Group => self.group = integer(value),
            Field::Kind => self.spec_kind = text(value),
            Field::Locality => self.is_remote = is_remote(value),
            Field::CacheSalt => self.cache_salt = self.name(value),
            _ => {}
        }
    }

    /// What stands in an array where vLLM has the adapter's name: that, or a map of `SGLang`'s.
    fn read_name_or_metadata(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Reason> {
        let mut inside = *cursor;
        let value = cursor.read_whole()?;
        self.lora_name = self.name(value);
        if let Value::Map(pairs) = value {
            inside.read()?;
            for _ in 0..pairs {
                let key = inside.read_whole()?;
                let value = inside.read_whole()?;
                if key == Value::Text(b"cache_salt") {
                    self.cache_salt = self.name(value);
                }
            }
        }
        Ok(())
    }

    /// A name, where the value is one: text that is not empty.
    fn name(&mut self, value: Value<'a>) -> Option<&'a str> {
        let bytes = text(value).filter(|text| !text.is_empty())?;
        self.noted(str::from_utf8(bytes).map_err(|_| Reason("a name is not UTF-8")))
    }

    fn noted<T>(&mut self, read: Result<T, Reason>) -> Option<T> {
        self.note(read.as_ref().map(|_| ()).map_err(|reason| *reason));
        read.ok()
    }

    fn note(&mut self, read: Result<(), Reason>) {
        self.spoilt = self.spoilt.or(read.err());
    }

    fn mean(self, lists: &mut Lists) -> Result<Event<'a>, Reason> {
        if let Some(kind) = self.event_type {
            return self.mean_presence(kind, lists);
        }
        match self.kind {
            Some(b"BlockStored") => Ok(Event::Stored(self.stored(lists)?)),
            Some(b"BlockRemoved") => {
                self.hashes?;
                Ok(Event::Removed(self.removed(lists)))
            }
            Some(b"AllBlocksCleared") => Ok(Event::Cleared),
            _ => Err(UNKNOWN),
        }
    }

    /// An event of Mooncake's master: which blocks lie in its store, without their tokens. Beside its own names it
    /// carries the older ones.
    fn mean_presence(mut self, kind: &[u8], lists: &mut Lists) -> Result<Event<'a>, Reason> {
        if kind == b"cleared" {
            return Ok(Event::Cleared);
        }
        if let Err(reason) = self.hashes {
            let mut listed = Cursor::new(self.seq_hashes.ok_or(reason)?);
            lists.truncate(self.start);
            read_hashes(&mut listed, &mut lists.hashes)?;
        }
        self.group = None;
        let Removed { hashes, tier, .. } = self.removed(lists);
        match kind {
            b"removed" => Ok(Event::Removed(self.removed(lists))),
            b"stored" => Ok(Event::Stored(Stored {
                hashes,
                tokens: 0..0,
                parent: None,
                block_size: 0,
                tier,
                adapter: None,
                adapter_load: None,
                salt: None,
                keys: Vec::new(),
                group: None,
                kind: None,
            })),
            _ => Err(UNKNOWN),
        }
    }

    fn removed(&self, lists: &Lists) -> Removed {
        Removed {
            hashes: self.start.0..lists.hashes.len(),
            tier: self.tier(),
            group: self.group,
        }
    }

    fn stored(self, lists: &Lists) -> Result<Stored<'a>, Reason> {
        self.hashes?;
        if let Some(reason) = self.spoilt {
            return Err(reason);
        }
        let adapter = self.adapter();
        let hashes = self.start.0..lists.hashes.len();
        let stated = Stated {
            extra_keys: self.extra_keys,
            mm_keys: self.mm_keys,
            blocks: hashes.len(),
            at_prompt_start: self.parent.is_none(),
        };
        let (salt, keys) = stated.split(adapter.as_deref())?;
        Ok(Stored {
            hashes,
            tokens: self.start.1..lists.tokens.len(),
            parent: self.parent,
            block_size: self.block_size,
            tier: self.tier(),
            adapter_load: self.lora_name.and_then(|_| integer(self.lora_id)),
            adapter,
            salt: self.cache_salt.or(salt),
            keys,
            group: self.group,
            kind: self.spec_kind,
        })
    }

    fn tier(&self) -> Tier {
        if self.is_remote {
            Tier::Remote
        } else {
            tier_of(self.medium)
        }
    }

    /// The adapter's name. Releases that send only its number get a name that no request carries: the blocks must not be
    /// credited to the base model, and the number (an order of registration) cannot be credited to anybody.
    fn adapter(&self) -> Option<Cow<'a, str>> {
        if let Some(name) = self.lora_name {
            return Some(name.into());
        }
        let id = match self.lora_id {
            Value::Nil | Value::Bool(false) | Value::Unsigned(0) | Value::Text(b"") => return None,
            Value::Unsigned(id) => id.to_string(),
            Value::Negative(id) => id.to_string(),
            Value::Text(id) => str::from_utf8(id).unwrap_or("?").to_owned(),
            _ => "?".to_owned(),
        };
        Some(format!("lora-id:{id}").into())
    }
}

/// Reads a value, or passes over it where it cannot be read; the reason then.
fn or_skip<'a>(
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<(), Reason>,
) -> Result<Result<(), Reason>, Reason> {
    let start = *cursor;
    let outcome = read(cursor);
    if outcome.is_err() {
        *cursor = start;
        cursor.skip()?;
    }
    Ok(outcome)
}

fn read_hashes(cursor: &mut Cursor<'_>, hashes: &mut Vec<EngineHash>) -> Result<(), Reason> {
    let Value::Array(members) = cursor.read()? else {
        return Err(Reason("block_hashes is not an array"));
    };
    hashes.reserve(room_for(members, *cursor));
    for _ in 0..members {
        hashes.push(engine_hash(cursor.read()?)?);
    }
    Ok(())
}

fn engine_hash(value: Value<'_>) -> Result<EngineHash, Reason> {
    match value {
        Value::Unsigned(hash) => Ok(hash.into()),
        Value::Negative(hash) => Ok(hash.into()),
        Value::Bytes(digest) => Ok(EngineHash::from_bytes(digest)),
        _ => Err(Reason("a block hash is neither an integer nor bytes")),
    }
}

/// Token ids; of EAGLE's bigrams `[[t0, t1], [t1, t2], ...]` the first of each, which is the token at that place.
fn read_tokens(cursor: &mut Cursor<'_>, tokens: &mut Vec<u32>) -> Result<(), Reason> {
    let members = match cursor.read()? {
        Value::Nil => return Ok(()),
        Value::Array(members) => members,
        _ => return Err(Reason("token_ids is not an array")),
    };
    tokens.reserve(room_for(members, *cursor));
    let mut ahead = *cursor;
    let are_bigrams = members > 0 && matches!(ahead.read()?, Value::Array(_));
    let mut left = members;
    while left > 0 {
        if are_bigrams {
            tokens.push(read_bigram(cursor)?);
        } else {
            left -= cursor.read_small(left - 1, tokens);
            tokens.push(token_id(cursor.read()?)?);
        }
        left -= 1;
    }
    Ok(())
}

fn read_bigram(cursor: &mut Cursor<'_>) -> Result<u32, Reason> {
    if cursor.read()? != Value::Array(2) {
        return Err(Reason("token_ids are not all pairs"));
    }
    let first = token_id(cursor.read()?)?;
    token_id(cursor.read()?)?;
    Ok(first)
}

fn token_id(value: Value<'_>) -> Result<u32, Reason> {
    match value {
        Value::Unsigned(id) => u32::try_from(id).map_err(|_| Reason("a token id is not below 2**32")),
        Value::Negative(_) => Err(Reason("a token id is negative")),
        _ => Err(Reason("a token id is not an integer")),
    }
}

/// Members that can really be there.
fn room_for(members: u32, cursor: Cursor<'_>) -> usize {
    usize::try_from(members).map_or(0, |members| members.min(cursor.remaining()))
}

fn text(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn integer(value: Value<'_>) -> Option<i128> {
    match value {
        Value::Unsigned(number) => Some(number.into()),
        Value::Negative(number) => Some(number.into()),
        _ => None,
    }
}
