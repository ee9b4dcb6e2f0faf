//! `relay-load idle` and `paced`: very many streams at once.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::json;

use crate::Failure;
use crate::answer::number_after;
use crate::arguments::Arguments;
use crate::connection::Connection;
use crate::conversation::MODEL;
use crate::processor::seconds_of;
use crate::samples::{Samples, float};
use crate::stream::now_us;
use crate::tag::{Pace, seed_of_pace};

const OPENING: Duration = Duration::from_secs(60);
/// So many are opened at a time, which spares the listener's queue.
const OPENED_AT_ONCE: usize = 128;
const MANY: u32 = 1_000_000;

/// What all streams of a run share.
#[derive(Default)]
struct Run {
    open: AtomicUsize,
    failed: AtomicUsize,
    counting: AtomicBool,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// From the moment a chunk was due to the moment it was read here.
    late_us: Samples,
    /// From the moment the worker sent it.
    carried_us: Samples,
    /// Chunks that came in one piece with the one before.
    together: u64,
}

/// Opens `--streams` streams, says so, and holds them until a line or the end comes on stdin.
pub async fn idle(arguments: &Arguments) -> Result<(), Failure> {
    let run = Arc::new(Run::default());
    open(&run, arguments, Pace::Hold).await?;
    println!("{}", opened(&run));
    tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()).await?;
    println!("{}", opened(&run));
    Ok(())
}

/// Opens `--streams` streams with a chunk each `--interval-ms`, and tells after `--seconds` how late chunks came.
pub async fn paced(arguments: &Arguments) -> Result<(), Failure> {
    let run = Arc::new(Run::default());
    let pids: Vec<u32> = arguments.list("cpu-of")?;
    let interval: u64 = arguments.get("interval-ms")?;
    open(&run, arguments, Pace::Every(interval)).await?;
    tokio::time::sleep(Duration::from_secs_f64(arguments.get("warm-s")?)).await;
    let (cpu, begun) = (seconds_of(&pids), Instant::now());
    run.counting.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(arguments.get("seconds")?)).await;
    run.counting.store(false, Ordering::Relaxed);
    let (seconds, cpu_s) = (begun.elapsed().as_secs_f64(), seconds_of(&pids) - cpu);
    let mut found = run.found.lock();
    let chunks = found.late_us.count();
    let told = json!({
        "streams": opened(&run),
        "chunks_per_s": float(chunks) / seconds,
        "late_us": found.late_us.told(),
        "carried_us": found.carried_us.told(),
        "together": found.together,
        "router_cpu_s": cpu_s,
        "router_cpu_us_per_chunk": (chunks > 0).then(|| 1e6 * cpu_s / float(chunks)),
        "seconds": seconds,
    });
    println!("{told}");
    Ok(())
}

fn opened(run: &Run) -> serde_json::Value {
    json!({"open": run.open.load(Ordering::Relaxed), "failed": run.failed.load(Ordering::Relaxed)})
}

/// Returns when all have had their first chunk or have failed; an error where that takes too long.
async fn open(run: &Arc<Run>, arguments: &Arguments, pace: Pace) -> Result<(), Failure> {
    let targets: Vec<String> = arguments.list("targets")?;
    let streams: usize = arguments.get("streams")?;
    let permits = Arc::new(tokio::sync::Semaphore::new(OPENED_AT_ONCE));
    let began = Instant::now();
    for number in 0..streams {
        let permit = permits.clone().acquire_owned().await?;
        let connection = Connection::to(&targets[number % targets.len()]);
        let (run, body) = (run.clone(), body(pace, number));
        tokio::spawn(async move {
            if follow(&run, connection, body, permit).await.is_err() {
                run.failed.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    loop {
        let settled = run.open.load(Ordering::Relaxed) + run.failed.load(Ordering::Relaxed);
        if settled >= streams {
            return Ok(());
        }
        if began.elapsed() > OPENING {
            return Err(format!("{settled} of {streams} streams began within a minute").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn body(pace: Pace, number: usize) -> Bytes {
    let seed = seed_of_pace(pace);
    let text = format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"stream number {number}\"}}],\"model\":\"{MODEL}\",\
         \"max_tokens\":{MANY},\"stream\":true,\"seed\":{seed}}}"
    );
    text.into()
}

/// Reads one stream to its end. Its permit is given back with the first chunk.
async fn follow(
    run: &Run,
    mut connection: Connection,
    body: Bytes,
    permit: tokio::sync::OwnedSemaphorePermit,
) -> Result<(), Failure> {
    let answer = tokio::time::timeout(OPENING, connection.post(body)).await??;
    if !answer.status().is_success() {
        return Err(format!("status {}", answer.status()).into());
    }
    let mut body = answer.into_body();
    let mut permit = Some(permit);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if permit.take().is_some() {
            run.open.fetch_add(1, Ordering::Relaxed);
        }
        if run.counting.load(Ordering::Relaxed) {
            note(&mut run.found.lock(), &data);
        }
    }
    run.open.fetch_sub(1, Ordering::Relaxed);
    Err("the stream ended".into())
}

fn note(found: &mut Found, data: &[u8]) {
    let now = now_us();
    for (place, event) in data
        .split(|byte| *byte == b'\n')
        .filter(|line| line.len() > 1)
        .enumerate()
    {
        let (Some(due), Some(sent)) = (
            number_after(event, b"\"due_us\":"),
            number_after(event, b"\"sent_us\":"),
        ) else {
            continue;
        };
        found.late_us.add(now.saturating_sub(due));
        found.carried_us.add(now.saturating_sub(sent));
        found.together += u64::from(place > 0);
    }
}
