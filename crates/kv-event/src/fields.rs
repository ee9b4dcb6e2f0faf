//! The fields of one event, as engines write them.
//!
//! vLLM, `SGLang` and TensorRT-LLM share one layout: the first six fields of a store agree in name, type and position in
//! every release, and what one adds the others leave out. So one reading serves all, and no family has to be configured
//! or guessed. An event is an array in older releases (vLLM up to 0.23, `SGLang` up to 0.5.19) and a map in newer ones.
//! Arrays may end early, keys may be absent; further members and unknown keys are passed over, for engines append fields.
//!
//! A field is taken as strictly as it is needed: a wrong block hash spoils the event, an odd `lora_id` must not.

use prefix_index::EngineHash;

use crate::event::{Lists, UNKNOWN};
use crate::memory::Group;
use crate::msgpack::{Cursor, Value};
use crate::report::Reason;
use crate::tier::is_remote;
use crate::values::{engine_hash, integer, read_hashes, read_tokens, text};

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
pub(crate) struct Fields<'a> {
    /// Where its lists start.
    pub start: (usize, usize),
    seen: u32,
    pub kind: Option<&'a [u8]>,
    pub event_type: Option<&'a [u8]>,
    pub hashes: Result<(), Reason>,
    pub seq_hashes: Option<&'a [u8]>,
    pub spoilt: Option<Reason>,
    pub parent: Option<EngineHash>,
    pub block_size: usize,
    pub lora_id: Value<'a>,
    pub medium: Value<'a>,
    pub lora_name: Option<&'a str>,
    pub extra_keys: Option<&'a [u8]>,
    pub group: Group,
    pub spec_kind: Option<&'a [u8]>,
    pub is_remote: bool,
    pub cache_salt: Option<&'a str>,
    pub mm_keys: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub fn new(lists: &Lists) -> Self {
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

    pub fn read_array(&mut self, members: u32, cursor: &mut Cursor<'a>, lists: &mut Lists) -> Result<(), Reason> {
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

    pub fn read_map(&mut self, pairs: u32, cursor: &mut Cursor<'a>, lists: &mut Lists) -> Result<(), Reason> {
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
