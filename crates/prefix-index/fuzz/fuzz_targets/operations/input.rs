//! What the fuzzer makes up: operations, and the prompts that they are about.

use arbitrary::Arbitrary;

use crate::LONGEST_CHAIN;
use crate::oracle::Path;

#[derive(Arbitrary, Debug)]
pub enum Operation {
    AddWorker {
        worker: u8,
        limit: u8,
    },
    Forget {
        worker: u8,
    },
    Clear {
        worker: u8,
    },
    /// What an honest engine sends: names follow from depth.
    Extend {
        worker: u8,
        tier: u8,
        start: u8,
        blocks: u8,
        root: bool,
    },
    /// Anything.
    Store {
        worker: u8,
        tier: u8,
        parent: Option<u8>,
        root: bool,
        blocks: Vec<(u8, bool)>,
    },
    StoreKnown {
        worker: u8,
        tier: u8,
        names: Vec<u8>,
    },
    Remove {
        worker: u8,
        tier: u8,
        names: Vec<u8>,
    },
    RemoveRange {
        worker: u8,
        tier: u8,
        start: u8,
        blocks: u8,
    },
    Predict {
        worker: u8,
        prompt: Prompt,
        until: u8,
    },
    Truncate {
        worker: u8,
        prompt: Prompt,
        keep: u8,
    },
    DumpAndRestore {
        worker: u8,
    },
    Expire {
        now: u8,
    },
    Cap {
        worker: u8,
        tier: u8,
        blocks: Option<u8>,
    },
}

/// Blocks of equal tokens, but for one that may differ.
#[derive(Arbitrary, Clone, Debug)]
pub struct Prompt {
    pub root: bool,
    pub blocks: u8,
    pub odd_one: Option<u8>,
}

impl Prompt {
    pub fn path(&self) -> Path {
        let blocks = self.blocks % (LONGEST_CHAIN + 4);
        let tokens = (0..blocks).map(|block| vec![u32::from(self.odd_one == Some(block))]);
        (u64::from(self.root), tokens.collect())
    }
}
