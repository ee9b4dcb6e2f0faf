//! A relay with an owner, raw workers and raw clients: everything on the wire is written and read byte by byte.
#![allow(dead_code)] // each test file uses its part

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use relay::{Arrival, AttemptFailed, Event, Forwarding, Options, Outcome, Relay};

/// Longest wait for something that must happen.
pub const SOON: Duration = Duration::from_secs(5);

pub fn options() -> Options {
    Options {
        threads: 2,
        max_body_bytes: 1 << 20,
        connect_timeout: Duration::from_secs(2),
        first_byte_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(10),
        pool_idle: Duration::from_secs(4),
        head_timeout: Duration::from_secs(10),
        client_idle: Duration::from_secs(10),
        max_held_bytes: 1 << 30,
        min_body_rate: 1,
        client_write_timeout: Duration::from_secs(10),
        half_close: false,
        h2_streams: 100,
        h2_ping: Duration::from_secs(10),
    }
}

/// What the owner does about an event.
pub type Policy = Box<dyn Fn(&Relay, &Event) + Send>;

/// A listening relay whose owner runs in a thread and keeps every event.
pub struct Owned {
    pub relay: Arc<Relay>,
    pub address: SocketAddr,
    pub log: Arc<Mutex<Vec<Event>>>,
    stop: Arc<AtomicBool>,
    owner: Option<JoinHandle<()>>,
}

impl Owned {
    pub fn new(options: Options, policy: Policy) -> Self {
        let relay = Arc::new(Relay::new(options).unwrap());
        let address = relay.listen("127.0.0.1", 0, "traffic").unwrap();
        let (log, stop) = (Arc::default(), Arc::default());
        let owner = spawn_owner(relay.clone(), policy, Arc::clone(&log), Arc::clone(&stop));
        Self {
            relay,
            address,
            log,
            stop,
            owner: Some(owner),
        }
    }

