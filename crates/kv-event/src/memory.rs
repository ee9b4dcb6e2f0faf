//! What earlier events of an engine process tell about later ones.

use rustc_hash::{FxHashMap, FxHashSet};

/// Groups and adapters of one engine are few. What names more of them is forgotten, so that a publisher cannot make this
/// grow without end.
const MOST: usize = 1_024;

/// Kinds of KV cache in which a prefix is usable once all its blocks are there. A sliding window needs its last blocks
/// only and a state-space model its last state, so a run of blocks from the start says nothing about those.
const PREFIX_KINDS: [&[u8]; 4] = [b"unknown", b"full_attention", b"mla_attention", b"sink_full_attention"];

/// A KV-cache group, as the engine numbers it; none where it has one only.
pub(crate) type Group = Option<i128>;

/// Which KV-cache groups serve prefix matching.
///
/// Engines with hybrid attention announce the same tokens, under the same hashes, once per group; a removal carries the
/// group's number only, and from a group that is not indexed it must not remove another group's block.
#[derive(Debug, Default)]
pub(crate) struct CacheGroups {
    left_out: FxHashSet<Group>,
}

impl CacheGroups {
    /// Whether a store of this group is indexed. A kind is remembered; without one (placeholders) the last one counts.
    pub fn admits(&mut self, group: Group, kind: Option<&[u8]>) -> bool {
        match kind {
            None => {}
            Some(kind) if PREFIX_KINDS.contains(&kind) => {
                self.left_out.remove(&group);
            }
            Some(_) => {
                if self.left_out.len() >= MOST {
                    self.left_out.clear();
                }
                self.left_out.insert(group);
            }
        }
        self.is_indexed(group)
    }

    pub fn is_indexed(&self, group: Group) -> bool {
        !self.left_out.contains(&group)
    }
}

/// Which loading of each adapter the blocks belong to: the number that the engine gave it, by name.
///
/// Engines count: loaded again, under the same name, an adapter has a higher number and maybe other weights. A lower
/// number is that of another front end of the same engine, which numbers for itself.
#[derive(Debug, Default)]
pub(crate) struct AdapterLoads {
    highest: FxHashMap<String, i128>,
}

impl AdapterLoads {
    /// Remembers a loading; whether the adapter was known by this name under a lower number.
    pub fn is_reloaded(&mut self, name: &str, number: i128) -> bool {
        if let Some(highest) = self.highest.get_mut(name) {
            let reloaded = number > *highest;
            *highest = number.max(*highest);
            return reloaded;
        }
        if self.highest.len() >= MOST {
            self.highest.clear();
        }
        self.highest.insert(name.to_owned(), number);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_what_it_was_last_said_to_be() {
        let mut groups = CacheGroups::default();
        assert!(groups.admits(None, None));
        assert!(!groups.admits(Some(1), Some(b"sliding_window")));
        assert!(!groups.admits(Some(1), None) && !groups.is_indexed(Some(1)));
        assert!(groups.is_indexed(Some(0)) && groups.is_indexed(None));
        assert!(groups.admits(Some(1), Some(b"full_attention")) && groups.is_indexed(Some(1)));
    }

    #[test]
    fn only_a_higher_number_is_another_loading() {
        let mut loads = AdapterLoads::default();
        assert!(!loads.is_reloaded("sql", 2));
        assert!(!loads.is_reloaded("sql", 2));
        assert!(!loads.is_reloaded("sql", 1));
        assert!(!loads.is_reloaded("chat", 3));
        assert!(loads.is_reloaded("sql", 4));
        assert!(!loads.is_reloaded("sql", 2));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut groups, mut loads) = (CacheGroups::default(), AdapterLoads::default());
        for number in 0..10_000 {
            groups.admits(Some(number), Some(b"mamba"));
            loads.is_reloaded(&number.to_string(), number);
        }
        assert!(groups.left_out.len() <= MOST && loads.highest.len() <= MOST);
    }
}
