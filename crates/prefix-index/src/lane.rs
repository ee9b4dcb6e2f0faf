//! One worker's cache: what it has announced, what it is assumed to hold, and what stands out in it.
//!
//! Two locks, taken in this order: `announced` for as long as an event or a dump takes, `held` for as long as what
//! lookups read of a lane is being changed. The locks of the block table come last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::block_sizes::BlockSizes;
use crate::eviction::Order;
use crate::holes::Holes;
use crate::names::EngineNames;
use crate::orphans::Orphans;
use crate::predictions::Predictions;
use crate::tier::{Tier, WorkerId};

/// What block holders call a lane. A cleared lane gets another number, so its old holders count at once for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LaneNumber(pub u32);

/// How many blocks are kept of a lane; it stays when the lane is cleared.
#[derive(Debug)]
pub(crate) struct Limits {
    predictions: AtomicUsize,
    tiers: [AtomicUsize; Tier::ALL.len()],
}

/// The announced side of a lane.
#[derive(Debug)]
pub(crate) struct AnnouncedBlocks {
    pub names: EngineNames,
    pub orphans: Orphans,
    pub order: Order,
    pub sizes: BlockSizes,
    /// The lane has been cleared or forgotten: nothing may enter it any more.
    pub retired: bool,
}

/// The held side of a lane. `confirmed` and `off_device` are distinct blocks; the latter have no copy on the device.
#[derive(Debug, Default)]
pub(crate) struct HeldBlocks {
    pub holes: Holes,
    pub predictions: Predictions,
    pub confirmed: usize,
    pub off_device: usize,
    pub by_tier: [usize; Tier::ALL.len()],
    pub retired: bool,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub key: WorkerId,
    pub number: LaneNumber,
    pub limits: Arc<Limits>,
    pub announced: Mutex<AnnouncedBlocks>,
    pub held: Mutex<HeldBlocks>,
}

impl Lane {
    pub fn new(key: WorkerId, number: LaneNumber, limits: Arc<Limits>, orphan_limit: usize) -> Self {
        let announced = AnnouncedBlocks {
            names: EngineNames::default(),
            orphans: Orphans::new(orphan_limit),
            order: Order::default(),
            sizes: BlockSizes::default(),
            retired: false,
        };
        Self {
            key,
            number,
            limits,
            announced: Mutex::new(announced),
            held: Mutex::default(),
        }
    }
}

impl HeldBlocks {
    pub fn len(&self) -> usize {
        self.confirmed + self.predictions.len()
    }
}

impl Limits {
    pub fn new(predictions: usize) -> Self {
        Self {
            predictions: AtomicUsize::new(predictions),
            tiers: Tier::ALL.map(|_| AtomicUsize::new(usize::MAX)),
        }
    }

    pub fn predictions(&self) -> usize {
        self.predictions.load(Ordering::Relaxed)
    }

    pub fn set_predictions(&self, limit: usize) {
        self.predictions.store(limit, Ordering::Relaxed);
    }

    /// Distinct blocks with a confirmed copy in this tier; None: as many as are announced.
    pub fn tier(&self, tier: Tier) -> Option<usize> {
        let limit = self.tiers[tier as usize].load(Ordering::Relaxed);
        (limit != usize::MAX).then_some(limit)
    }

    pub fn set_tier(&self, tier: Tier, limit: Option<usize>) {
        self.tiers[tier as usize].store(limit.unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
