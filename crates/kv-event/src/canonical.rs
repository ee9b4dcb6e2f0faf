//! Values that mean the same, as the same bytes: each number, text and container in its shortest form.
//!
//! Publishers may differ in their encoders; what they say of an image must not.

use crate::msgpack::{Cursor, Malformed, Value};

/// Appends the canonical form of the values in `bytes`.
pub(crate) fn write_all(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_at_end() {
        write(cursor.read()?, out);
    }
    Ok(())
}

/// Appends one value, or the head of a container.
pub(crate) fn write(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Nil => out.push(0xC0),
        Value::Bool(value) => out.push(0xC2 + u8::from(value)),
        Value::Unsigned(value) => write_unsigned(value, out),
        Value::Negative(value) => write_negative(value, out),
        Value::Float(value) => {
            out.push(0xCB);
            // All that are no number are one.
            let bits = if value.is_nan() { f64::NAN } else { value };
            out.extend(bits.to_be_bytes());
        }
        Value::Text(text) => {
            write_length(text.len(), Some((0xA0, 31)), [0xD9, 0xDA, 0xDB], out);
            out.extend(text);
        }
        Value::Bytes(bytes) => {
            write_length(bytes.len(), None, [0xC4, 0xC5, 0xC6], out);
            out.extend(bytes);
        }
        Value::Array(members) => write_count(members, 0x90, [0xDC, 0xDD], out),
        Value::Map(pairs) => write_count(pairs, 0x80, [0xDE, 0xDF], out),
        Value::Extension(code, data) => {
            match data.len() {
                1 | 2 | 4 | 8 | 16 => out.push(0xD4 + u8::try_from(data.len().trailing_zeros()).unwrap_or(0)),
                _ => write_length(data.len(), None, [0xC7, 0xC8, 0xC9], out),
            }
            out.push(code);
            out.extend(data);
        }
    }
}

fn write_unsigned(value: u64, out: &mut Vec<u8>) {
    if let Ok(byte) = u8::try_from(value) {
        if byte > 0x7F {
            out.push(0xCC);
        }
        out.push(byte);
    } else if let Ok(short) = u16::try_from(value) {
        out.push(0xCD);
        out.extend(short.to_be_bytes());
    } else if let Ok(word) = u32::try_from(value) {
        out.push(0xCE);
        out.extend(word.to_be_bytes());
    } else {
        out.push(0xCF);
        out.extend(value.to_be_bytes());
    }
}

fn write_negative(value: i64, out: &mut Vec<u8>) {
    if let Ok(byte) = i8::try_from(value) {
        if byte < -32 {
            out.push(0xD0);
        }
        out.push(byte.cast_unsigned());
    } else if let Ok(short) = i16::try_from(value) {
        out.push(0xD1);
        out.extend(short.to_be_bytes());
    } else if let Ok(word) = i32::try_from(value) {
        out.push(0xD2);
        out.extend(word.to_be_bytes());
    } else {
        out.push(0xD3);
        out.extend(value.to_be_bytes());
    }
}

/// The head of text, bytes or an extension; `short` is the first byte of the shortest form and the most it can tell.
fn write_length(length: usize, short: Option<(u8, u8)>, heads: [u8; 3], out: &mut Vec<u8>) {
    if let Ok(byte) = u8::try_from(length) {
        match short {
            Some((head, most)) if byte <= most => out.push(head | byte),
            _ => out.extend([heads[0], byte]),
        }
    } else if let Ok(word) = u16::try_from(length) {
        out.push(heads[1]);
        out.extend(word.to_be_bytes());
    } else {
        out.push(heads[2]);
        // What was read had its length in 32 bits.
        out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
}

pub(crate) fn write_count(count: u32, short: u8, heads: [u8; 2], out: &mut Vec<u8>) {
    if count < 16 {
        out.push(short | u8::try_from(count).unwrap_or(0));
    } else if let Ok(word) = u16::try_from(count) {
        out.push(heads[0]);
        out.extend(word.to_be_bytes());
    } else {
        out.push(heads[1]);
        out.extend(count.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(write_all(bytes, &mut out), Ok(()));
        out
    }

    #[test]
    fn wide_forms_become_short_ones() {
        for (wide, short) in [
            (&b"\xD3\0\0\0\0\0\0\0\x05"[..], &b"\x05"[..]),
            (b"\xCF\0\0\0\0\0\0\0\xFF", b"\xCC\xFF"),
            (b"\xCF\0\0\0\0\0\0\x01\0", b"\xCD\x01\0"),
            (b"\xCF\0\0\0\0\x01\0\0\0", b"\xCE\x01\0\0\0"),
            (b"\xD3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", b"\xFF"),
            (b"\xD3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xDF", b"\xD0\xDF"),
            (b"\xD3\xFF\xFF\xFF\xFF\xFF\xFF\x80\0", b"\xD1\x80\0"),
            (b"\xDB\0\0\0\x01a", b"\xA1a"),
            (b"\xC6\0\0\0\x01a", b"\xC4\x01a"),
            (b"\xDD\0\0\0\x01\xDF\0\0\0\0", b"\x91\x80"),
            (b"\xCA\x3F\x80\0\0", b"\xCB\x3F\xF0\0\0\0\0\0\0"),
            (b"\xC9\0\0\0\x02\x05ab", b"\xD5\x05ab"),
            (b"\xC7\x03\x05abc", b"\xC7\x03\x05abc"),
        ] {
            assert_eq!(canonical(wide), short);
            assert_eq!(canonical(short), short);
        }
    }

    #[test]
    fn long_forms_stay_long() {
        for length in [31_usize, 32, 255, 256, 65_535, 65_536] {
            let mut text = Vec::new();
            write(Value::Text(&vec![b'a'; length]), &mut text);
            assert_eq!(canonical(&text), text);
            assert_eq!(Cursor::new(&text).read(), Ok(Value::Text(&vec![b'a'; length][..])));
        }
    }
}
