//! What an engine calls a block: opaque, and valid on the worker that said it only.

use xxhash_rust::xxh3::xxh3_128;

/// An engine's hash. Integers and byte strings never equal each other, whatever their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineHash {
    /// An integer of up to 64 bits; negative ones as their two's complement.
    Int(u64),
    /// A byte string of any length, by its XXH3-128.
    Digest(u64, u64),
}

impl EngineHash {
    /// The key of a byte string.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let digest = xxh3_128(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        Self::Digest((digest >> 64) as u64, digest as u64)
    }
}

impl From<u64> for EngineHash {
    fn from(value: u64) -> Self {
        Self::Int(value)
    }
}

impl From<i64> for EngineHash {
    fn from(value: i64) -> Self {
        Self::Int(value.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_integer_is_its_twos_complement() {
        assert_eq!(EngineHash::from(-27_i64), EngineHash::from(u64::MAX - 26));
    }

    #[test]
    fn byte_strings_and_integers_stay_apart() {
        let bytes = 100_u64.to_be_bytes();
        assert_ne!(EngineHash::from_bytes(&bytes), EngineHash::from(100_u64));
        assert_ne!(EngineHash::from_bytes(&bytes), EngineHash::from_bytes(&bytes[1..]));
    }
}
