//! Opening the socket on which clients are awaited.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::shared::lock;

/// Connections that wait for the accepting thread; the kernel may allow fewer.
const BACKLOG: i32 = 4096;
/// A client that vanished without a word (power, network) is noticed after some minutes instead of never.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Listen on the first usable address of `host`: a literal (IPv6 also in brackets) or a name, of which IPv4 addresses
/// come first.
pub fn open(host: &str, port: u16) -> io::Result<TcpListener> {
    let bare = host.trim_matches(['[', ']']);
    let mut addresses: Vec<SocketAddr> = (bare, port).to_socket_addrs()?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let mut failed = io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{host} has no address"));
    for address in addresses {
        match open_address(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn open_address(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // So that a restarted router need not wait for the old connections to time out.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Take over a socket that listens already, as one that was inherited or handed over by another process.
pub fn adopt(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let socket = Socket::from(descriptor);
    if !socket.is_listener()? || socket.local_addr()?.as_socket().is_none() {
        let message = "the descriptor is no socket that listens on an internet address";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Where a request comes from.
#[derive(Clone)]
pub struct Origin {
    pub client: SocketAddr,
    /// Name of the listener.
    pub listener: Arc<str>,
    /// `http` or `https`.
    pub scheme: &'static str,
}

/// The sockets that listen, by name, for handing them over. Cleared when no more connections are taken: the kernel
/// refuses new ones only once the last descriptor is closed.
#[derive(Default)]
pub struct Listeners(Mutex<Vec<(Arc<str>, TcpListener)>>);

impl Listeners {
    pub fn add(&self, name: Arc<str>, listener: &TcpListener) -> io::Result<()> {
        let duplicate = listener.try_clone()?;
        lock(&self.0).push((name, duplicate));
        Ok(())
    }

    pub fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Names and duplicates, in the order in which they began to listen.
    pub fn duplicates(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let listeners = lock(&self.0);
        let duplicates = listeners
            .iter()
            .map(|(name, listener)| Ok((name.to_string(), listener.try_clone()?.into())));
        duplicates.collect()
    }
}

/// Set up a client's connection: small chunks leave at once, a dead peer is noticed.
pub fn prepare(socket: &tokio::net::TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn chunks_of_a_client_connection_leave_at_once() {
        let listener = open("127.0.0.1", 0).unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        prepare(&socket).unwrap();
        assert!(socket.nodelay().unwrap());
        assert!(SockRef::from(&socket).keepalive().unwrap());
        drop(client);
    }
}
