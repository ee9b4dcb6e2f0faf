//! What an engine calls a block: opaque, and valid on the worker that said it only.

use xxhash_rust::xxh3::xxh3_64;

/// An engine's hash, as 64 bits: engines that send more (32 bytes of SHA-256) send digests, of which 64 bits tell the
/// blocks of one worker apart as well (a million of them collide with a probability of 3e-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineHash(pub u64);

impl EngineHash {
    /// The key of a byte string of any length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }
}

impl From<u64> for EngineHash {
    fn from(value: u64) -> Self {
        Self(value)
    }
}

impl From<i64> for EngineHash {
    fn from(value: i64) -> Self {
        Self(value.cast_unsigned())
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
