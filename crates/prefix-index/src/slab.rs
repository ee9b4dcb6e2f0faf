//! Entries of equal size in chunks that never move: nothing is copied as it grows, and no chunk is larger than what the
//! allocator has free from others.

/// Entries per chunk: 4 KiB of them, a page.
const CHUNK: usize = 128;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Entries, free ones included.
    pub fn len(&self) -> usize {
        self.chunks
            .last()
            .map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Puts an entry somewhere; None where there are `limit` already.
    pub fn insert(&mut self, entry: T, limit: usize) -> Option<u32> {
        if let Some(place) = self.free.pop() {
            *self.get_mut(place) = entry;
            return Some(place);
        }
        let place = self.len();
        if place >= limit {
            return None;
        }
        if place.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks.last_mut()?.push(entry);
        u32::try_from(place).ok()
    }

    /// The place of an entry may be given to another one.
    pub fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    pub fn get(&self, place: u32) -> &T {
        let place = place as usize;
        &self.chunks[place / CHUNK][place % CHUNK]
    }

    pub fn get_mut(&mut self, place: u32) -> &mut T {
        let place = place as usize;
        &mut self.chunks[place / CHUNK][place % CHUNK]
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Bytes of memory that are reserved.
    pub fn memory(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>()
            + self.chunks.capacity() * size_of::<Vec<T>>()
            + self.free.capacity() * size_of::<u32>()
    }
}
