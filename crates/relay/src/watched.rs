//! A socket that tells when something has come from it, and fails when what is written to it does not go, or when its
//! peer leaves while nobody reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What is read ahead at most; behind more of it an end is not seen.
const MOST_AHEAD: usize = 64 * 1024;

/// A socket that calls `heard` for all that it reads.
pub struct Watched<S, F> {
    socket: S,
    heard: F,
    /// How long nothing of what is to be written may go; forever if None.
    patience: Option<Duration>,
    /// Rings when that time is over; set while a write waits.
    alarm: Option<Pin<Box<Sleep>>>,
    /// What has come while nobody read. None where nobody looks for the end.
    ahead: Option<BytesMut>,
    /// Somebody has waited for bytes since the last flush, and will see the end.
    awaited: bool,
}

impl<S, F: Fn()> Watched<S, F> {
    pub fn new(socket: S, heard: F) -> Self {
        Self {
            socket,
            heard,
            patience: None,
            alarm: None,
            ahead: None,
            awaited: false,
        }
    }

    /// Fail once nothing of what is to be written has gone for `patience`.
    pub fn with_write_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Fail once the peer has ended its sending side, also while nobody reads: a server that has bytes of a further
    /// request does not look at the socket before the one before is answered. It flushes whenever it is woken.
    pub fn with_eye_on_the_end(mut self, wanted: bool) -> Self {
        self.ahead = wanted.then(BytesMut::new);
        self
    }

    fn watch_write<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let Some(patience) = self.patience else {
            return written;
        };
        if written.is_ready() {
            self.alarm = None;
            return written;
        }
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin, F> Watched<S, F> {
    fn look_ahead(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let awaited = std::mem::take(&mut self.awaited);
        let Some(ahead) = self.ahead.as_mut().filter(|_| !awaited) else {
            return Ok(());
        };
        while ahead.len() < MOST_AHEAD {
            let mut room = [0; 1024];
            let mut read = ReadBuf::new(&mut room);
            match Pin::new(&mut self.socket).poll_read(cx, &mut read)? {
                Poll::Pending => break,
                Poll::Ready(()) if read.filled().is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(()) => ahead.extend_from_slice(read.filled()),
            }
            // Whoever waits for bytes after all must come for these.
            cx.waker().wake_by_ref();
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin, F: Fn() + Unpin> AsyncRead for Watched<S, F> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| !ahead.is_empty()) {
            let taken = ahead.len().min(buf.remaining());
            buf.put_slice(&ahead[..taken]);
            ahead.advance(taken);
        } else {
            let read = Pin::new(&mut self.socket).poll_read(cx, buf);
            self.awaited = read.is_pending();
            ready!(read)?;
        }
        if buf.filled().len() > before {
            (self.heard)();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, F: Fn() + Unpin> AsyncWrite for Watched<S, F> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.watch_write(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.watch_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.look_ahead(cx)?;
        self.watch_write(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
