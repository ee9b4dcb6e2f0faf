//! Accepting connections and serving each until it closes.

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, StatusCode, Version};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::activity::Activity;
use crate::event::End;
use crate::exchange;
use crate::listener::{self, Origin};
use crate::options::Options;
use crate::settlement::Settlement;
use crate::shared::{Shared, Stage};
use crate::watched::Watched;

/// Largest request head; agents send long headers, not this long.
const MAX_HEAD_BYTES: usize = 256 * 1024;
const MAX_HEADERS: usize = 256;
/// Of HTTP/2: streams that a client has reset and that have not been cleared away; more end the connection.
const MAX_PENDING_RESETS: usize = 20;
/// Of HTTP/2: bytes of an answer that wait for a client that does not take them, after which its worker must wait.
const SEND_BUFFER: usize = 64 * 1024;
/// Pause when the process has no descriptor left; connections wait in the backlog meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Once no more connections are taken, one on which nothing was asked for so long is closed.
const PARTING: Duration = Duration::from_millis(500);

/// Accept until the relay stops.
pub async fn accept(shared: Arc<Shared>, listener: TcpListener, name: Arc<str>) {
    let mut stage = shared.stage.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stage.wait_for(|&stage| stage >= Stage::Stopping) => return,
        };
        match accepted {
            Ok((socket, client)) => {
                let origin = Origin {
                    client,
                    listener: Arc::clone(&name),
                    scheme: "http",
                };
                tokio::spawn(Client::open(&shared, origin).accept(socket));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One client's connection, counted while it is open.
struct Client {
    shared: Arc<Shared>,
    origin: Origin,
    /// A request has begun; until then nothing is lost by closing.
    begun: AtomicBool,
    activity: Arc<Activity>,
}

impl Client {
    fn open(shared: &Arc<Shared>, origin: Origin) -> Self {
        shared.connection_opened();
        Self {
            shared: shared.clone(),
            origin,
            begun: AtomicBool::new(false),
            activity: Activity::new(),
        }
    }

    async fn accept(mut self, socket: TcpStream) {
        if listener::prepare(&socket).is_err() {
            return; // gone before it was served
        }
        let terms = self.shared.tls.accept(&self.origin.listener, socket);
        // One who does not come to terms in time, or speaks no TLS where that is spoken, is not served.
        if let Ok(Ok(socket)) = timeout(self.shared.options.head_timeout, terms).await {
            if socket.is_secure() {
                self.origin.scheme = "https";
            }
            self.serve(socket).await;
        }
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + 'static>(self, socket: S) {
        let options = &self.shared.options;
        let service = service_fn(|request: Request<Incoming>| {
            self.begun.store(true, Ordering::Relaxed);
            let busy = self.activity.begin(request.version() == Version::HTTP_2);
            let exchange = exchange::serve(self.shared.clone(), request, self.origin.clone(), busy);
            let shared = self.shared.clone();
            async move {
                let mut response = exchange.await;
                if shared.is_stopping() {
                    // The client hears it from the answer, before it sends the next request on this connection.
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Infallible>(response)
            }
        });
        let activity = Arc::clone(&self.activity);
        let socket = Watched::new(socket, move || activity.heard())
            .with_write_patience(options.client_write_timeout)
            .with_eye_on_the_end(!options.half_close);
        let builder = builder(&self.shared);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        let mut stage = self.shared.stage.subscribe();
        tokio::select! {
            ended = connection.as_mut() => return self.ended(ended),
            () = self.activity.too_slow(options) => return,
            _ = stage.wait_for(|&stage| stage >= Stage::Stopping) => {}
        }
        // A request may be on its way on a connection that has been accepted, or kept: it is still answered.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.activity.unused(PARTING) => {}
            _ = stage.wait_for(|&stage| stage == Stage::Ending) => {}
        }
        if self.begun.load(Ordering::Relaxed) {
            connection.as_mut().graceful_shutdown();
            let _ = polled_at_the_end(&self.shared, connection).await;
        }
    }

    /// Errors of a connection concern its client alone, and its requests tell their outcome; one whose head could not be
    /// read has not become a request, and the server has answered it by itself.
    fn ended(&self, ended: Result<(), Box<dyn Error + Send + Sync>>) {
        let error = ended.err();
        let Some(error) = error.as_deref().and_then(|error| error.downcast_ref::<hyper::Error>()) else {
            return;
        };
        let (status, reason) = if error.is_parse_too_large() {
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large")
        } else if error.is_parse() {
            (StatusCode::BAD_REQUEST, "head_unreadable")
        } else {
            return;
        };
        let (request_id, busy) = (self.shared.next_id(), self.activity.begin(false));
        let mut settlement = Settlement::new(self.shared.clone(), request_id, busy);
        settlement.head_sent(status.as_u16());
        settlement.refused(reason);
        settlement.ended(End::RefusedByRelay);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.connection_closed();
    }
}

/// Runs the streams of HTTP/2 connections.
#[derive(Clone)]
struct Streams(Arc<Shared>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let shared = self.0.clone();
        tokio::spawn(async move { polled_at_the_end(&shared, pin!(stream)).await });
    }
}

/// Run `future`, which is polled also when the grace of a close is over: the exchanges within it look for that.
async fn polled_at_the_end<F: Future + Unpin>(shared: &Shared, mut future: F) -> F::Output {
    let mut stage = shared.stage.subscribe();
    tokio::select! {
        output = &mut future => return output,
        _ = stage.wait_for(|&stage| stage == Stage::Ending) => {}
    }
    future.await
}

fn builder(shared: &Arc<Shared>) -> auto::Builder<Streams> {
    let Options {
        client_idle,
        half_close,
        h2_streams,
        h2_ping,
        ..
    } = shared.options;
    let mut builder = auto::Builder::new(Streams(shared.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(client_idle)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .half_close(half_close);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(h2_streams)
        .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(h2_ping)
        .keep_alive_timeout(h2_ping);
    builder
}
