//! `ZeroMQ`'s wire protocol as a publisher and a router speak it: ZMTP 3.0 with the NULL mechanism (RFC 23).

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::holdings::SharedHoldings;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
const LONGEST_FRAME: u64 = 1 << 20;

/// A message of several frames as it goes over the wire.
pub fn message(frames: &[&[u8]]) -> Bytes {
    let mut wire = Vec::with_capacity(frames.iter().map(|frame| frame.len() + 9).sum());
    for (number, frame) in frames.iter().enumerate() {
        let more = if number + 1 < frames.len() { MORE } else { 0 };
        if let Ok(short) = u8::try_from(frame.len()) {
            wire.extend_from_slice(&[more, short]);
        } else {
            wire.push(more | LONG);
            wire.extend_from_slice(&(frame.len() as u64).to_be_bytes());
        }
        wire.extend_from_slice(frame);
    }
    wire.into()
}

/// Agrees with a peer that this is a socket of `kind`, such as `PUB`.
pub async fn shake_hands<S>(stream: &mut S, kind: &str) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut greeting = [0_u8; 64];
    greeting[0] = 0xFF;
    greeting[9] = 0x7F;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting).await?;
    stream.read_exact(&mut greeting).await?;
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    ready.push(u8::try_from(kind.len()).unwrap_or(0));
    ready.extend_from_slice(kind.as_bytes());
    let head = [COMMAND, u8::try_from(ready.len()).unwrap_or(0)];
    stream.write_all(&[&head, ready.as_slice()].concat()).await?;
    read_frame(stream).await.map(drop)
}

/// The next message's frames.
pub async fn read_message<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    loop {
        let (flags, body) = read_frame(stream).await?;
        if flags & COMMAND != 0 {
            continue;
        }
        frames.push(body);
        if flags & MORE == 0 {
            return Ok(frames);
        }
    }
}

async fn read_frame<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<(u8, Vec<u8>)> {
    let flags = stream.read_u8().await?;
    let length = match flags & LONG {
        0 => u64::from(stream.read_u8().await?),
        _ => stream.read_u64().await?,
    };
    if length > LONGEST_FRAME {
        return Err(io::Error::other("a frame too long"));
    }
    let mut body = vec![0; usize::try_from(length).unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok((flags, body))
}

/// Lets everybody subscribe to the worker on whose address they come.
pub async fn serve_events(listener: TcpListener, holdings: SharedHoldings) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let holdings = holdings.clone();
        tokio::spawn(async move {
            stream.set_nodelay(true)?;
            shake_hands(&mut stream, "PUB").await?;
            follow(stream, &holdings).await
        });
    }
}

/// From the first subscription on, everything is sent: all topics begin with the empty one, which is ours.
async fn follow(stream: TcpStream, holdings: &SharedHoldings) -> io::Result<()> {
    let worker = stream.local_addr()?.ip();
    let (mut reading, writing) = stream.into_split();
    let (sender, receiver) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write_all_of(writing, receiver));
    let gone = watch(&mut reading, || holdings.lock().subscribe(worker, sender.clone())).await;
    writer.abort();
    gone
}

async fn watch(reading: &mut OwnedReadHalf, subscribed: impl Fn()) -> io::Result<()> {
    loop {
        let frames = read_message(reading).await?;
        if frames.first().is_some_and(|frame| frame.first() == Some(&1)) {
            subscribed();
        }
    }
}

async fn write_all_of(mut writing: OwnedWriteHalf, mut messages: mpsc::UnboundedReceiver<Bytes>) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        writing.write_all(&message).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_read_as_they_were_written() {
        let long = vec![7_u8; 300];
        let bytes = message(&[b"", b"12345678", &long]);
        let frames = read_message(&mut bytes.as_ref()).await.unwrap();
        assert_eq!(frames, [Vec::new(), b"12345678".to_vec(), long]);
    }

    #[tokio::test]
    async fn two_ends_agree() {
        let (mut one, mut other) = tokio::io::duplex(256);
        let (a, b) = tokio::join!(shake_hands(&mut one, "PUB"), shake_hands(&mut other, "SUB"));
        assert!(a.is_ok() && b.is_ok());
    }
}
