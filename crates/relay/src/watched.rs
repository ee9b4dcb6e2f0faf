//! A socket that tells when something has come from it, and fails when what is written to it does not go.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A socket that calls `heard` for all that it reads.
pub struct Watched<S, F> {
    socket: S,
    heard: F,
    /// How long nothing of what is to be written may go; forever if None.
    patience: Option<Duration>,
    /// Rings when that time is over; set while a write waits.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S, F: Fn()> Watched<S, F> {
    pub fn new(socket: S, heard: F) -> Self {
        Self {
            socket,
            heard,
            patience: None,
            alarm: None,
        }
    }

    /// Fail once nothing of what is to be written has gone for `patience`.
    pub fn with_write_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
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

impl<S: AsyncRead + Unpin, F: Fn() + Unpin> AsyncRead for Watched<S, F> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            (self.heard)();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, F: Fn() + Unpin> AsyncWrite for Watched<S, F> {
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
        self.watch_write(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
