//! Memory of maps that have been large.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Gives memory back once a map is mostly empty; a map that has been large keeps its table otherwise.
pub(crate) fn release_slack<K: Eq + Hash, V>(map: &mut FxHashMap<K, V>) {
    const SMALL: usize = 1_024;
    if map.capacity() > SMALL && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_has_emptied_gives_its_memory_back() {
        let mut map: FxHashMap<u64, u64> = (0..100_000).map(|key| (key, key)).collect();
        let full = map.capacity();
        for key in 0..100_000 {
            map.remove(&key);
            release_slack(&mut map);
        }
        assert!(full >= 100_000 && map.capacity() <= 2_048);
    }
}
