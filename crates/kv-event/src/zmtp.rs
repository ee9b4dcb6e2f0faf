//! `ZeroMQ`'s wire protocol as a subscriber speaks it: ZMTP 3.0 with the NULL mechanism, as of RFC 23 (and PING of RFC 37).
//!
//! Bytes in, messages and answers out; no sockets and no clock. libzmq does the same and much more, but a call for each
//! frame and a thread beside ours: with it a flood took 0.72 us of processor time per block and kept the router's loop
//! waiting for 7.6 ms in one of a hundred ticks; read here, on threads that give way, 0.60 us and 0.3 ms
//! (`bench/kv_ingest.py`, one core for the whole reader).

use std::ops::Range;

/// A frame longer than this is nobody's events; an engine's largest batches are a few megabytes.
const LONGEST_FRAME: u64 = 1 << 28;
/// Publishers send three.
const MOST_FRAMES: usize = 64;
const GREETING: usize = 64;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Why a peer cannot be understood; the connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotZmtp(pub String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    Handshake,
    Traffic,
}

/// The subscriber's end of one connection.
#[derive(Debug)]
pub struct Subscriber {
    topic: Vec<u8>,
    phase: Phase,
    /// Bytes that have come and are not all read; those before `at` are.
    bytes: Vec<u8>,
    at: usize,
    /// The frames of a message whose last one has not come yet.
    frames: Vec<Range<usize>>,
    /// What is to be sent.
    answers: Vec<u8>,
}

/// A multipart message, in the subscriber's own bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    bytes: &'a [u8],
    frames: Vec<Range<usize>>,
}

impl<'a> Message<'a> {
    /// Its frames in order; at least one.
    #[must_use]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + '_ {
        self.frames.iter().map(|frame| &self.bytes[frame.clone()])
    }
}

/// One frame: its flags and where its body lies.
struct Frame {
    flags: u8,
    body: Range<usize>,
}

impl Subscriber {
    /// A new connection, on which everything whose first frame begins with `topic` is asked for.
    #[must_use]
    pub fn new(topic: &[u8]) -> Self {
        Self {
            topic: topic.to_vec(),
            phase: Phase::Greeting,
            bytes: Vec::new(),
            at: 0,
            frames: Vec::new(),
            answers: greeting().to_vec(),
        }
    }

