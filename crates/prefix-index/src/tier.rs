//! Who holds a block, and where.

/// A worker, as its owner numbers it. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

/// Where a worker keeps a block, nearest to the GPU first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// GPU memory.
    Device,
    /// Host memory.
    Host,
    /// A disk of the worker's machine.
    Disk,
    /// Storage behind a network.
    Remote,
}

impl Tier {
    /// Every tier, nearest first.
    pub const ALL: [Self; 4] = [Self::Device, Self::Host, Self::Disk, Self::Remote];
}

/// Copies of a block per tier, indexed by `Tier as usize`.
pub(crate) type Copies = [u32; Tier::ALL.len()];

/// One copy in this tier.
pub(crate) fn one(tier: Tier) -> Copies {
    let mut copies = Copies::default();
    copies[tier as usize] = 1;
    copies
}