    /// Every request goes to `worker`; if that fails it is answered with 502.
    pub fn forwarding(options: Options, worker: &Worker) -> Self {
        Self::new(options, forward_to(vec![worker.url()]))
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn outcomes(&self) -> Vec<Outcome> {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter_map(|event| {
                if let Event::Outcome(o) = event {
                    Some((**o).clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn failures(&self) -> Vec<AttemptFailed> {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter_map(|event| {
                if let Event::AttemptFailed(f) = event {
                    Some(f.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn arrivals(&self) -> usize {
        self.arrived().len()
    }

    pub fn arrived(&self) -> Vec<u64> {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter_map(|event| {
                if let Event::Arrival(a) = event {
                    Some(a.request_id)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Wait for the first `count` outcomes.
    pub fn await_outcomes(&self, count: usize) -> Vec<Outcome> {
        wait_until("outcomes", || self.outcomes().len() >= count);
        self.outcomes()
    }

    pub fn await_outcome(&self) -> Outcome {
        self.await_outcomes(1).remove(0)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Elsewhere, since a thread of an asynchronous test must not wait.
        let relay = Arc::clone(&self.relay);
        thread::spawn(move || relay.close(Duration::ZERO)).join().unwrap();
        self.stop.store(true, Ordering::Release);
        if let Some(owner) = self.owner.take() {
            owner.join().unwrap();
        }
    }
}

fn spawn_owner(
    relay: Arc<Relay>,
    policy: Policy,
    log: Arc<Mutex<Vec<Event>>>,
    stop: Arc<AtomicBool>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        while !stop.load(Ordering::Acquire) {
            let events = relay.take_events();
            // Kept before it is acted on: whoever sees the effect finds the cause.
            let mut log = log.lock().unwrap();
            let kept = log.len();
            log.extend(events);
            log[kept..].iter().for_each(|event| policy(&relay, event));
            drop(log);
            thread::sleep(Duration::from_millis(1));
        }
    })
}

/// Forward to the first URL; after each failed attempt to the next one; then answer with 502.
pub fn forward_to(urls: Vec<String>) -> Policy {
    let attempts: Mutex<std::collections::HashMap<u64, usize>> = Mutex::default();
    Box::new(move |relay, event| {
        let id = match event {
            Event::Arrival(arrival) => arrival.request_id,
            Event::AttemptFailed(failed) => failed.request_id,
            _ => return,
        };
        let mut attempts = attempts.lock().unwrap();
        let attempt = attempts.entry(id).or_default();
        match urls.get(*attempt) {
            Some(url) => relay.forward(id, &Forwarding::to(url)).unwrap(),
            None => relay.respond(id, 502, &[], "no worker".into()).unwrap(),
        }
        *attempt += 1;
    })
}

pub fn on_arrival(act: impl Fn(&Relay, &Arrival) + Send + 'static) -> Policy {
    Box::new(move |relay, event| {
        if let Event::Arrival(arrival) = event {
            act(relay, arrival);
        }
    })
}

pub fn pair(name: &str, value: &str) -> (String, Vec<u8>) {
    (name.to_owned(), value.as_bytes().to_vec())
}

pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !happened() {
        assert!(Instant::now() < deadline, "no {what} in time");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A worker made of bytes: each connection is handed to a function, in a thread of its own.
pub struct Worker {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
}

impl Worker {
    /// `serve` gets each connection and its number, from 0.
    pub fn new(serve: impl Fn(Wire, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counter, serve) = (Arc::clone(&connections), Arc::new(serve));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let number = counter.fetch_add(1, Ordering::AcqRel);
                let (wire, serve) = (Wire::new(socket.unwrap()), Arc::clone(&serve));
                thread::spawn(move || serve(wire, number));
            }
        });
        Self { address, connections }
    }

    /// Every request gets `answer`, on connections that stay open.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |mut wire, _| {
            while wire.read_request().is_some() {
                wire.send(&answer);
            }
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }
}

/// A worker that keeps the requests it gets and answers each with "ok".
pub fn recording() -> (Worker, Arc<Mutex<Vec<Message>>>) {
    let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let worker = Worker::new(move |mut wire, _| {
        while let Some(request) = wire.read_request() {
            kept.lock().unwrap().push(request);
            wire.send(answer("", "ok"));
        }
    });
    (worker, seen)
}

/// A URL on which nobody listens.
pub fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A message as it was on the wire.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub start: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body ended as announced.
    pub complete: bool,
}

impl Message {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// One end of a connection.
pub struct Wire {
    pub socket: TcpStream,
    /// A write has failed.
    pub broken: bool,
    buffer: Vec<u8>,
}

pub type Client = Wire;

impl Wire {
    pub fn new(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        Self {
            socket,
            broken: false,
            buffer: Vec::new(),
        }
    }

    pub fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).unwrap())
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may be gone; what matters then is asserted elsewhere.
        self.broken |= self.socket.write_all(bytes.as_ref()).is_err();
    }

    pub fn post(&mut self, path: &str, body: &str) {
        self.send(format!(
            "POST {path} HTTP/1.1\r\nHost: router\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }

    pub fn chunk(&mut self, data: &[u8]) {
        self.send([format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat());
    }

    /// Read more into the buffer; false at the end of the stream or when the connection broke.
    pub fn fill(&mut self) -> bool {
        let mut piece = [0; 8192];
        match self.socket.read(&mut piece) {
            Ok(0) => false,
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!(
                    "nothing came in time; so far: {:?}",
                    String::from_utf8_lossy(&self.buffer)
                )
            }
            Err(_) => false,
        }
    }

    /// The other side closes before it sends anything more.
    pub fn sees_close_within(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        self.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut piece = [0; 4096];
        while Instant::now() < deadline {
            match self.socket.read(&mut piece) {
                Ok(0) => return true,
                Ok(_) => return false,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return true,
            }
        }
        false
    }

    /// Read until `text` is in the buffer, and drop it with what is before.
    pub fn read_past(&mut self, text: &str) {
        loop {
            if let Some(at) = find(&self.buffer, text.as_bytes()) {
                self.buffer.drain(..at + text.len());
                return;
            }
            assert!(
                self.fill(),
                "the stream ended before {text:?}: {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
        }
    }

    fn read_head(&mut self) -> Option<Message> {
        let end = loop {
            match find(&self.buffer, b"\r\n\r\n") {
                Some(end) => break end,
                None if !self.fill() => return None,
                None => {}
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let head = String::from_utf8(head[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap().to_owned();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(n, v)| (n.to_owned(), v.to_owned()));
        Some(Message {
            start,
            headers: headers.collect(),
            ..Message::default()
        })
    }

    /// A request; None if the connection ended before one.
    pub fn read_request(&mut self) -> Option<Message> {
        let message = self.read_head()?;
        Some(self.read_body(message, false))
    }

    /// An answer to a request with a body.
    pub fn read_response(&mut self) -> Message {
        let message = self.read_head().expect("no answer");
        self.read_body(message, true)
    }

    /// An answer that has no body whatever its headers say.
    pub fn read_bodiless(&mut self) -> Message {
        self.read_head().expect("no answer")
    }

    pub fn try_read_response(&mut self) -> Option<Message> {
        let message = self.read_head()?;
        Some(self.read_body(message, true))
    }

    fn read_body(&mut self, mut message: Message, until_close: bool) -> Message {
        if message.header("transfer-encoding").is_some() {
            self.read_chunks(&mut message);
        } else if let Some(length) = message
            .header("content-length")
            .map(|length| length.parse::<usize>().unwrap())
        {
            while self.buffer.len() < length && self.fill() {}
            let take = length.min(self.buffer.len());
            message.body = self.buffer.drain(..take).collect();
            message.complete = take == length;
        } else if until_close && !matches!(message.status(), 204 | 304) {
            while self.fill() {}
            message.body = std::mem::take(&mut self.buffer);
            message.complete = true;
        }
        message
    }

    fn read_chunks(&mut self, message: &mut Message) {
        loop {
            let Some(end) = self.find_filling(b"\r\n") else {
                return;
            };
            let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..end]).unwrap(), 16).unwrap();
            while self.buffer.len() < end + size + 4 {
                if !self.fill() {
                    return;
                }
            }
            message.body.extend_from_slice(&self.buffer[end + 2..end + 2 + size]);
            self.buffer.drain(..end + size + 4);
            if size == 0 {
                message.complete = true;
                return;
            }
        }
    }

    fn find_filling(&mut self, text: &[u8]) -> Option<usize> {
        loop {
            match find(&self.buffer, text) {
                Some(at) => return Some(at),
                None if !self.fill() => return None,
                None => {}
            }
        }
    }

    /// Close so that the other side gets a reset instead of an end.
    pub fn reset(self) {
        socket2::SockRef::from(&self.socket)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }

    pub fn finish(self) {
        self.socket.shutdown(Shutdown::Both).unwrap_or_default();
    }
}

pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    (0..=haystack.len().checked_sub(needle.len())?).find(|&at| haystack[at..].starts_with(needle))
}

/// A whole answer with a length.
pub fn answer(headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