    /// Whether the peer has agreed to publish to us.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.phase == Phase::Traffic
    }

    /// Takes bytes in as they came from the peer.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.forget_read();
        self.bytes.extend_from_slice(bytes);
    }

    /// What is to be sent to the peer now.
    #[must_use]
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// Bytes that have come and belong to no message yet that was read.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next message; None until more bytes come. Commands are dealt with on the way.
    ///
    /// # Errors
    /// Where the peer does not speak this protocol; then nothing more can be read.
    pub fn next_message(&mut self) -> Result<Option<Message<'_>>, NotZmtp> {
        if self.phase == Phase::Greeting && !self.read_greeting()? {
            return Ok(None);
        }
        loop {
            let Some(frame) = self.read_frame()? else {
                return Ok(None);
            };
            if frame.flags & COMMAND != 0 {
                self.obey(&frame)?;
                continue;
            }
            if self.phase != Phase::Traffic {
                return Err(NotZmtp("a message before the handshake".to_owned()));
            }
            if self.frames.len() == MOST_FRAMES {
                return Err(NotZmtp("a message without end".to_owned()));
            }
            self.frames.push(frame.body);
            if frame.flags & MORE == 0 {
                let frames = std::mem::take(&mut self.frames);
                return Ok(Some(Message {
                    bytes: &self.bytes,
                    frames,
                }));
            }
        }
    }

    fn read_greeting(&mut self) -> Result<bool, NotZmtp> {
        let come = &self.bytes[..self.bytes.len().min(GREETING)];
        // The first and the tenth byte tell another protocol before 64 bytes have come.
        if come.first().is_some_and(|first| *first != 0xFF) || come.get(9).is_some_and(|tenth| *tenth != 0x7F) {
            return Err(NotZmtp("it does not speak ZeroMQ's protocol".to_owned()));
        }
        if come.get(10).is_some_and(|major| *major < 3) {
            return Err(NotZmtp(
                "it speaks a version of ZeroMQ's protocol before 3.0".to_owned(),
            ));
        }
        let Some(mechanism) = come.get(12..32).filter(|_| come.len() == GREETING) else {
            return Ok(false);
        };
        if mechanism != null_mechanism() {
            let name = String::from_utf8_lossy(mechanism).trim_end_matches('\0').to_owned();
            return Err(NotZmtp(format!(
                "it asks for the security mechanism {name:?}; only NULL is supported"
            )));
        }
        self.at = GREETING;
        self.phase = Phase::Handshake;
        self.answers.extend(ready());
        Ok(true)
    }

    fn read_frame(&mut self) -> Result<Option<Frame>, NotZmtp> {
        let come = &self.bytes[self.at..];
        let Some(&flags) = come.first() else {
            return Ok(None);
        };
        let (size, head) = if flags & LONG == 0 {
            (come.get(1).map(|size| u64::from(*size)), 2)
        } else {
            (come[1..].first_chunk().map(|size| u64::from_be_bytes(*size)), 9)
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || size.is_some_and(|size| size > LONGEST_FRAME) {
            return Err(NotZmtp("a frame that cannot be".to_owned()));
        }
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
            return Ok(None);
        };
        let body = self.at + head..self.at + head + size;
        if body.end > self.bytes.len() {
            return Ok(None);
        }
        self.at = body.end;
        Ok(Some(Frame { flags, body }))
    }

    fn obey(&mut self, frame: &Frame) -> Result<(), NotZmtp> {
        let body = &self.bytes[frame.body.clone()];
        let name = body
            .split_first()
            .and_then(|(length, rest)| rest.get(..*length as usize));
        match (name, self.phase) {
            (Some(b"READY"), Phase::Handshake) => {
                self.phase = Phase::Traffic;
                let subscription = subscription(&self.topic);
                self.answers.extend(subscription);
            }
            (Some(b"PING"), Phase::Traffic) => {
                // Name, two bytes of time to live, and a context that is sent back.
                let pong = [b"\x04PONG", body.get(7..).unwrap_or_default()].concat();
                self.answers.extend(short_frame(COMMAND, &pong));
            }
            (Some(b"ERROR"), _) => {
                let reason = String::from_utf8_lossy(body.get(7..).unwrap_or_default()).into_owned();
                return Err(NotZmtp(format!("it refuses: {reason}")));
            }
            // What is not known is passed over, as the protocol asks for.
            _ => {}
        }
        Ok(())
    }

    /// Drops what has been read, but for the frames of a message that is not complete.
    fn forget_read(&mut self) {
        let read = self.frames.first().map_or(self.at, |frame| frame.start);
        // Not for every call: what stays is moved.
        if read < self.bytes.len() / 2 {
            return;
        }
        self.bytes.drain(..read);
        self.at -= read;
        for frame in &mut self.frames {
            *frame = frame.start - read..frame.end - read;
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(1 << 20);
        }
    }
}

fn greeting() -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[0] = 0xFF;
    greeting[9] = 0x7F;
    greeting[10] = 3;
    greeting[12..32].copy_from_slice(&null_mechanism());
    greeting
}

fn null_mechanism() -> [u8; 20] {
    let mut name = [0; 20];
    name[..4].copy_from_slice(b"NULL");
    name
}

