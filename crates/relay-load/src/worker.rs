//! Fake vLLM workers, as many as there are addresses on which somebody speaks to them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde_json::json;
use socket2::{Domain, Socket, Type};
use tokens::Encoder;
use tokio::net::{TcpListener, TcpStream};

use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::holdings::{Holdings, SharedHoldings};
use crate::stream::Sent;
use crate::tag::Tag;
use crate::{Failure, pages, replay, zmtp};

const CHAT: &str = "/v1/chat/completions";
const CACHE_BYTES: u64 = 64 << 20;
const BACKLOG: i32 = 4_096;

/// What all workers of this process share.
struct Workers {
    holdings: SharedHoldings,
    counts: Mutex<BTreeMap<String, u64>>,
    running: AtomicUsize,
    models: String,
    event_sources: String,
}

/// Serves until the process is ended; says so in one line once all sockets listen.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder: String = arguments.get("model-folder")?;
    let (events_port, replay_port) = (arguments.get("events-port")?, arguments.get("replay-port")?);
    let definition = std::fs::read(format!("{folder}/tokenizer.json"))?;
    let encoder = Encoder::new(&definition, Vec::new(), Vec::new(), CACHE_BYTES)?;
    let workers = Arc::new(Workers {
        holdings: Arc::new(Mutex::new(Holdings::new(encoder))),
        counts: Mutex::default(),
        running: AtomicUsize::new(0),
        models: pages::models(&folder),
        event_sources: pages::event_sources(events_port, replay_port),
    });
    let listener = listen(arguments.get("port")?)?;
    tokio::spawn(zmtp::serve_events(listen(events_port)?, workers.holdings.clone()));
    tokio::spawn(replay::serve(listen(replay_port)?, workers.holdings.clone()));
    println!("{}", json!({"ready": true}));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, workers.clone()));
    }
}

/// On all addresses of 127.0.0.0/8, and none other is spoken to by those who measure.
fn listen(port: u16) -> Result<TcpListener, Failure> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into())?)
}

async fn serve(stream: TcpStream, workers: Arc<Workers>) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let address = stream.local_addr()?.ip();
    let service = service_fn(move |request| {
        let workers = workers.clone();
        async move { Ok::<_, Infallible>(workers.answer(address, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    Ok(connection.await?)
}

impl Workers {
    async fn answer(&self, worker: IpAddr, request: Request<Incoming>) -> Response<Sent> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if path == "/counts" {
            return json_answer(self.counts());
        }
        self.count(path, worker);
        let Ok(body) = body.collect().await else {
            return refused(StatusCode::BAD_REQUEST);
        };
        let body = body.to_bytes();
        match (&head.method, path) {
            (&Method::GET, _) => self.page(path),
            (&Method::POST, CHAT) => self.chat(worker, &body),
            (&Method::POST, "/tokenize") => asked_for(pages::tokenized(&self.holdings.lock(), &body)),
            (&Method::POST, "/v1/chat/completions/render") => asked_for(pages::rendered(&self.holdings.lock(), &body)),
            _ => refused(StatusCode::NOT_FOUND),
        }
    }

    fn page(&self, path: &str) -> Response<Sent> {
        match path {
            "/health" => typed("text/plain", Sent::whole(String::new())),
            "/v1/models" => json_answer(self.models.clone()),
            "/version" => json_answer(json!({"version": "0.33.0"}).to_string()),
            "/metrics" => typed(
                "text/plain",
                Sent::whole(pages::metrics(self.running.load(Ordering::Relaxed))),
            ),
            "/kv_event_sources" => json_answer(self.event_sources.clone()),
            _ => refused(StatusCode::NOT_FOUND),
        }
    }

    fn chat(&self, worker: IpAddr, body: &[u8]) -> Response<Sent> {
        let tag = Tag::of(body);
        let (prompt, cached) = self.holdings.lock().take(worker, &tag);
        *self.counts.lock().entry("prompt_tokens".into()).or_default() += prompt;
        *self.counts.lock().entry("cached_tokens".into()).or_default() += cached;
        let answer = Answer::to(&tag, body, prompt, cached);
        if tag.stream {
            return typed("text/event-stream; charset=utf-8", Sent::stream(answer, tag.pace));
        }
        json_answer(answer.whole())
    }

    fn count(&self, path: &str, worker: IpAddr) {
        let mut counts = self.counts.lock();
        *counts.entry(path.to_owned()).or_default() += 1;
        if path == CHAT {
            *counts.entry(format!("{path} {worker}")).or_default() += 1;
        }
    }

    fn counts(&self) -> String {
        let (subscribers, batches) = self.holdings.lock().told();
        json!({"paths": *self.counts.lock(), "subscribers": subscribers, "batches": batches}).to_string()
    }
}

fn asked_for(page: Option<String>) -> Response<Sent> {
    page.map_or_else(|| refused(StatusCode::BAD_REQUEST), json_answer)
}

fn json_answer(text: String) -> Response<Sent> {
    typed("application/json", Sent::whole(text))
}

fn typed(kind: &'static str, body: Sent) -> Response<Sent> {
    let mut answer = Response::new(body);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    answer
}

fn refused(status: StatusCode) -> Response<Sent> {
    let mut answer =
        json_answer(json!({"error": {"message": status.to_string(), "code": status.as_u16()}}).to_string());
    *answer.status_mut() = status;
    answer
}
