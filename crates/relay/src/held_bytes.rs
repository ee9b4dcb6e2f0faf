//! How many bytes of request bodies are held at once, by all open requests together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that may be held.
pub struct HeldBytes {
    limit: usize,
    held: AtomicUsize,
}

/// What one request holds of them; given back when dropped.
pub struct Share {
    of: Arc<HeldBytes>,
    bytes: usize,
}

impl HeldBytes {
    pub fn new(limit: usize) -> Arc<Self> {
        let held = AtomicUsize::new(0);
        Arc::new(Self { limit, held })
    }

    pub fn share(self: &Arc<Self>) -> Share {
        let of = Arc::clone(self);
        Share { of, bytes: 0 }
    }
}

impl Share {
    /// Take `more` bytes; false if there are not so many.
    #[must_use]
    pub fn grow(&mut self, more: usize) -> bool {
        let before = self.of.held.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        before + more <= self.of.limit
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fill_the_limit_and_give_back() {
        let held = HeldBytes::new(10);
        let (mut first, mut second) = (held.share(), held.share());
        assert!(first.grow(6) && second.grow(4));
        assert!(!second.grow(1), "one too many");
        drop(second);
        assert!(first.grow(4));
        drop(first);
        assert_eq!(held.held.load(Ordering::Relaxed), 0);
    }
}
