//! `MessagePack`, one value at a time: a container is its length, its members follow.

/// One value, borrowed from the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Nil,
    Bool(bool),
    /// Not negative, whatever its width and sign on the wire.
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    /// Not checked to be UTF-8.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// So many values follow.
    Array(u32),
    /// So many pairs of values follow.
    Map(u32),
    Extension(u8, &'a [u8]),
}

/// The bytes end within a value, or hold what is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Truncated,
    NoValue,
}

type Read<T> = Result<T, Malformed>;

/// Bytes, and how far they have been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Bytes that a value without length or members takes, by its first byte; 0 for the others.
const WIDTHS: [u8; 256] = {
    let mut widths = [0; 256];
    let mut first = 0;
    while first < 256 {
        widths[first] = match first {
            0x00..=0x7F | 0xC0 | 0xC2 | 0xC3 | 0xE0..=0xFF => 1,
            0xCC | 0xD0 => 2,
            0xCD | 0xD1 => 3,
            0xCA | 0xCE | 0xD2 => 5,
            0xCB | 0xCF | 0xD3 => 9,
            _ => 0,
        };
        first += 1;
    }
    widths
};

/// How to read an integer of up to 32 bits that is not negative, by its first byte: the bytes it takes (0: it is none)
/// and which of their last bits tell it.
const SMALL: [(u8, u32); 256] = {
    let mut small = [(0, 0); 256];
    let mut first = 0;
    while first < 0x80 {
        small[first] = (1, 0x7F);
        first += 1;
    }
    small[0xCC] = (2, 0xFF);
    small[0xCD] = (3, 0xFFFF);
    small[0xCE] = (5, u32::MAX);
    small
};

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn is_at_end(self) -> bool {
        self.at == self.bytes.len()
    }

    /// Bytes not read yet: no container has more members than that.
    pub fn remaining(self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Reads one value, or the head of a container.
    pub fn read(&mut self) -> Read<Value<'a>> {
        let first = self.byte()?;
        Ok(match first {
            0x00..=0x7F => Value::Unsigned(u64::from(first)),
            0xE0..=0xFF => Value::Negative(i64::from(first.cast_signed())),
            0x80..=0x8F => Value::Map(u32::from(first & 0x0F)),
            0x90..=0x9F => Value::Array(u32::from(first & 0x0F)),
            0xA0..=0xBF => Value::Text(self.take(usize::from(first & 0x1F))?),
            0xC0 => Value::Nil,
            0xC1 => return Err(Malformed::NoValue),
            0xC2 | 0xC3 => Value::Bool(first == 0xC3),
            0xCA => Value::Float(f64::from(f32::from_be_bytes(self.chunk()?))),
            0xCB => Value::Float(f64::from_be_bytes(self.chunk()?)),
            0xCC..=0xCF => Value::Unsigned(self.number(first - 0xCC)?),
            0xD0..=0xD3 => signed(self.number(first - 0xD0)?, first - 0xD0),
            0xC4..=0xC6 => Value::Bytes(self.sized(first - 0xC4)?),
            0xD9..=0xDB => Value::Text(self.sized(first - 0xD9)?),
            0xD4..=0xD8 => self.extension(1 << (first - 0xD4))?,
            0xC7..=0xC9 => {
                let length = self.length(first - 0xC7)?;
                self.extension(length)?
            }
            0xDC | 0xDD => Value::Array(self.count(first - 0xDB)?),
            0xDE | 0xDF => Value::Map(self.count(first - 0xDD)?),
        })
    }

    /// Reads integers of up to 32 bits while they come, at most so many; how many they were. It may stop early, wherever
    /// `read` would have to look closer.
    ///
    /// Token ids are most of all bytes, and their widths follow no pattern that a processor could learn: with a branch for
    /// each width, decoding took twice as long (`cargo bench -p kv-event`, 2 cores).
    pub fn read_small(&mut self, most: u32, out: &mut Vec<u32>) -> u32 {
        for read in 0..most {
            let Some(window) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) else {
                return read;
            };
            let word = u64::from_be_bytes(*window);
            let (width, bits) = SMALL[usize::from(window[0])];
            if width == 0 {
                return read;
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the bits that tell the value are the last 32 at most"
            )]
            out.push((word >> (64 - 8 * u32::from(width))) as u32 & bits);
            self.at += usize::from(width);
        }
        most
    }

    /// Passes over one value with all its members.
    pub fn skip(&mut self) -> Read<()> {
        let mut open: u64 = 1;
        while open > 0 {
            open -= 1;
            let first = *self.bytes.get(self.at).ok_or(Malformed::Truncated)?;
            let width = usize::from(WIDTHS[usize::from(first)]);
            if width > 0 {
                self.at += width;
                continue;
            }
            match self.read()? {
                Value::Array(members) => open += u64::from(members),
                Value::Map(pairs) => open += 2 * u64::from(pairs),
                _ => {}
            }
        }
        // Widths are added unseen, which may lead past the end.
        if self.at > self.bytes.len() {
            self.at = self.bytes.len();
            return Err(Malformed::Truncated);
        }
        Ok(())
    }

    /// Reads one value; of a container the head, passing over its members.
    pub fn read_whole(&mut self) -> Read<Value<'a>> {
        let mut whole = *self;
        let value = self.read()?;
        if matches!(value, Value::Array(_) | Value::Map(_)) {
            whole.skip()?;
            *self = whole;
        }
        Ok(value)
    }

    /// The number of members of an array, which follow; nil has none. Anything else is passed over.
    pub fn read_list_head(&mut self) -> Read<Option<u32>> {
        let start = *self;
        match self.read()? {
            Value::Nil => Ok(Some(0)),
            Value::Array(members) => Ok(Some(members)),
            _ => {
                *self = start;
                self.skip()?;
                Ok(None)
            }
        }
    }

    /// Passes over one value and gives the bytes it takes.
    pub fn skip_over(&mut self) -> Read<&'a [u8]> {
        let start = self.at;
        self.skip()?;
        Ok(&self.bytes[start..self.at])
    }

    fn byte(&mut self) -> Read<u8> {
        let [byte] = self.chunk()?;
        Ok(byte)
    }

    fn chunk<const N: usize>(&mut self) -> Read<[u8; N]> {
        let rest = self.bytes.get(self.at..).ok_or(Malformed::Truncated)?;
        let chunk = rest.first_chunk().ok_or(Malformed::Truncated)?;
        self.at += N;
        Ok(*chunk)
    }

    fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let rest = self.bytes.get(self.at..).ok_or(Malformed::Truncated)?;
        let taken = rest.get(..length).ok_or(Malformed::Truncated)?;
        self.at += length;
        Ok(taken)
    }

    /// An unsigned number of `2 ** log_width` bytes.
    fn number(&mut self, log_width: u8) -> Read<u64> {
        Ok(match log_width {
            0 => u64::from(self.byte()?),
            1 => u64::from(u16::from_be_bytes(self.chunk()?)),
            2 => u64::from(u32::from_be_bytes(self.chunk()?)),
            _ => u64::from_be_bytes(self.chunk()?),
        })
    }

    fn count(&mut self, log_width: u8) -> Read<u32> {
        Ok(if log_width == 1 {
            u32::from(u16::from_be_bytes(self.chunk()?))
        } else {
            u32::from_be_bytes(self.chunk()?)
        })
    }

    fn length(&mut self, log_width: u8) -> Read<usize> {
        // A length that does not fit cannot be there either.
        usize::try_from(self.number(log_width)?).map_err(|_| Malformed::Truncated)
    }

    fn sized(&mut self, log_width: u8) -> Read<&'a [u8]> {
        let length = self.length(log_width)?;
        self.take(length)
    }

    fn extension(&mut self, length: usize) -> Read<Value<'a>> {
        let code = self.byte()?;
        Ok(Value::Extension(code, self.take(length)?))
    }
}

