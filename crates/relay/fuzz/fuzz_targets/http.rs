//! Any bytes from a client, in any pieces, and any answer of a worker: nothing panics, every arrival has one outcome,
//! nothing is in flight at the end, and what arrived and what the worker got are the requests that another reader finds
//! in these bytes, in their order.
//!
//! The input: what the owner does, which answer the worker gives, two lengths by which the rest is cut into pieces, and
//! the client's bytes. In these a byte from 0x80 on stands for a word of `words.rs`, and every third mutation adds words
//! in an order that makes sense, so that whole requests are found within seconds; 0xFF takes the byte after it as it is.

#![no_main]

mod reading;
mod words;
mod worker;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use reading::{Next, Reader, Request};
use relay::{Arrival, Event, Forwarding, Options, Relay};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use worker::{ANSWER, CHOICES, Expected, ID, Ledger};

/// Longest wait for something that must happen.
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };
/// Bytes of an input before the client's.
const SETUP: usize = 4;
/// Pieces that are sent apart; the others follow at once.
const APART: usize = 8;
/// Long enough for the relay to read what was sent.
const PAUSE: Duration = Duration::from_micros(50);
/// Requests that are remembered; a worker may still be reading one whose client has left.
const REMEMBERED: usize = 4096;

/// What the owner does with each arrival.
#[derive(Clone, Copy)]
enum Deed {
    Respond,
    Forward,
    /// Busy answers are held back and then passed on.
    PassOn,
    /// Busy answers are held back and then replaced.
    Replace,
    /// Nobody listens at the first worker.
    SecondTry,
}

/// A running relay, the worker behind it, and what is known of its requests.
struct Harness {
    relay: Relay,
    address: SocketAddr,
    worker: String,
    nobody: String,
    ledger: Ledger,
    /// Arrivals without an outcome.
    open: BTreeSet<u64>,
    /// Who sends the present input. A stream of HTTP/2 may still arrive when its connection is closed.
    client: Option<SocketAddr>,
    /// Arrivals of the present input, in their order.
    arrived: Vec<u64>,
}

/// One input.
struct Case {
    deed: Deed,
    answer: usize,
    pieces: [usize; 2],
    half_close: bool,
    bytes: Vec<u8>,
}

impl Case {
    fn read(input: &[u8]) -> Option<Self> {
        let [deed, answer, first, second, bytes @ ..] = input else {
            return None;
        };
        Some(Self {
            deed: [
                Deed::Respond,
                Deed::Forward,
                Deed::PassOn,
                Deed::Replace,
                Deed::SecondTry,
            ][usize::from(deed >> 1) % 5],
            answer: usize::from(*answer) % CHOICES,
            pieces: [usize::from(*first), usize::from(*second)],
            half_close: deed & 1 == 0,
            bytes: words::spelled(bytes),
        })
    }

    /// The client's bytes, cut by the two lengths in turn; 0 cuts no more.
    fn cut(&self) -> Vec<&[u8]> {
        let (mut pieces, mut rest) = (Vec::new(), self.bytes.as_slice());
        while !rest.is_empty() {
            let length = self.pieces[pieces.len() % 2];
            let length = if length == 0 || pieces.len() == APART {
                rest.len()
            } else {
                length.min(rest.len())
            };
            let (piece, others) = rest.split_at(length);
            pieces.push(piece);
            rest = others;
        }
        pieces
    }
}

impl Harness {
    fn new(half_close: bool) -> Self {
        let relay = Relay::new(options(half_close)).expect("threads");
        let address = relay.listen("127.0.0.1", 0, "fuzz").expect("a port");
        let ledger: Ledger = Arc::default();
        let worker = format!("http://{}", worker::start(Arc::clone(&ledger)));
        let unused = TcpListener::bind("127.0.0.1:0").expect("a port");
        let nobody = format!("http://{}", unused.local_addr().expect("an address"));
        let (open, arrived) = (BTreeSet::new(), Vec::new());
        Self {
            relay,
            address,
            worker,
            nobody,
            ledger,
            open,
            client: None,
            arrived,
        }
    }

    fn run(&mut self, case: &Case) {
        self.arrived.clear();
        let mut client = TcpStream::connect(self.address).expect("the relay listens");
        self.client = client.local_addr().ok();
        client.set_nodelay(true).expect("an open socket");
        client.set_nonblocking(true).expect("an open socket");
        for piece in case.cut() {
            // The relay may have had enough; what it made of the rest is known from what arrived.
            if client.write_all(piece).is_err() {
                break;
            }
            thread::sleep(PAUSE);
            self.react(case);
        }
        // Fails where the relay has closed already.
        let _ = client.shutdown(Shutdown::Write);
        while !is_over(&mut client) {
            self.wait_for(Some(&client));
            self.react(case);
        }
        drop(client);
        while self.react(case) || !self.open.is_empty() || self.relay.in_flight() > 0 {
            if !self.open.is_empty() {
                self.wait_for(None);
            }
        }
        self.compare(case);
        self.forget();
    }

    /// Wait until there are events, or bytes for `client`.
    fn wait_for(&self, client: Option<&TcpStream>) {
        let bell = self.relay.fd();
        let sources = [Some(bell), client.map(AsFd::as_fd)].into_iter().flatten();
        let mut sources: Vec<PollFd<'_>> = sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // The fuzzer's own timer may interrupt a wait.
        let ready = retry_on_intr(|| poll(&mut sources, Some(&PATIENCE))).expect("descriptors that are open");
        assert!(ready > 0, "nothing happens while {:?} are open", self.open);
    }

