//! `relay-load client`: conversations in closed loops, each on a connection of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;

use crate::Failure;
use crate::answer::{Answer, hash};
use crate::arguments::Arguments;
use crate::connection::{Connection, read_whole};
use crate::conversation::{Conversation, Plan};
use crate::processor::seconds_of;
use crate::samples::{Samples, float};
use crate::tag::Session;

const WARM: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;
const LONGEST_REQUEST: Duration = Duration::from_secs(30);
/// After a failure, so that a router that refuses everything is not hammered.
const RESPITE: Duration = Duration::from_millis(20);

/// What was found while measuring.
#[derive(Default)]
struct Found {
    latency_us: Samples,
    first_byte_us: Samples,
    prompt_tokens: u64,
    cached_tokens: u64,
    new_tokens: u64,
    body_bytes: u64,
    bodies_changed: u64,
    errors: BTreeMap<String, u64>,
    reconnected: u64,
}

/// What all loops share.
struct Run {
    plan: Plan,
    chunks: u32,
    connections: u32,
    /// Of each connection's first conversation; another one for each run against the same workers.
    first: u32,
    stream: bool,
    /// Between an answer and the next request.
    pause: Duration,
    phase: AtomicU8,
    found: Mutex<Found>,
}

/// Runs the loops: `--warm-s` without account, then `--seconds` with it. Prints what was found.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let targets: Vec<String> = arguments.list("targets")?;
    let pids: Vec<u32> = arguments.list("cpu-of")?;
    let chunks: u32 = arguments.get("chunks")?;
    let run = Arc::new(Run {
        plan: Plan {
            size: arguments.get("size")?,
        },
        chunks: if chunks == 0 { 16 } else { chunks },
        connections: arguments.get("connections")?,
        first: arguments.get("first-conversation")?,
        stream: chunks > 0,
        pause: Duration::from_millis(arguments.get("pause-ms")?),
        phase: AtomicU8::new(WARM),
        found: Mutex::default(),
    });
    let loops: Vec<_> = (0..run.connections)
        .map(|number| {
            let target = &targets[number as usize % targets.len()];
            tokio::spawn(talk(run.clone(), number, Connection::to(target)))
        })
        .collect();
    tokio::time::sleep(Duration::from_secs_f64(arguments.get("warm-s")?)).await;
    let (cpu, own_cpu, begun) = (seconds_of(&pids), seconds_of(&[std::process::id()]), Instant::now());
    run.phase.store(MEASURE, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(arguments.get("seconds")?)).await;
    run.phase.store(STOP, Ordering::Relaxed);
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_s = seconds_of(&pids) - cpu;
    let own_cpu_s = seconds_of(&[std::process::id()]) - own_cpu;
    println!("{}", told(&mut run.found.lock(), seconds, cpu_s, own_cpu_s));
    for each in loops {
        each.abort();
    }
    Ok(())
}

fn told(found: &mut Found, seconds: f64, cpu_s: f64, client_cpu_s: f64) -> serde_json::Value {
    let requests = found.latency_us.count();
    let share = |part: u64, whole: u64| (whole > 0).then(|| float(part) / float(whole));
    json!({
        "requests": requests,
        "seconds": seconds,
        "requests_per_s": float(requests) / seconds,
        "latency_us": found.latency_us.told(),
        "first_byte_us": found.first_byte_us.told(),
        "router_cpu_s": cpu_s,
        "router_cpu_us_per_request": (requests > 0).then(|| 1e6 * cpu_s / float(requests)),
        "client_cpu_s": client_cpu_s,
        "body_bytes_mean": share(found.body_bytes, requests),
        "cached_token_share": share(found.cached_tokens, found.prompt_tokens),
        "repeated_token_share": share(found.prompt_tokens.saturating_sub(found.new_tokens), found.prompt_tokens),
        "bodies_changed": found.bodies_changed,
        "errors": found.errors,
        "reconnected": found.reconnected,
    })
}

/// One connection's conversations. The first begins at a round of its own, so that bodies of all lengths are under way.
async fn talk(run: Arc<Run>, number: u32, mut connection: Connection) {
    let mut conversation = begin(&run, number, run.first);
    for _ in 0..u64::from(number) * u64::from(run.plan.rounds()) / u64::from(run.connections) {
        conversation.go_on();
    }
    let (mut buffer, mut tokens_before) = (Vec::new(), 0);
    while run.phase.load(Ordering::Relaxed) != STOP {
        let counted = run.phase.load(Ordering::Relaxed) == MEASURE;
        let asked = ask(&run, &conversation, &mut connection, &mut buffer);
        let outcome = tokio::time::timeout(LONGEST_REQUEST, asked).await;
        let ended = outcome.unwrap_or_else(|_| Err("no end within 30 s".into()));
        if let Err(error) = &ended {
            connection.abandon();
            if counted {
                *run.found.lock().errors.entry(error.to_string()).or_default() += 1;
            }
            tokio::time::sleep(RESPITE).await;
        }
        if let (Ok(served), true) = (&ended, run.phase.load(Ordering::Relaxed) == MEASURE) {
            note(&mut run.found.lock(), served, tokens_before, connection.opened);
        }
        tokens_before = ended.map_or(tokens_before, |served| served.answer.prompt_tokens);
        if !run.pause.is_zero() {
            tokio::time::sleep(run.pause).await;
        }
        if !conversation.go_on() {
            conversation = begin(&run, number, conversation.session.number + 1);
            tokens_before = 0;
        }
    }
}

fn begin(run: &Run, connection: u32, number: u32) -> Conversation {
    let session = Session {
        plan: run.plan,
        connection,
        number,
    };
    Conversation::begin(session, run.chunks)
}

/// A request that was answered as it should be.
struct Served {
    latency: Duration,
    first_byte: Duration,
    body_bytes: usize,
    body_changed: bool,
    answer: Answer,
}

async fn ask(
    run: &Run,
    conversation: &Conversation,
    connection: &mut Connection,
    buffer: &mut Vec<u8>,
) -> Result<Served, Failure> {
    let body = Bytes::from(conversation.body(run.stream));
    let sent = Instant::now();
    let answer = connection.post(body.clone()).await?;
    let mut first_byte = None;
    let status = read_whole(answer, buffer, |_| {
        first_byte.get_or_insert_with(|| sent.elapsed());
    })
    .await?;
    let latency = sent.elapsed();
    if !status.is_success() {
        return Err(format!("status {}", status.as_u16()).into());
    }
    let answer = Answer::told_by(buffer, conversation.round, run.chunks).ok_or("an answer of nobody")?;
    let wanted = if run.stream { answer.stream() } else { answer.whole() };
    if wanted.as_bytes() != buffer.as_slice() {
        return Err("an answer with other bytes".into());
    }
    Ok(Served {
        latency,
        first_byte: first_byte.unwrap_or(latency),
        body_bytes: body.len(),
        body_changed: answer.body_hash != hash(&body),
        answer,
    })
}

fn note(found: &mut Found, served: &Served, tokens_before: u64, opened: u32) {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    found.latency_us.add(us(served.latency));
    found.first_byte_us.add(us(served.first_byte));
    found.prompt_tokens += served.answer.prompt_tokens;
    found.cached_tokens += served.answer.cached_tokens;
    found.new_tokens += served.answer.prompt_tokens.saturating_sub(tokens_before);
    found.body_bytes += served.body_bytes as u64;
    found.bodies_changed += u64::from(served.body_changed);
    found.reconnected = found.reconnected.max(u64::from(opened.saturating_sub(1)));
}
