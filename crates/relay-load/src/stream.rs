//! The body of an answer: whole, or chunk by chunk, each in a write of its own.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::answer::{Answer, Times};
use crate::tag::Pace;

/// What a worker sends back.
pub enum Sent {
    Whole(Option<Bytes>),
    Chunks(Box<Chunks>),
}

/// A stream on its way.
pub struct Chunks {
    answer: Answer,
    pace: Pace,
    next: u32,
    /// Whether the chunk before has been given time to be written.
    flushed: bool,
    due: Pin<Box<Sleep>>,
    interval: Duration,
}

impl Sent {
    pub fn whole(text: String) -> Self {
        Self::Whole(Some(text.into()))
    }

    pub fn stream(answer: Answer, pace: Pace) -> Self {
        let interval = if let Pace::Every(ms) = pace {
            Duration::from_millis(ms)
        } else {
            Duration::ZERO
        };
        Self::Chunks(Box::new(Chunks {
            answer,
            pace,
            next: 0,
            flushed: true,
            due: Box::pin(sleep_until(Instant::now())),
            interval,
        }))
    }
}

impl Chunks {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.next == self.answer.chunks {
            return Poll::Ready(None);
        }
        let times = match self.pace {
            Pace::Hold if self.next > 0 => return Poll::Pending,
            Pace::Hold => None,
            Pace::AtOnce => {
                // Pending once between two chunks: what was given is written, and other connections have their turn.
                if !self.flushed {
                    self.flushed = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                self.flushed = false;
                None
            }
            Pace::Every(_) => {
                if self.due.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                Some(self.step())
            }
        };
        let chunk = self.answer.chunk(self.next, times);
        self.next += 1;
        Poll::Ready(Some(chunk.into()))
    }

    /// When this chunk was due, and the alarm for the next one.
    fn step(&mut self) -> Times {
        let due = self.due.deadline();
        self.due.as_mut().reset(due + self.interval);
        let sent_us = now_us();
        let late = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
        Times {
            due_us: sent_us.saturating_sub(late),
            sent_us,
        }
    }
}

/// Microseconds since 1970, by which the processes of one machine agree.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Chunks(chunks) => chunks.poll_next(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Chunks(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}
