//! The queue of events and the descriptor that wakes its reader.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::event::Event;

/// Events for the owner. The descriptor is readable from the first waiting event until [`Mailbox::take`].
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    bell: UnixStream,
    ear: UnixStream,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    rung: bool,
}

impl Mailbox {
    pub fn new() -> io::Result<Self> {
        let (ear, bell) = UnixStream::pair()?;
        ear.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok(Self {
            waiting: Mutex::default(),
            bell,
            ear,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ear.as_fd()
    }

    pub fn push(&self, event: Event) {
        let ring = {
            let mut waiting = self.lock();
            waiting.events.push(event);
            !std::mem::replace(&mut waiting.rung, true)
        };
        if ring {
            // One byte at most waits per take, so the socket is never full; a reader that is gone needs no waking.
            let _ = (&self.bell).write(&[1]);
        }
    }

    /// All waiting events. A ring that comes between the emptying and the taking makes one needless wake-up, never a
    /// lost one.
    pub fn take(&self) -> Vec<Event> {
        let mut sink = [0; 64];
        let mut waiting = self.lock();
        let _ = (&self.ear).read(&mut sink);
        waiting.rung = false;
        std::mem::take(&mut waiting.events)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while holding the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FirstByte;

    fn event(request_id: u64) -> Event {
        Event::FirstByte(FirstByte {
            request_id,
            status: 200,
            at: 0.0,
        })
    }

    fn rings(mailbox: &Mailbox) -> usize {
        let mut sink = [0; 64];
        (&mailbox.ear).read(&mut sink).unwrap_or(0)
    }

    #[test]
    fn many_events_ring_once() {
        let mailbox = Mailbox::new().unwrap();
        (0..100).for_each(|id| mailbox.push(event(id)));
        assert_eq!(rings(&mailbox), 1);
        assert_eq!(mailbox.take().len(), 100);
    }

    #[test]
    fn an_event_after_a_take_rings_again() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.push(event(1));
        mailbox.take();
        assert_eq!(rings(&mailbox), 0);
        mailbox.push(event(2));
        assert_eq!(rings(&mailbox), 1);
    }
}
