//! What besides tokens decides a block's content, one list per block hash: vLLM's `extra_keys` (0.17 on), TensorRT-LLM's
//! `mm_keys`.
//!
//! A list of vLLM's holds, in this order: the adapter's name, image keys, the cache salt (only at the start of a prompt)
//! and digests of prompt embeddings. Nothing tags them (`to_event_extra_keys` in `vllm/v1/core/kv_cache_utils.py`), so
//! they are told apart by type and place:
//!
//! - a pair `[identifier, offset]` is an image at that offset relative to the block (0.19 on), bytes are embeddings;
//! - a bare string is the adapter if it is the adapter's name, otherwise the salt in the first block of a prompt;
//! - 0.17 and 0.18 send images as bare strings too. In the first block the last such string is the salt, unless the
//!   second block repeats it, as an image that spans both would. Where the guess is wrong the blocks are filed under a
//!   salt that nobody asks for: a miss, never credit for somebody else's image.

use crate::canonical::{write_all, write_count};
use crate::msgpack::{Cursor, Value};
use crate::report::Reason;

/// The values of one block's list, each as the bytes it takes.
type Extras<'a> = Vec<&'a [u8]>;

/// What a store says of its blocks besides their tokens.
#[derive(Debug, Default)]
pub(crate) struct Stated<'a> {
    /// The whole value of `extra_keys`, if any.
    pub extra_keys: Option<&'a [u8]>,
    /// The whole value of `mm_keys`, if any.
    pub mm_keys: Option<&'a [u8]>,
    /// Number of blocks.
    pub blocks: usize,
    /// The store begins a prompt.
    pub at_prompt_start: bool,
}

/// A salt, and one key per block (none at all where no block has one).
type Split<'a> = (Option<&'a str>, Vec<Option<Vec<u8>>>);

impl<'a> Stated<'a> {
    /// Takes the adapter and the salt out; what remains of a block's list is its key.
    pub fn split(&self, adapter: Option<&str>) -> Result<Split<'a>, Reason> {
        let mut lists = match self.extra_keys {
            Some(value) => extra_lists(value, self.blocks)?,
            None => Vec::new(),
        };
        for list in &mut lists {
            take_adapter(list, adapter);
        }
        let salt = if self.at_prompt_start {
            take_salt(&mut lists)
        } else {
            None
        };
        if let Some(value) = self.mm_keys {
            add_images(&mut lists, value, self.blocks)?;
        }
        if lists.iter().all(Vec::is_empty) {
            return Ok((salt, Vec::new()));
        }
        let keys = lists.iter().map(|list| key_of(list)).collect::<Result<_, _>>()?;
        Ok((salt, keys))
    }
}

/// One list per block, none at all if they are all empty.
fn extra_lists(value: &[u8], blocks: usize) -> Result<Vec<Extras<'_>>, Reason> {
    const SHAPE: Reason = Reason("extra_keys are not one array or nil per block");
    let mut cursor = Cursor::new(value);
    match cursor.read()? {
        Value::Array(entries) if usize::try_from(entries) == Ok(blocks) => {}
        _ => return Err(SHAPE),
    }
    let mut lists = Vec::new();
    for block in 0..blocks {
        let list = read_list(&mut cursor)?.ok_or(SHAPE)?;
        if list.is_empty() {
            continue;
        }
        check_text(&list)?;
        lists.resize(blocks, Extras::new());
        lists[block] = list;
    }
    Ok(lists)
}

/// The members of an array; nil has none, anything else is no list.
fn read_list<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Extras<'a>>, Reason> {
    match cursor.read_list_head()? {
        Some(members) => {
            let list = (0..members).map(|_| cursor.skip_over());
            Ok(Some(list.collect::<Result<_, _>>()?))
        }
        None => Ok(None),
    }
}

/// Names that are no text could not be asked for.
fn check_text(list: &[&[u8]]) -> Result<(), Reason> {
    if list
        .iter()
        .filter_map(|value| text(value))
        .all(|text| str::from_utf8(text).is_ok())
    {
        return Ok(());
    }
    Err(Reason("extra_keys hold text that is not UTF-8"))
}

fn text(value: &[u8]) -> Option<&[u8]> {
    match Cursor::new(value).read() {
        Ok(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// The adapter comes first; a salt of the same name further on stays.
fn take_adapter(list: &mut Extras<'_>, adapter: Option<&str>) {
    let first = list.first().and_then(|value| text(value));
    if adapter.is_some() && first == adapter.map(str::as_bytes) {
        list.remove(0);
    }
}

fn take_salt<'a>(lists: &mut [Extras<'a>]) -> Option<&'a str> {
    let (first, others) = lists.split_first_mut()?;
    let place = first.iter().rposition(|value| text(value).is_some())?;
    let salt = text(first[place])?;
    let is_repeated = others
        .first()
        .is_some_and(|second| second.iter().any(|value| text(value) == Some(salt)));
    if is_repeated {
        return None;
    }
    first.remove(place);
    str::from_utf8(salt).ok()
}

/// Adds TensorRT-LLM's image keys: to each block its own where there is one list per block, to every block all of them
/// otherwise, so that no block passes for plain text.
fn add_images<'a>(lists: &mut Vec<Extras<'a>>, value: &'a [u8], blocks: usize) -> Result<(), Reason> {
    let mut cursor = Cursor::new(value);
    let members = match cursor.read()? {
        Value::Nil | Value::Array(0) | Value::Map(0) => return Ok(()),
        Value::Array(members) => Some(members),
        _ => None,
    };
    lists.resize(blocks, Extras::new());
    match image_lists(cursor, members, blocks)? {
        Some(images) => lists
            .iter_mut()
            .zip(images)
            .for_each(|(list, images)| list.extend(images)),
        None => lists.iter_mut().for_each(|list| list.push(value)),
    }
    Ok(())
}

fn image_lists(mut cursor: Cursor<'_>, members: Option<u32>, blocks: usize) -> Result<Option<Vec<Extras<'_>>>, Reason> {
    if members.and_then(|members| usize::try_from(members).ok()) != Some(blocks) {
        return Ok(None);
    }
    (0..blocks).map(|_| read_list(&mut cursor)).collect()
}

/// One stable key for the images and embeddings of a block: a canonical `MessagePack` array of them.
fn key_of(list: &[&[u8]]) -> Result<Option<Vec<u8>>, Reason> {
    if list.is_empty() {
        return Ok(None);
    }
    let mut key = Vec::new();
    write_count(
        u32::try_from(list.len()).unwrap_or(u32::MAX),
        0x90,
        [0xDC, 0xDD],
        &mut key,
    );
    for value in list {
        write_all(value, &mut key)?;
    }
    Ok(Some(key))
}
