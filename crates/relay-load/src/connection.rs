//! One connection of a client, opened again where it was closed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Failure;

const ATTEMPTS: u32 = 50;

/// A keep-alive connection to `target`, `HOST:PORT`.
pub struct Connection {
    target: String,
    sender: Option<SendRequest<Full<Bytes>>>,
    pub opened: u32,
}

impl Connection {
    pub fn to(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            sender: None,
            opened: 0,
        }
    }

    /// Posts a chat completion; the answer's head has come, its body may still be on its way.
    pub async fn post(&mut self, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let request = Request::post("/v1/chat/completions")
            .header(HOST, &self.target)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        let sent = self.ready().await?.send_request(request).await;
        if sent.is_err() {
            self.sender = None;
        }
        Ok(sent?)
    }

    /// Drops what is half read.
    pub fn abandon(&mut self) {
        self.sender = None;
    }

    async fn ready(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, Failure> {
        let usable = match self.sender.take() {
            Some(mut sender) => sender.ready().await.is_ok().then_some(sender),
            None => None,
        };
        let sender = match usable {
            Some(sender) => sender,
            None => self.open().await?,
        };
        Ok(self.sender.insert(sender))
    }

    async fn open(&mut self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        self.opened += 1;
        let mut attempt = 0;
        let stream = loop {
            attempt += 1;
            match TcpStream::connect(&self.target).await {
                Ok(stream) => break stream,
                Err(error) if attempt == ATTEMPTS => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// All of an answer's body, after `seen` was told of each piece as it came.
pub async fn read_whole(
    answer: Response<Incoming>,
    into: &mut Vec<u8>,
    mut seen: impl FnMut(&[u8]),
) -> Result<StatusCode, Failure> {
    let status = answer.status();
    let mut body = answer.into_body();
    into.clear();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            seen(data);
            into.extend_from_slice(data);
        }
    }
    Ok(status)
}
