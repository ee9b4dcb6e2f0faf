//! One lane as bytes and back: its confirmed blocks and orphans. Predictions are not kept; they would have run out.
//!
//! All numbers are little-endian. Version 1:
//!
//! ```text
//! u8 version
//! u32 block sizes, each: u32 tokens, u64 blocks
//! u32 blocks, by depth, each: u64 block hash, u64 parent, u32 depth
//! u32 engine hashes, each: u64 hash, u32 place of its block above, u8 tiers (bit t: a copy in tier t), u32 copies per tier
//! u32 orphans, oldest first, each: u64 hash, u64 parent, u64 content, u8 tier
//! ```
//!
//! There is no checksum: whoever puts it into a file has one for the whole.

use rustc_hash::FxHashMap;

use crate::blocks::Slot;
use crate::engine_hash::EngineHash;
use crate::hash::BlockHash;
use crate::index::PrefixIndex;
use crate::intake::Intake;
use crate::lane::Lane;
use crate::orphans::Orphan;
use crate::shard::Link;
use crate::tier::{Tier, WorkerId};

const VERSION: u8 = 1;

/// Why a dump cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptDump(pub &'static str);

/// An engine hash with its copies, and the place of its block.
struct Name {
    hash: EngineHash,
    block: usize,
    copies: Vec<(Tier, u32)>,
}

/// A lane, parsed and found sound.
#[derive(Default)]
struct Dump {
    sizes: Vec<(u32, u64)>,
    blocks: Vec<Link>,
    names: Vec<Name>,
    orphans: Vec<Orphan>,
}

impl PrefixIndex {
    /// What a worker has announced, for `restore`; None where it is not known. Lookups go on meanwhile.
    #[must_use]
    pub fn dump(&self, worker: WorkerId) -> Option<Vec<u8>> {
        let lane = self.lane(worker)?;
        Some(self.read_lane(&lane).write())
    }

    /// Replaces what is known of a worker by a dump; the number of blocks in it. An unknown worker stays unknown.
    ///
    /// # Errors
    /// Where the bytes are no dump of this version; then nothing has changed.
    pub fn restore(&self, worker: WorkerId, bytes: &[u8]) -> Result<usize, CorruptDump> {
        let dump = Dump::parse(bytes)?;
        self.clear(worker);
        self.with_intake(worker, |mut intake| dump.enter(&mut intake));
        Ok(dump.blocks.len())
    }

    /// Whether bytes are a dump that can be restored; the number of blocks in it.
    ///
    /// # Errors
    /// Where they are not.
    pub fn check_dump(bytes: &[u8]) -> Result<usize, CorruptDump> {
        Dump::parse(bytes).map(|dump| dump.blocks.len())
    }

    fn read_lane(&self, lane: &Lane) -> Dump {
        let announced = lane.announced.lock();
        let mut blocks: Vec<(Link, Slot)> = Vec::with_capacity(announced.names.len());
        blocks.extend(
            announced
                .names
                .iter()
                .map(|known| (self.blocks.link(known.slot()), known.slot())),
        );
        blocks.sort_unstable_by_key(|(link, _)| (link.depth, link.hash));
        blocks.dedup_by_key(|(link, _)| link.hash);
        let places: FxHashMap<Slot, usize> = (0..).zip(&blocks).map(|(place, (_, slot))| (*slot, place)).collect();
        let names = announced.names.iter().map(|known| Name {
            hash: known.hash(),
            block: places[&known.slot()],
            copies: Tier::ALL
                .into_iter()
                .zip(announced.names.copies(known))
                .filter(|(_, copies)| *copies > 0)
                .collect(),
        });
        Dump {
            sizes: announced.sizes.iter().collect(),
            names: names.collect(),
            blocks: blocks.iter().map(|(link, _)| *link).collect(),
            orphans: announced.orphans.iter().copied().collect(),
        }
    }
}

