//! One event, and what its fields mean.

use std::borrow::Cow;
use std::ops::Range;

use prefix_index::{EngineHash, Tier};

use crate::extra_keys::Stated;
use crate::fields::Fields;
use crate::memory::Group;
use crate::msgpack::{Cursor, Malformed, Value};
use crate::report::Reason;
use crate::tier::tier_of;
use crate::values::{integer, read_hashes};

pub(crate) const UNKNOWN: Reason = Reason("there is no such type of event");

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

impl Lists {
    pub fn len(&self) -> (usize, usize) {
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