    /// Take all events and act on them; false if there were none.
    fn react(&mut self, case: &Case) -> bool {
        let events = self.relay.take_events();
        for event in &events {
            match event {
                Event::Arrival(arrival) => self.arrive(arrival, case),
                Event::AttemptFailed(failed) if failed.status.is_some() && matches!(case.deed, Deed::PassOn) => {
                    self.relay.pass_on(failed.request_id);
                }
                Event::AttemptFailed(failed) if failed.message.contains(self.nobody.trim_start_matches("http://")) => {
                    self.forward(failed.request_id, &self.worker, case);
                }
                Event::AttemptFailed(failed) => self.respond(failed.request_id, 502),
                Event::FirstByte(_) => {}
                Event::Outcome(outcome) => {
                    let known = self.open.remove(&outcome.request_id);
                    // Of what never arrived there is an outcome as well.
                    assert!(known || !outcome.forwarded, "ended twice, or never began: {outcome:?}");
                    assert!(
                        known || !self.arrived.contains(&outcome.request_id),
                        "ended twice: {outcome:?}"
                    );
                }
            }
        }
        !events.is_empty()
    }

    fn arrive(&mut self, arrival: &Arrival, case: &Case) {
        let id = arrival.request_id;
        let expected = Expected {
            method: arrival.method.to_string(),
            path: arrival.path.clone(),
            query: arrival.query.clone(),
            body: arrival.body.to_vec(),
        };
        let before = self
            .ledger
            .lock()
            .expect("nothing panics while holding it")
            .insert(id, expected);
        assert!(before.is_none() && self.open.insert(id), "request {id} arrived twice");
        if Some(arrival.client) == self.client {
            self.arrived.push(id);
        }
        match case.deed {
            Deed::Respond => self.respond(id, 200),
            Deed::SecondTry => self.forward(id, &self.nobody, case),
            Deed::Forward | Deed::PassOn | Deed::Replace => self.forward(id, &self.worker, case),
        }
    }

    fn forward(&self, id: u64, worker: &str, case: &Case) {
        let hold: &[u16] = if matches!(case.deed, Deed::PassOn | Deed::Replace) {
            &[429, 503]
        } else {
            &[]
        };
        let headers = [(ID, id.to_string()), (ANSWER, case.answer.to_string())];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.into_bytes()));
        let forwarding = Forwarding {
            request_headers: &headers,
            hold,
            ..Forwarding::to(worker)
        };
        self.relay.forward(id, &forwarding).expect("headers that can be sent");
    }

    fn respond(&self, id: u64, status: u16) {
        self.relay
            .respond(id, status, &[], "own".into())
            .expect("an answer that can be sent");
    }

    /// What arrived must be among the requests that the bytes hold, in the same order.
    fn compare(&self, case: &Case) {
        if case.bytes.starts_with(words::PREFACE) {
            return; // HTTP/2: the worker compares what it gets with what arrived
        }
        let ledger = self.ledger.lock().expect("nothing panics while holding it");
        let (mut rest, mut at) = (case.bytes.as_slice(), 0);
        while let Next::Request(request, length) = reading::next(rest, Reader::Lenient) {
            rest = &rest[length..];
            let arrival = self.arrived.get(at).map(|id| &ledger[id]);
            at += usize::from(arrival.is_some_and(|arrival| is_same(&request, arrival)));
        }
        let unread: Vec<_> = self.arrived[at..].iter().map(|id| &ledger[id]).collect();
        assert!(
            unread.is_empty(),
            "{unread:?} arrived from {:?}",
            String::from_utf8_lossy(&case.bytes)
        );
    }

    fn forget(&self) {
        let mut ledger = self.ledger.lock().expect("nothing panics while holding it");
        while ledger.len() > REMEMBERED {
            ledger.pop_first();
        }
    }
}

fn options(half_close: bool) -> Options {
    let long = Duration::from_secs(60);
    Options {
        threads: 1,
        // Small enough to be exceeded.
        max_body_bytes: 600,
        max_held_bytes: 700,
        connect_timeout: long,
        first_byte_timeout: long,
        idle_timeout: long,
        pool_idle: long,
        head_timeout: long,
        min_body_rate: 1,
        client_idle: long,
        client_write_timeout: long,
        half_close,
        h2_streams: 4,
        h2_ping: long,
    }
}

/// Read what has come for the client; whether the relay has closed the connection.
fn is_over(client: &mut TcpStream) -> bool {
    let mut piece = [0; 16 * 1024];
    loop {
        match client.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
}

fn is_same(request: &Request, arrival: &Expected) -> bool {
    let same_target = request
        .origin()
        .is_none_or(|origin| origin == (arrival.path.as_bytes(), arrival.query.as_bytes()));
    same_target && request.method == arrival.method.as_bytes() && request.body == arrival.body
}

thread_local! {
    /// One for each way of half-closing.
    static HARNESSES: RefCell<BTreeMap<bool, Harness>> = RefCell::default();
}

fuzz_target!(|input: &[u8]| {
    if let Some(case) = Case::read(input) {
        HARNESSES.with_borrow_mut(|all| {
            let harness = all
                .entry(case.half_close)
                .or_insert_with(|| Harness::new(case.half_close));
            harness.run(&case);
        });
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let words = words::sensible(seed);
    if seed % 3 > 0 || size < SETUP || size + words.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    // The present bytes between two of which they come; often at the end.
    let at = (seed as usize / 3 % (2 * size)).clamp(SETUP, size);
    data.copy_within(at..size, at + words.len());
    data[at..at + words.len()].copy_from_slice(&words);
    size + words.len()
});
