//! A batch of one stored chain of blocks, as vLLM writes it in msgpack since 0.24: `[timestamp, [map], rank]`.

const BLOCK_SIZE: u64 = crate::holdings::BLOCK_SIZE as u64;

/// Blocks that a worker has stored: their hashes, the ids of all of them, and the block before the first.
pub struct Stored<'a> {
    pub hashes: &'a [u64],
    pub ids: &'a [u32],
    pub parent: Option<u64>,
}

/// The batch's bytes; `timestamp` in seconds since 1970.
pub fn batch(timestamp: f64, stored: &Stored<'_>) -> Vec<u8> {
    let mut wire = Wire(Vec::with_capacity(stored.hashes.len() * 9 + stored.ids.len() * 3 + 200));
    wire.0.push(0x93);
    wire.0.push(0xCB);
    wire.0.extend_from_slice(&timestamp.to_be_bytes());
    wire.0.push(0x91);
    wire.event(stored);
    wire.0.push(0);
    wire.0
}

struct Wire(Vec<u8>);

impl Wire {
    fn event(&mut self, stored: &Stored<'_>) {
        self.0.push(0x8A);
        self.pair("type", "BlockStored");
        self.text("block_hashes");
        self.array(stored.hashes.len());
        stored.hashes.iter().for_each(|&hash| self.number(hash));
        self.text("parent_block_hash");
        match stored.parent {
            Some(hash) => self.number(hash),
            None => self.0.push(0xC0),
        }
        self.text("token_ids");
        self.array(stored.ids.len());
        stored.ids.iter().for_each(|&id| self.number(u64::from(id)));
        self.text("block_size");
        self.number(BLOCK_SIZE);
        for nothing in ["lora_id", "lora_name"] {
            self.text(nothing);
            self.0.push(0xC0);
        }
        self.pair("medium", "GPU");
        self.text("group_idx");
        self.number(0);
        self.pair("kv_cache_spec_kind", "full_attention");
    }

    fn pair(&mut self, name: &str, value: &str) {
        self.text(name);
        self.text(value);
    }

    /// All texts here are shorter than 32 bytes.
    fn text(&mut self, text: &str) {
        self.0.push(0xA0 | u8::try_from(text.len() & 31).unwrap_or(0));
        self.0.extend_from_slice(text.as_bytes());
    }

    fn array(&mut self, length: usize) {
        self.0.push(0xDD);
        self.0
            .extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }

    fn number(&mut self, number: u64) {
        match u16::try_from(number) {
            Ok(small @ 0..=127) => self.0.push(small.to_be_bytes()[1]),
            Ok(middle) => {
                self.0.push(0xCD);
                self.0.extend_from_slice(&middle.to_be_bytes());
            }
            Err(_) => {
                self.0.push(0xCF);
                self.0.extend_from_slice(&number.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_begins_and_ends_as_msgpack() {
        let stored = Stored {
            hashes: &[u64::MAX],
            ids: &[1, 300, 70_000],
            parent: None,
        };
        let bytes = batch(1.5, &stored);
        assert_eq!(&bytes[..3], &[0x93, 0xCB, 0x3F]);
        assert_eq!(&bytes[10..27], b"\x91\x8A\xA4type\xABBlockStor");
        assert_eq!(bytes.last(), Some(&0));
        let ids = bytes.windows(5).position(|five| five == [0xDD, 0, 0, 0, 3]).unwrap() + 5;
        assert_eq!(&bytes[ids..ids + 4], &[1, 0xCD, 1, 0x2C]);
        assert_eq!(&bytes[ids + 4..ids + 13], &[0xCF, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
    }
}
