//! Answers who asks for batches of KV events once more: vLLM's ROUTER socket.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::holdings::SharedHoldings;
use crate::zmtp::{message, read_message, shake_hands};

const END: [u8; 8] = [0xFF; 8];

/// Serves the batches of the worker on whose address somebody comes.
pub async fn serve(listener: TcpListener, holdings: SharedHoldings) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream, holdings.clone()));
    }
}

async fn answer(mut stream: TcpStream, holdings: SharedHoldings) -> io::Result<()> {
    let worker = stream.local_addr()?.ip();
    stream.set_nodelay(true)?;
    shake_hands(&mut stream, "ROUTER").await?;
    loop {
        let frames = read_message(&mut stream).await?;
        let Some(Ok(start)) = frames.last().map(|frame| <[u8; 8]>::try_from(frame.as_slice())) else {
            continue;
        };
        let kept = holdings.lock().kept(worker, u64::from_be_bytes(start));
        for (number, batch) in kept {
            stream
                .write_all(&message(&[b"", b"", &number.to_be_bytes(), &batch]))
                .await?;
        }
        stream.write_all(&message(&[b"", b"", &END, b""])).await?;
    }
}
