//! Opening the socket on which clients are awaited.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

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
