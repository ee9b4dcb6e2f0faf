//! Who holds a block, and where.

/// A worker's cache, as its owner numbers it. Numbers are never used twice.
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

/// Engine hashes that stand for a block, by `Tier as usize`.
pub(crate) type Names = [u8; Tier::ALL.len()];

/// Copies of a block, by `Tier as usize`.
pub(crate) type Copies = [u32; Tier::ALL.len()];
