//! The bytes of an answer on their way to the client.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use memchr::memrchr2;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::dialect::Dialect;
use crate::event::End;
use crate::pool::Connection;
use crate::settlement::Settlement;
use crate::shared::Shared;
use crate::side_reader::SideReader;
use crate::upstream::Answered;

/// The worker failed within its answer, or the relay stops, and the client must see that the body is incomplete.
#[derive(Debug)]
pub struct CutShort;

impl std::fmt::Display for CutShort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the answer was cut short")
    }
}

impl std::error::Error for CutShort {}

/// The body of an answer: the owner's or a worker's. It holds the settlement of its request.
pub enum Answer {
    Own(Box<OwnBody>),
    Carried(Box<Carried>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        match self.get_mut() {
            Self::Own(own) => own.poll_frame(cx),
            Self::Carried(carried) => carried.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(own) => own.body.is_end_stream(),
            Self::Carried(carried) => carried.over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(own) => own.body.size_hint(),
            // A declared length is in the headers.
            Self::Carried(_) => SizeHint::default(),
        }
    }
}

/// An answer of the owner's own.
pub struct OwnBody {
    body: Full<Bytes>,
    settlement: Settlement,
    end: End,
}

impl OwnBody {
    /// `end` is how the request has ended once the body is handed over. Where the answer has no body on the wire (HEAD
    /// and some statuses) that is at once.
    pub fn new(body: Bytes, mut settlement: Settlement, end: End, bodiless: bool) -> Self {
        if bodiless || body.is_empty() {
            settlement.ended(end);
        }
        Self {
            body: Full::new(body),
            settlement,
            end,
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        self.settlement.asked();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.settlement.carried(frame.data_ref().map_or(0, Bytes::len));
            self.settlement.ended(self.end);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|never: Infallible| match never {})))
    }
}

/// A worker's answer: each chunk goes on as it comes, seen by the side reader.
pub struct Carried {
    incoming: Incoming,
    /// Returned to the pool when the answer is complete; dropped, and thereby closed, in every other case.
    connection: Option<Connection>,
    shared: Arc<Shared>,
    reader: SideReader,
    settlement: Settlement,
    dialect: Dialect,
    /// A declared length leaves no room for an error event.
    has_length: bool,
    over: bool,
    waiting: Waiting,
    /// The beginning of a line of events whose end has not come. Nobody can read half a line, and if the worker dies it
    /// must not stand before the error event.
    torn: BytesMut,
}

/// A longer line goes on unfinished.
const LONGEST_TORN: usize = 256 * 1024;

impl Carried {
    pub fn new(shared: Arc<Shared>, answered: Answered, settlement: Settlement, dialect: Dialect) -> Self {
        let Answered { response, connection } = answered;
        let reader = SideReader::for_answer(response.headers());
        let has_length = response.headers().contains_key(CONTENT_LENGTH);
        let waiting = Waiting::new(shared.options.idle_timeout);
        let incoming = response.into_body();
        let connection = Some(connection);
        let mut carried = Self {
            incoming,
            connection,
            shared,
            reader,
            settlement,
            dialect,
            has_length,
            over: false,
            waiting,
            torn: BytesMut::new(),
        };
        if carried.incoming.is_end_stream() {
            carried.complete();
        }
        carried
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        self.settlement.asked();
        while !self.over {
            if self.shared.grace_is_over() {
                return self.cut_short(End::Shutdown);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
                ready!(self.waiting.poll_too_long(cx));
                return self.cut_short(End::WorkerFailed);
            };
            self.waiting.heard();
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(chunk))) => {
                    if let Some(ready) = self.pass_on(chunk) {
                        return Poll::Ready(Some(Ok(ready)));
                    }
                }
                Some(Ok(Err(_trailers))) => {}
                Some(Err(_)) => return self.cut_short(End::WorkerFailed),
                None => {
                    let rest = self.torn.split().freeze();
                    self.settlement.carried(rest.len());
                    self.complete();
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }

    /// What of the chunk, and of those before, can go on.
    fn pass_on(&mut self, chunk: Bytes) -> Option<Frame<Bytes>> {
        self.reader.push(&chunk);
        let last = self.incoming.is_end_stream();
        let ready = if last {
            self.with_torn(chunk)
        } else {
            self.whole_lines(chunk)
        };
        self.settlement.carried(ready.len());
        // The server does not ask again after the last byte of a declared length.
        if last {
            self.complete();
        }
        (!ready.is_empty()).then(|| Frame::data(ready))
    }

    fn whole_lines(&mut self, mut chunk: Bytes) -> Bytes {
        if self.has_length || self.reader.closing().is_none() {
            return chunk;
        }
        let end = memrchr2(b'\n', b'\r', &chunk).map_or(0, |at| at + 1);
        if end == 0 && self.torn.len() + chunk.len() > LONGEST_TORN {
            return self.with_torn(chunk);
        }
        let rest = chunk.split_off(end);
        let ready = if end == 0 { chunk } else { self.with_torn(chunk) };
        self.torn.extend_from_slice(&rest);
        ready
    }

    /// The chunk after what was held back before it.
    fn with_torn(&mut self, chunk: Bytes) -> Bytes {
        if self.torn.is_empty() {
            return chunk;
        }
        self.torn.extend_from_slice(&chunk);
        self.torn.split().freeze()
    }

    fn complete(&mut self) {
        self.over = true;
        self.reader.finish();
        self.settlement.ended(End::Completed);
        if let Some(connection) = self.connection.take() {
            self.shared.pool.put(connection);
        }
    }

    /// The worker failed or the relay stops: tell a reader of events so in the stream, break off anything else.
    fn cut_short(&mut self, end: End) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        self.over = true;
        self.connection = None;
        self.settlement.ended(end);
        let closing = if self.torn.is_empty() {
            self.reader.closing()
        } else {
            self.reader.closing_of_lines()
        };
        match closing {
            Some(closing) if !self.has_length => {
                let event = Bytes::from(format!("{closing}{}", self.dialect.error_event(end)));
                self.settlement.carried(event.len());
                Poll::Ready(Some(Ok(Frame::data(event))))
            }
            _ => Poll::Ready(Some(Err(CutShort))),
        }
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.settlement.tokens(self.reader.usage(), self.reader.events());
    }
}

/// How long the worker has been silent while somebody waited for it; a client that does not read is no silence.
struct Waiting {
    patience: Duration,
    since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Waiting {
    fn new(patience: Duration) -> Self {
        Self {
            patience,
            since: None,
            alarm: None,
        }
    }

    fn heard(&mut self) {
        self.since = None;
    }

    /// Ready when the silence has lasted too long. The alarm is set anew only when it rings, not for each chunk.
    fn poll_too_long(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = *self.since.get_or_insert_with(Instant::now) + self.patience;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(alarm.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(deadline);
        }
    }
}
