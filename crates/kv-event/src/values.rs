//! Values as what fields hold: hashes, token ids, text, numbers.

use prefix_index::EngineHash;

use crate::msgpack::{Cursor, Value};
use crate::report::Reason;

pub(crate) fn read_hashes(cursor: &mut Cursor<'_>, hashes: &mut Vec<EngineHash>) -> Result<(), Reason> {
    let Value::Array(members) = cursor.read()? else {
        return Err(Reason("block_hashes is not an array"));
    };
    hashes.reserve(room_for(members, *cursor));
    for _ in 0..members {
        hashes.push(engine_hash(cursor.read()?)?);
    }
    Ok(())
}

pub(crate) fn engine_hash(value: Value<'_>) -> Result<EngineHash, Reason> {
    match value {
        Value::Unsigned(hash) => Ok(hash.into()),
        Value::Negative(hash) => Ok(hash.into()),
        Value::Bytes(digest) => Ok(EngineHash::from_bytes(digest)),
        _ => Err(Reason("a block hash is neither an integer nor bytes")),
    }
}

/// Token ids; of EAGLE's bigrams `[[t0, t1], [t1, t2], ...]` the first of each, which is the token at that place.
pub(crate) fn read_tokens(cursor: &mut Cursor<'_>, tokens: &mut Vec<u32>) -> Result<(), Reason> {
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

pub(crate) fn text(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

pub(crate) fn integer(value: Value<'_>) -> Option<i128> {
    match value {
        Value::Unsigned(number) => Some(number.into()),
        Value::Negative(number) => Some(number.into()),
        _ => None,
    }
}
