//! A worker on loopback that reads strictly: a request that could be read in two ways, or that is not the one its id
//! stands for, ends the run.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::reading::{self, Next, Reader, Request};

/// Names the request; given by the owner, whatever the client sends under that name.
pub const ID: &str = "x-request-id";
/// Which of the answers is wanted; given by the owner.
pub const ANSWER: &str = "x-answer";

/// What a request must look like at the worker.
#[derive(Debug)]
pub struct Expected {
    pub method: String,
    pub path: String,
    pub query: String,
    pub body: Vec<u8>,
}

/// The requests that were sent on, by their ids.
pub type Ledger = Arc<Mutex<BTreeMap<u64, Expected>>>;

/// Whole answers first; then those after which the connection must end, by the worker or by the relay.
const ANSWERS: [&str; 12] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
     20\r\ndata: {\"usage\":{\"a\":1}}\n\ndata: \r\n8\r\n[DONE]\n\n\r\n0\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
    "",
];
/// How many of them leave the connection usable.
const KEPT: usize = 7;
/// One more: the request's body is the answer.
pub const CHOICES: usize = ANSWERS.len() + 1;

/// Begin to listen; connections are served in threads of their own.
pub fn start(ledger: Ledger) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for socket in listener.incoming() {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || serve(socket.expect("a connection"), address, &ledger));
        }
    });
    address
}

fn serve(mut socket: TcpStream, address: SocketAddr, ledger: &Ledger) {
    socket.set_nodelay(true).expect("an open socket");
    let (mut received, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match reading::next(&received, Reader::Strict) {
            Next::Request(request, length) => {
                received.drain(..length);
                check(&request, address, ledger);
                if !answer(&mut socket, &request) {
                    return;
                }
            }
            Next::Unreadable => panic!("no worker would read {:?}", String::from_utf8_lossy(&received)),
            Next::Incomplete => match socket.read(&mut piece) {
                // The relay may leave within a request: its client did.
                Ok(0) | Err(_) => return,
                Ok(count) => received.extend_from_slice(&piece[..count]),
            },
        }
    }
}

fn check(request: &Request, address: SocketAddr, ledger: &Ledger) {
    for name in [
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "keep-alive",
        "proxy-authorization",
    ] {
        assert!(
            request.all(name.as_bytes()).is_empty(),
            "{name} concerns one connection: {request:?}"
        );
    }
    assert_eq!(request.all(b"host"), [address.to_string().as_bytes()], "{request:?}");
    let ledger = ledger.lock().expect("nothing panics while holding it");
    let expected = ledger
        .get(&number(request, ID))
        .unwrap_or_else(|| panic!("nobody sent {request:?}"));
    assert_eq!(request.method, expected.method.as_bytes(), "{expected:?}");
    let (path, query) = request.origin().unwrap_or_else(|| panic!("no path in {request:?}"));
    assert_eq!((path, query), (expected.path.as_bytes(), expected.query.as_bytes()));
    assert_eq!(request.body, expected.body, "{expected:?}");
}

/// The one header of that name.
fn number(request: &Request, name: &str) -> u64 {
    let values = request.all(name.as_bytes());
    let [value] = values[..] else {
        panic!("not one {name} in {request:?}");
    };
    let text = std::str::from_utf8(value).ok();
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no number as {name} in {request:?}"))
}

/// False if the connection is to end.
fn answer(socket: &mut TcpStream, request: &Request) -> bool {
    let choice = usize::try_from(number(request, ANSWER)).expect("an index");
    let bytes = ANSWERS
        .get(choice)
        .map_or(request.body.as_slice(), |text| text.as_bytes());
    // An answer to HEAD has a head alone.
    let head = bytes
        .windows(4)
        .rposition(|window| window == b"\r\n\r\n")
        .map(|at| at + 4);
    let bytes = head
        .filter(|_| request.method == b"HEAD")
        .map_or(bytes, |end| &bytes[..end]);
    socket.write_all(bytes).is_ok() && choice < KEPT
}
