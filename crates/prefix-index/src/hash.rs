//! Block hashes: XXH3-64 chains over token ids, the same in every process.
//!
//! Hashes may be persisted and compared across machines, so none of this can change without a new version in
//! [`root_hash`]; the vectors in `tests/block` hold it in place.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Opens every root; a change of the scheme gets another number.
const DOMAIN: &[u8] = b"warmroute/block/1";

/// The name of a block: of its tokens, its key, and everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

impl BlockHash {
    /// The hash of the block with this content that follows `self`, which is a block or a root.
    #[must_use]
    pub fn then(self, content: u64) -> Self {
        Self(mix(self.0, content))
    }
}

/// The hash that chains of one namespace start from: equal only for equal block size, adapter and salt.
///
/// Names are bytes, UTF-8 as a rule: a client may send what is no valid text, and it must not meet another's salt.
#[must_use]
pub fn root_hash(block_size: u32, adapter: Option<&[u8]>, salt: Option<&[u8]>) -> BlockHash {
    let mut hasher = Xxh3::new();
    hasher.update(DOMAIN);
    hasher.update(&block_size.to_le_bytes());
    for name in [adapter, salt] {
        update_optional(&mut hasher, name);
    }
    BlockHash(hasher.digest())
}

/// Absence, the empty name and names that run into each other all stay apart: presence and length go first.
fn update_optional(hasher: &mut Xxh3, name: Option<&[u8]>) {
    let Some(name) = name else {
        return hasher.update(&[0]);
    };
    hasher.update(&[1]);
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name);
}

/// The hash of one block by itself, without what precedes it. An empty key differs from no key.
#[must_use]
pub fn content_hash(token_ids: &[u32], key: Option<&[u8]>) -> u64 {
    let tokens = hash_tokens(token_ids);
    key.map_or(tokens, |key| mix(tokens, xxh3_64(key)))
}

/// Chained hashes of the full blocks of a prompt. `keys` holds one entry for each of them, or is empty.
#[must_use]
pub fn hash_blocks<K: AsRef<[u8]>>(
    token_ids: &[u32],
    block_size: usize,
    root: BlockHash,
    keys: &[Option<K>],
) -> Vec<BlockHash> {
    let mut parent = root;
    contents(token_ids, block_size, keys)
        .map(|content| {
            parent = parent.then(content);
            parent
        })
        .collect()
}

/// The content hashes of the full blocks of a prompt.
pub(crate) fn contents<K: AsRef<[u8]>>(
    token_ids: &[u32],
    block_size: usize,
    keys: &[Option<K>],
) -> impl Iterator<Item = u64> {
    token_ids
        .chunks_exact(block_size)
        .enumerate()
        .map(|(position, block)| content_hash(block, key_at(keys, position)))
}

fn key_at<K: AsRef<[u8]>>(keys: &[Option<K>], position: usize) -> Option<&[u8]> {
    keys.get(position)?.as_ref().map(AsRef::as_ref)
}

/// XXH3-64 of the ids as little-endian bytes: their memory, where that is how it lies.
#[cfg(target_endian = "little")]
fn hash_tokens(token_ids: &[u32]) -> u64 {
    xxh3_64(bytemuck::cast_slice(token_ids))
}

#[cfg(target_endian = "big")]
fn hash_tokens(token_ids: &[u32]) -> u64 {
    let bytes: Vec<u8> = token_ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

fn mix(first: u64, second: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const NO_KEYS: &[Option<&[u8]>] = &[];

    #[test]
    fn roots_of_different_namespaces_differ() {
        let names = [None, Some(&b""[..]), Some(b"a"), Some(b"b"), Some(b"ab"), Some(b"a\0")];
        let mut roots = HashSet::new();
        for block_size in [1, 16, 32] {
            for adapter in names {
                for salt in names {
                    assert!(
                        roots.insert(root_hash(block_size, adapter, salt)),
                        "{block_size} {adapter:?} {salt:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn only_full_blocks_are_hashed_and_longer_prompts_extend_shorter_ones() {
        let tokens: Vec<u32> = (0..67).collect();
        let root = root_hash(16, None, None);
        let hashes = hash_blocks(&tokens, 16, root, NO_KEYS);
        assert_eq!(hashes.len(), 4);
        assert_eq!(hash_blocks(&tokens[..33], 16, root, NO_KEYS), hashes[..2]);
        assert_eq!(hash_blocks(&tokens[..15], 16, root, NO_KEYS), []);
    }

    #[test]
    fn a_key_changes_its_block_and_all_after_it() {
        let tokens: Vec<u32> = (0..12).collect();
        let root = root_hash(4, None, None);
        let plain = hash_blocks(&tokens, 4, root, NO_KEYS);
        for key in [&b""[..], b"image"] {
            let keyed = hash_blocks(&tokens, 4, root, &[None, Some(key), None]);
            assert_eq!(keyed[0], plain[0]);
            assert_ne!(keyed[1], plain[1]);
            assert_ne!(keyed[2], plain[2]);
        }
    }

    #[test]
    fn blocks_of_any_size_hash_like_bytes() {
        for count in [1, 16, 255, 256, 257, 1_000] {
            let tokens: Vec<u32> = (0..count).collect();
            let bytes: Vec<u8> = tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
            assert_eq!(content_hash(&tokens, None), xxh3_64(&bytes));
        }
    }

    /// Computed by an independent XXH3 (`tests/block`); persisted hashes depend on them.
    #[test]
    fn the_hashes_of_version_one_never_change() {
        let root = root_hash(4, Some(b"ad-1"), None);
        let blocks = hash_blocks(&[0, 1, 2, 3, 4, 5, 6, 7], 4, root, &[None, Some(b"image")]);
        assert_eq!(root, BlockHash(0xB23A_C5D3_F9BE_E95F));
        assert_eq!(
            blocks,
            [BlockHash(0x15BD_5932_4CB5_E173), BlockHash(0x3FA6_A2CB_964D_D594)]
        );
    }
}