/// Sign-extends a number of `2 ** log_width` bytes.
fn signed(number: u64, log_width: u8) -> Value<'static> {
    let unused = 64 - (8_u32 << log_width);
    let value = (number << unused).cast_signed() >> unused;
    u64::try_from(value).map_or(Value::Negative(value), Value::Unsigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Read<Value<'_>> {
        Cursor::new(bytes).read()
    }

    #[test]
    fn numbers_of_every_width_and_sign() {
        for (bytes, value) in [
            (&[0x7F][..], Value::Unsigned(127)),
            (&[0xFF], Value::Negative(-1)),
            (&[0xE0], Value::Negative(-32)),
            (&[0xCC, 0xFF], Value::Unsigned(255)),
            (&[0xCD, 1, 0], Value::Unsigned(256)),
            (&[0xCE, 1, 0, 0, 0], Value::Unsigned(1 << 24)),
            (
                &[0xCF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
                Value::Unsigned(u64::MAX),
            ),
            (&[0xD0, 0x80], Value::Negative(-128)),
            (&[0xD0, 0x7F], Value::Unsigned(127)),
            (&[0xD1, 0x80, 0], Value::Negative(-32_768)),
            (&[0xD2, 0xFF, 0xFF, 0xFF, 0xFE], Value::Negative(-2)),
            (&[0xD3, 0x80, 0, 0, 0, 0, 0, 0, 0], Value::Negative(i64::MIN)),
            (&[0xD3, 0, 0, 0, 0, 0, 0, 0, 5], Value::Unsigned(5)),
            (&[0xCA, 0x3F, 0x80, 0, 0], Value::Float(1.0)),
            (&[0xCB, 0xBF, 0xF0, 0, 0, 0, 0, 0, 0], Value::Float(-1.0)),
        ] {
            assert_eq!(read(bytes), Ok(value));
            assert_eq!(Cursor::new(bytes).skip_over(), Ok(bytes));
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), Err(Malformed::Truncated));
                assert_eq!(Cursor::new(&bytes[..length]).skip(), Err(Malformed::Truncated));
            }
        }
    }

    #[test]
    fn text_bytes_containers_and_extensions() {
        for (bytes, value) in [
            (&b"\xA2ab"[..], Value::Text(b"ab")),
            (b"\xD9\x02ab", Value::Text(b"ab")),
            (b"\xDB\0\0\0\x02ab", Value::Text(b"ab")),
            (b"\xC4\x02ab", Value::Bytes(b"ab")),
            (b"\xC5\0\x02ab", Value::Bytes(b"ab")),
            (b"\xD4\x05a", Value::Extension(5, b"a")),
            (b"\xD5\xFFab", Value::Extension(255, b"ab")),
            (b"\xC7\x02\x05ab", Value::Extension(5, b"ab")),
            (b"\xC8\0\x02\x05ab", Value::Extension(5, b"ab")),
            (b"\xC0", Value::Nil),
            (b"\xC2", Value::Bool(false)),
            (b"\xC3", Value::Bool(true)),
            (b"\x90", Value::Array(0)),
            (b"\xDC\0\0", Value::Array(0)),
            (b"\xDD\0\0\0\0", Value::Array(0)),
            (b"\x80", Value::Map(0)),
            (b"\xDE\0\0", Value::Map(0)),
            (b"\xDF\0\0\0\0", Value::Map(0)),
        ] {
            assert_eq!(read(bytes), Ok(value));
            assert_eq!(Cursor::new(bytes).skip_over(), Ok(bytes));
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), Err(Malformed::Truncated));
            }
        }
        assert_eq!(read(b"\xC1"), Err(Malformed::NoValue));
        assert_eq!(Cursor::new(b"\x92\x01\xC1").skip(), Err(Malformed::NoValue));
    }

    #[test]
    fn runs_of_small_integers_are_read_as_one_by_one() {
        let bytes = b"\x00\x7F\xCC\xFF\xCD\xFF\xFE\xCE\xFF\xFF\xFF\xFD\x05\xCF\0\0\0\0\0\0\0\x01\x02";
        let mut cursor = Cursor::new(bytes);
        let mut read = Vec::new();
        assert_eq!(cursor.read_small(9, &mut read), 6);
        assert_eq!(read, [0, 0x7F, 0xFF, 0xFFFE, 0xFFFF_FFFD, 5]);
        assert_eq!(cursor.read(), Ok(Value::Unsigned(1)));
        // Too near to the end to be read in one.
        assert_eq!(cursor.read_small(1, &mut read), 0);
        assert_eq!(cursor.read(), Ok(Value::Unsigned(2)));
        assert_eq!(Cursor::new(bytes).read_small(2, &mut read), 2);
    }

    #[test]
    fn skipping_takes_the_members_along() {
        let bytes = b"\x82\xA1a\x92\x01\x91\xC0\x02\xDC\0\x01\xA1b\x07";
        let mut cursor = Cursor::new(bytes);
        assert_eq!(cursor.skip_over(), Ok(&bytes[..bytes.len() - 1]));
        assert_eq!(cursor.read(), Ok(Value::Unsigned(7)));
        assert!(cursor.is_at_end());
    }

    #[test]
    fn a_length_that_is_not_there_costs_no_memory_and_no_time() {
        for bytes in [
            &b"\xDD\xFF\xFF\xFF\xFF"[..],
            b"\xDF\xFF\xFF\xFF\xFF",
            b"\xC6\xFF\xFF\xFF\xFF",
            b"\xDB\xFF\xFF\xFF\xFF",
            b"\xC9\xFF\xFF\xFF\xFF\x05",
        ] {
            assert_eq!(Cursor::new(bytes).skip(), Err(Malformed::Truncated));
        }
        let deep = vec![0x91; 1_000_000];
        assert_eq!(Cursor::new(&deep).skip(), Err(Malformed::Truncated));
    }
}