fn ready() -> Vec<u8> {
    short_frame(COMMAND, b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB")
}

/// Asks for a topic: in version 3.0 a message, one byte and the topic.
fn subscription(topic: &[u8]) -> Vec<u8> {
    let body = [b"\x01", topic].concat();
    if body.len() < 256 {
        return short_frame(0, &body);
    }
    [&[LONG][..], &(body.len() as u64).to_be_bytes(), &body].concat()
}

fn short_frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let size = u8::try_from(body.len().min(255)).unwrap_or(u8::MAX);
    [&[flags, size][..], &body[..usize::from(size)]].concat()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn peer_greeting() -> Vec<u8> {
        let mut greeting = greeting().to_vec();
        greeting[11] = 1;
        greeting
    }

    fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
        if body.len() < 256 {
            return short_frame(flags, body);
        }
        [&[flags | LONG][..], &(body.len() as u64).to_be_bytes(), body].concat()
    }

    fn message(frames: &[Vec<u8>]) -> Vec<u8> {
        let last = frames.len() - 1;
        let frames = frames.iter().enumerate();
        frames
            .flat_map(|(place, body)| frame(if place < last { MORE } else { 0 }, body))
            .collect()
    }

    fn opening() -> Vec<u8> {
        [
            peer_greeting(),
            short_frame(COMMAND, b"\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"),
        ]
        .concat()
    }

    fn read_all(subscriber: &mut Subscriber) -> Vec<Vec<Vec<u8>>> {
        let mut messages = Vec::new();
        while let Some(message) = subscriber.next_message().unwrap() {
            messages.push(message.frames().map(<[u8]>::to_vec).collect());
        }
        messages
    }

    #[test]
    fn the_handshake_asks_for_the_topic() {
        let mut subscriber = Subscriber::new(b"kv");
        assert_eq!(subscriber.take_answers(), greeting());
        subscriber.feed(&opening());
        assert!(!subscriber.is_subscribed());
        assert_eq!(subscriber.next_message(), Ok(None));
        assert!(subscriber.is_subscribed());
        assert_eq!(subscriber.take_answers(), [ready(), vec![0, 3, 1, b'k', b'v']].concat());
    }

    #[test]
    fn a_ping_is_answered_with_its_context() {
        let mut subscriber = Subscriber::new(b"");
        subscriber.feed(&opening());
        subscriber.feed(&short_frame(COMMAND, b"\x04PING\x00\x0acontext"));
        assert_eq!(read_all(&mut subscriber), Vec::<Vec<Vec<u8>>>::new());
        assert!(subscriber.take_answers().ends_with(b"\x04\x0c\x04PONGcontext"));
    }

    #[test]
    fn other_protocols_are_told_from_this_one_by_their_first_bytes() {
        for (bytes, reason) in [
            (&b"HTTP/1.1 400 Bad Request\r\n"[..], "does not speak"),
            (b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x01", "does not speak"),
            (b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01", "before 3.0"),
        ] {
            let mut subscriber = Subscriber::new(b"");
            subscriber.feed(bytes);
            let NotZmtp(said) = subscriber.next_message().unwrap_err();
            assert!(said.contains(reason), "{said}");
        }
        let mut curve = peer_greeting();
        curve[12..17].copy_from_slice(b"CURVE");
        let mut subscriber = Subscriber::new(b"");
        subscriber.feed(&curve);
        assert!(subscriber.next_message().unwrap_err().0.contains("CURVE"));
    }

    #[test]
    fn frames_that_cannot_be_are_refused_before_their_bytes_come() {
        for bytes in [&[0x80, 1][..], &[LONG, 0xFF, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 7]] {
            let mut subscriber = Subscriber::new(b"");
            let handshake = if bytes == [0, 1, 7] { peer_greeting() } else { opening() };
            subscriber.feed(&[&handshake, bytes].concat());
            assert!(subscriber.next_message().is_err(), "{bytes:?}");
        }
    }

    proptest! {
        /// However the stream is cut, the same messages come out, and nothing that was read is kept.
        #[test]
        fn messages_are_the_same_however_the_stream_is_cut(
            messages in vec(vec(vec(any::<u8>(), 0..700), 1..5), 0..20),
            cuts in vec(1..2_000_usize, 1..40),
        ) {
            let stream = [opening(), messages.iter().flat_map(|frames| message(frames)).collect()].concat();
            let mut subscriber = Subscriber::new(b"");
            let mut found = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                subscriber.feed(now);
                found.extend(read_all(&mut subscriber));
                rest = later;
            }
            prop_assert_eq!(found, messages);
            prop_assert_eq!(subscriber.waiting(), 0);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..500), greeted in any::<bool>()) {
            let mut subscriber = Subscriber::new(b"topic");
            if greeted {
                subscriber.feed(&opening());
            }
            subscriber.feed(&bytes);
            for _ in 0..600 {
                if !matches!(subscriber.next_message(), Ok(Some(_))) {
                    break;
                }
            }
        }
    }
}