impl Dump {
    fn write(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(64 + 20 * self.blocks.len() + 17 * self.names.len() + 25 * self.orphans.len());
        bytes.push(VERSION);
        write_all(&mut bytes, &self.sizes, |bytes, (size, blocks)| {
            bytes.extend(size.to_le_bytes());
            bytes.extend(blocks.to_le_bytes());
        });
        write_all(&mut bytes, &self.blocks, |bytes, link| {
            bytes.extend(link.hash.0.to_le_bytes());
            bytes.extend(link.parent.0.to_le_bytes());
            bytes.extend(link.depth.to_le_bytes());
        });
        write_all(&mut bytes, &self.names, |bytes, name| name.write(bytes));
        write_all(&mut bytes, &self.orphans, |bytes, orphan| {
            bytes.extend(orphan.hash.0.to_le_bytes());
            bytes.extend(orphan.parent.0.to_le_bytes());
            bytes.extend(orphan.content.to_le_bytes());
            bytes.push(orphan.tier as u8);
        });
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Self, CorruptDump> {
        let mut reader = Reader(bytes);
        if reader.byte()? != VERSION {
            return Err(CorruptDump("another version"));
        }
        let dump = Self {
            sizes: reader.all(12, |reader| Ok((reader.u32()?, reader.u64()?)))?,
            blocks: reader.all(20, |reader| {
                Ok(Link {
                    hash: BlockHash(reader.u64()?),
                    parent: BlockHash(reader.u64()?),
                    depth: reader.u32()?,
                })
            })?,
            names: reader.all(17, Name::read)?,
            orphans: reader.all(25, |reader| {
                Ok(Orphan {
                    hash: EngineHash(reader.u64()?),
                    parent: EngineHash(reader.u64()?),
                    content: reader.u64()?,
                    tier: reader.tier()?,
                })
            })?,
        };
        if reader.0.is_empty() {
            dump.checked()
        } else {
            Err(CorruptDump("bytes after the end"))
        }
    }

    /// Whether everything refers to something, once.
    fn checked(self) -> Result<Self, CorruptDump> {
        if !self
            .blocks
            .is_sorted_by(|left, right| (left.depth, left.hash) < (right.depth, right.hash))
        {
            return Err(CorruptDump("blocks out of order"));
        }
        let mut names_of = vec![0_u16; self.blocks.len()];
        let mut hashes = rustc_hash::FxHashSet::default();
        for name in &self.names {
            let Some(names) = names_of.get_mut(name.block) else {
                return Err(CorruptDump("an engine hash without a block"));
            };
            *names = names.saturating_add(1);
            if !hashes.insert(name.hash) {
                return Err(CorruptDump("an engine hash twice"));
            }
        }
        if names_of.iter().any(|names| !(1..=u16::from(u8::MAX)).contains(names)) {
            return Err(CorruptDump("a block without an engine hash"));
        }
        let mut blocks = rustc_hash::FxHashSet::default();
        if !self.blocks.iter().all(|link| blocks.insert(link.hash)) {
            return Err(CorruptDump("a block twice"));
        }
        Ok(self)
    }

    fn enter(&self, intake: &mut Intake<'_>) {
        for name in &self.names {
            intake.restore(name.hash, self.blocks[name.block], &name.copies);
        }
        for (size, blocks) in &self.sizes {
            intake
                .announced
                .sizes
                .count(*size, usize::try_from(*blocks).unwrap_or(usize::MAX));
        }
        for orphan in &self.orphans {
            if !intake.announced.names.contains(orphan.parent) {
                intake.announced.orphans.keep(*orphan);
            }
        }
    }
}

impl Name {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.hash.0.to_le_bytes());
        bytes.extend(u32::try_from(self.block).unwrap_or(u32::MAX).to_le_bytes());
        bytes.push(self.copies.iter().fold(0, |tiers, (tier, _)| tiers | 1 << *tier as u8));
        for (_, copies) in &self.copies {
            bytes.extend(copies.to_le_bytes());
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, CorruptDump> {
        let (hash, block, tiers) = (EngineHash(reader.u64()?), reader.u32()?, reader.byte()?);
        if tiers == 0 || tiers >> Tier::ALL.len() != 0 {
            return Err(CorruptDump("an engine hash without a tier"));
        }
        let mut copies = Vec::with_capacity(1);
        for tier in Tier::ALL.into_iter().filter(|tier| tiers >> *tier as u8 & 1 == 1) {
            match reader.u32()? {
                0 => return Err(CorruptDump("a tier without a copy")),
                count => copies.push((tier, count)),
            }
        }
        Ok(Self {
            hash,
            block: block as usize,
            copies,
        })
    }
}

fn write_all<T>(bytes: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    bytes.extend(u32::try_from(items.len()).unwrap_or(u32::MAX).to_le_bytes());
    for item in items {
        write(bytes, item);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CorruptDump> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CorruptDump("cut off"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, CorruptDump> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, CorruptDump> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, CorruptDump> {
        self.take().map(u64::from_le_bytes)
    }

    fn tier(&mut self) -> Result<Tier, CorruptDump> {
        let tier = self.byte()?;
        Tier::ALL
            .get(tier as usize)
            .copied()
            .ok_or(CorruptDump("an unknown tier"))
    }

    /// As many items as are announced, each of `size` bytes at least; nothing is reserved for those that are not there.
    fn all<T>(
        &mut self,
        size: usize,
        read: impl Fn(&mut Self) -> Result<T, CorruptDump>,
    ) -> Result<Vec<T>, CorruptDump> {
        let count = self.u32()? as usize;
        if count > self.0.len() / size {
            return Err(CorruptDump("cut off"));
        }
        (0..count).map(|_| read(self)).collect()
    }
}
