//! Connections to workers, kept alive between requests.
//!
//! A pool of our own, for two things that the general one hides: whether a connection was used before and whether
//! anything came back on it. A request may be sent a second time only on a new connection after silence on an old one.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::event::Failure;
use crate::options::Options;
use crate::shared::lock;
use crate::target::Target;
use crate::tls::{ClientTls, Socket};
use crate::upstream::AttemptError;
use crate::watched::Watched;

/// A connection to a worker. Dropped together with the answer that comes on it, it closes its socket at once.
pub struct Connection {
    pub sender: SendRequest<Full<Bytes>>,
    key: Key,
    /// Something came back since the last question.
    heard: Arc<AtomicBool>,
}

impl Connection {
    /// Forget what has been heard so far: the next question is about to be sent.
    pub fn about_to_ask(&self) {
        self.heard.store(false, Ordering::Release);
    }

    pub fn heard_anything(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }
}

/// Bytes that a worker sends after the end of an answer, wrongly, would be taken for the next one's. On a connection that
/// rests for a moment they are seen for what they are, and end it.
const REST: Duration = Duration::from_millis(5);
/// Connections looked at for one that has rested.
const MOST_LOOKED_AT: usize = 64;

struct Idle {
    connection: Connection,
    since: Instant,
}

/// Idle connections by authority, those over TLS apart; the most recently used last.
pub struct Pool {
    options: Options,
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
    /// For workers at `https://`.
    pub tls: ClientTls,
}

/// Whether over TLS, and the authority.
type Key = (bool, HeaderValue);

impl Pool {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            idle: Mutex::default(),
            tls: ClientTls::default(),
        }
    }

    /// The most recently used connection that is fit for a request, of those that have rested where there is one. Looks
    /// no further than it must: the many behind are older, and swept when they are too old.
    pub fn take(&self, target: &Target) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        let connections = idle.get_mut(&target.key())?;
        let (now, mut unrested) = (Instant::now(), None);
        for at in (0..connections.len()).rev().take(MOST_LOOKED_AT) {
            let candidate = &connections[at];
            if !self.is_fresh(candidate) {
                connections.remove(at);
                unrested = unrested.map(|later: usize| later - 1);
            // One that is not ready has not quite finished its last exchange; it will have by the next time.
            } else if candidate.connection.sender.is_ready() {
                if now - candidate.since >= REST {
                    return Some(connections.remove(at).connection);
                }
                unrested.get_or_insert(at);
            }
        }
        unrested.map(|at| connections.remove(at).connection)
    }

    /// Keep a connection whose answer has been read to its end.
    pub fn put(&self, connection: Connection) {
        if !connection.sender.is_closed() {
            let idle = Idle {
                connection,
                since: Instant::now(),
            };
            lock(&self.idle)
                .entry(idle.connection.key.clone())
                .or_default()
                .push(idle);
        }
    }

    /// Close what has been idle for too long.
    pub fn sweep(&self) {
        let mut idle = lock(&self.idle);
        idle.retain(|_, connections| {
            connections.retain(|idle| self.is_fresh(idle));
            !connections.is_empty()
        });
    }

    fn is_fresh(&self, idle: &Idle) -> bool {
        !idle.connection.sender.is_closed() && idle.since.elapsed() < self.options.pool_idle
    }

    async fn open(&self, target: &Target) -> io::Result<Socket> {
        let socket = TcpStream::connect((target.host.as_str(), target.port)).await?;
        socket.set_nodelay(true)?;
        if target.secure {
            self.tls.connect(&target.host, socket).await
        } else {
            Ok(Socket::Plain(socket))
        }
    }

    /// Open a new connection.
    pub async fn connect(&self, target: &Target) -> Result<Connection, AttemptError> {
        let socket = match timeout(self.options.connect_timeout, self.open(target)).await {
            Ok(opened) => opened.map_err(|error| not_connected(&error))?,
            Err(_) => return Err(not_connected(&io::ErrorKind::TimedOut.into())),
        };
        let heard = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&heard);
        let io = TokioIo::new(Watched::new(socket, move || {
            flag.store(true, Ordering::Release);
        }));
        let (sender, driver) = http1::handshake(io)
            .await
            .map_err(|error| AttemptError::reset(&error))?;
        // Its errors reach the request they concern; on an idle connection they only mean that it is closed.
        tokio::spawn(async move { driver.await.unwrap_or_default() });
        Ok(Connection {
            sender,
            key: target.key(),
            heard,
        })
    }
}

fn not_connected(error: &io::Error) -> AttemptError {
    let failure = match Errno::from_io_error(error) {
        // This process is out of descriptors, ports or buffers.
        Some(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM) => Failure::NoSocket,
        _ if error.kind() == io::ErrorKind::TimedOut => Failure::ConnectTimeout,
        _ => Failure::Refused,
    };
    AttemptError {
        failure,
        message: format!("cannot connect: {error}"),
    }
}
