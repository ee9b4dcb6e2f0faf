//! The queue of events and the descriptor that wakes its reader.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::event::Event;

/// How long what nobody waits for may lie. Where many requests are under way the next one wakes the reader before this is
/// over. Measured on one core with one connection this costs more than it saves: p50 204 us instead of 175.
const PATIENCE: Duration = Duration::from_millis(1);

/// Events for the owner. The descriptor is readable from the first event that is waited for until [`Mailbox::take`];
/// of those that are not, from `PATIENCE` on. All come in the order in which they were pushed.
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    bell: UnixStream,
    ear: UnixStream,
    patient: Notify,
    hurried: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    rung: bool,
    /// Whether [`Mailbox::ring_late`] is going to ring.
    soon: bool,
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
            patient: Notify::new(),
            hurried: AtomicBool::new(false),
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ear.as_fd()
    }

    /// Whether every event is waited for from now on.
    pub fn hurry(&self, on: bool) {
        self.hurried.store(on, Ordering::Relaxed);
    }

    pub fn push(&self, event: Event) {
        let urgent = event.is_waited_for() || self.hurried.load(Ordering::Relaxed);
        let mut waiting = self.lock();
        waiting.events.push(event);
        if waiting.rung {
            return;
        }
        if urgent {
            self.ring(waiting);
        } else if !std::mem::replace(&mut waiting.soon, true) {
            self.patient.notify_one();
        }
    }

    /// Rings for what was pushed without being waited for, for ever.
    pub async fn ring_late(&self) {
        loop {
            self.patient.notified().await;
            tokio::time::sleep(PATIENCE).await;
            let mut waiting = self.lock();
            waiting.soon = false;
            if !waiting.rung && !waiting.events.is_empty() {
                self.ring(waiting);
            }
        }
    }

    fn ring(&self, mut waiting: MutexGuard<'_, Waiting>) {
        waiting.rung = true;
        drop(waiting);
        // One byte at most waits per take, so the socket is never full; a reader that is gone needs no waking.
        let _ = (&self.bell).write(&[1]);
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
    use crate::event::{AttemptFailed, Failure, FirstByte};

    fn first_byte(request_id: u64) -> Event {
        Event::FirstByte(FirstByte {
            request_id,
            status: 200,
            at: 0.0,
        })
    }

    fn failed(request_id: u64) -> Event {
        Event::AttemptFailed(AttemptFailed {
            request_id,
            failure: Failure::Reset,
            message: String::new(),
            status: None,
            retry_after_s: None,
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
        (0..100).for_each(|id| mailbox.push(failed(id)));
        assert_eq!(rings(&mailbox), 1);
        assert_eq!(mailbox.take().len(), 100);
    }

    #[test]
    fn an_event_after_a_take_rings_again() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.push(failed(1));
        mailbox.take();
        assert_eq!(rings(&mailbox), 0);
        mailbox.push(failed(2));
        assert_eq!(rings(&mailbox), 1);
    }

    #[test]
    fn what_nobody_waits_for_is_taken_with_what_is_rung_for_in_the_order_of_their_coming() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.push(first_byte(1));
        assert_eq!(rings(&mailbox), 0);
        mailbox.push(failed(2));
        assert_eq!(rings(&mailbox), 1);
        let taken = mailbox.take();
        assert!(matches!(taken[..], [Event::FirstByte(_), Event::AttemptFailed(_)]));
    }

    #[test]
    fn in_a_hurry_everything_is_rung_for() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.hurry(true);
        mailbox.push(first_byte(1));
        assert_eq!(rings(&mailbox), 1);
        mailbox.take();
        mailbox.hurry(false);
        mailbox.push(first_byte(2));
        assert_eq!(rings(&mailbox), 0);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_rung_for_late_and_once() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.push(first_byte(1));
        mailbox.push(first_byte(2));
        let late = tokio::time::timeout(20 * PATIENCE, mailbox.ring_late()).await;
        assert!(late.is_err(), "it rings for ever");
        assert_eq!(rings(&mailbox), 1);
        assert_eq!(mailbox.take().len(), 2);
        mailbox.push(first_byte(3));
        mailbox.take();
        assert!(tokio::time::timeout(20 * PATIENCE, mailbox.ring_late()).await.is_err());
        assert_eq!(rings(&mailbox), 0, "it has been taken already");
    }
}
