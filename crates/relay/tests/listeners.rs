//! Several listeners with names, handed over to another relay and adopted from it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use support::{Client, Owned, Policy, on_arrival, options};

/// Every request is answered with the name of its listener.
fn naming() -> Policy {
    on_arrival(|relay, arrival| {
        let name = arrival.listener.to_string();
        relay.respond(arrival.request_id, 200, &[], name.into()).unwrap();
    })
}

fn ask(address: SocketAddr) -> String {
    let mut client = Client::connect(address);
    client.post("/", "");
    client.read_response().text().to_owned()
}

#[test]
fn each_arrival_names_its_listener() {
    let owned = Owned::new(options(), naming());
    let admin = owned.relay.listen("127.0.0.1", 0, "admin").unwrap();
    assert_eq!(
        (ask(owned.address), ask(admin)),
        ("traffic".to_owned(), "admin".to_owned())
    );
}

#[test]
fn another_relay_goes_on_with_the_sockets() {
    let old = Owned::new(options(), naming());
    old.relay.listen("127.0.0.1", 0, "admin").unwrap();
    let new = Owned::new(options(), naming());
    let mut names = Vec::new();
    for (name, descriptor) in old.relay.listeners().unwrap() {
        new.relay.listen_on(descriptor, &format!("new {name}")).unwrap();
        names.push(name);
    }
    assert_eq!(names, ["traffic", "admin"]);
    old.relay.close(Duration::ZERO);
    // Whoever of the two had accepted, none may be refused.
    for _ in 0..50 {
        assert_eq!(ask(old.address), "new traffic");
    }
    assert!(old.relay.listeners().unwrap().is_empty());
}

#[test]
fn one_that_stops_no_longer_listens() {
    let owned = Owned::new(options(), naming());
    owned.relay.stop_accepting();
    support::wait_until("refusal", || TcpStream::connect(owned.address).is_err());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(owned.relay.listen_on(listener.into(), "late").is_err());
}

#[test]
fn what_does_not_listen_is_not_adopted() {
    let owned = Owned::new(options(), naming());
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(owned.relay.listen_on(datagrams.into(), "x").is_err());
    let connected = TcpStream::connect(owned.address).unwrap();
    assert!(owned.relay.listen_on(connected.into(), "x").is_err());
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(owned.relay.listen_on(file.into(), "x").is_err());
    let (local, _) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(owned.relay.listen_on(local.into(), "x").is_err());
}
