//! Accepting connections and serving each until it closes.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use http::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::activity::Activity;
use crate::exchange;
use crate::listener::{self, Origin};
use crate::shared::Shared;
use crate::watched::Watched;

/// Largest request head; agents send long headers, not this long.
const MAX_HEAD_BYTES: usize = 256 * 1024;
const MAX_HEADERS: usize = 256;
/// Pause when the process has no descriptor left; connections wait in the backlog meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Once no more connections are taken, one on which nothing was asked for so long is closed.
const PARTING: Duration = Duration::from_millis(500);

/// Accept until the relay stops.
pub async fn accept(shared: Arc<Shared>, listener: TcpListener, name: Arc<str>) {
    let mut stopping = shared.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|&stopping| stopping) => return,
        };
        match accepted {
            Ok((socket, client)) => {
                let listener = Arc::clone(&name);
                let origin = Origin { client, listener };
                tokio::spawn(Client::open(&shared).serve(socket, origin));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One client's connection, counted while it is open.
struct Client {
    shared: Arc<Shared>,
    /// A request has begun; until then nothing is lost by closing.
    begun: AtomicBool,
    activity: Arc<Activity>,
}

impl Client {
    fn open(shared: &Arc<Shared>) -> Self {
        shared.connection_opened();
        Self {
            shared: shared.clone(),
            begun: AtomicBool::new(false),
            activity: Activity::new(),
        }
    }

    async fn serve(self, socket: TcpStream, origin: Origin) {
        if listener::prepare(&socket).is_err() {
            return; // gone before it was served
        }
        let service = service_fn(|request| {
            self.begun.store(true, Ordering::Relaxed);
            let exchange = exchange::serve(self.shared.clone(), request, origin.clone(), self.activity.begin());
            async {
                let mut response = exchange.await;
                if *self.shared.stopping.borrow() {
                    // The client hears it from the answer, before it sends the next request on this connection.
                    response
                        .headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response)
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.shared.options.client_idle);
        builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
        let io = TokioIo::new(Watched::new(socket, || self.activity.heard()));
        let mut connection = pin!(builder.serve_connection(io, service));
        let mut stopping = self.shared.stopping.subscribe();
        // Errors of a connection concern its client alone, and its requests tell their outcome.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.activity.too_slow(self.shared.options.head_timeout) => return,
            _ = stopping.wait_for(|&stopping| stopping) => {}
        }
        // A request may be on its way on a connection that has been accepted, or kept: it is still answered.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.activity.unused(PARTING) => {}
        }
        if self.begun.load(Ordering::Relaxed) {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.connection_closed();
    }
}
