//! Fake workers and a load generator, between which `bench/relay.py` measures routers.
//!
//! `relay-load worker` is many vLLM workers in one process: each address of 127.0.0.0/8 on which it is spoken to is a
//! worker of its own. `client` sends growing conversations in closed loops, `idle` and `paced` open many streams.
//! All of them keep to one thread, so that they fit on one core, and answer with one JSON object a line.

mod answer;
mod arguments;
mod client;
mod connection;
mod conversation;
mod event_wire;
mod holdings;
mod pages;
mod processor;
mod replay;
mod samples;
mod stream;
mod streams;
mod tag;
mod word_ids;
mod worker;
mod zmtp;

use arguments::Arguments;

/// What went wrong, for the person who reads the last line.
type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "relay-load worker --port P --events-port P --replay-port P --model-folder DIR
relay-load client --targets HOST:PORT,.. --connections N --first-conversation N --size BYTES --chunks N --pause-ms N --warm-s S --seconds S [--cpu-of PID,..]
relay-load idle --targets HOST:PORT,.. --streams N
relay-load paced --targets HOST:PORT,.. --streams N --interval-ms N --warm-s S --seconds S [--cpu-of PID,..]";

fn main() -> Result<(), Failure> {
    let arguments = Arguments::of(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = match arguments.command.as_str() {
        "worker" => runtime.block_on(worker::run(&arguments)),
        "client" => runtime.block_on(client::run(&arguments)),
        "idle" => runtime.block_on(streams::idle(&arguments)),
        "paced" => runtime.block_on(streams::paced(&arguments)),
        _ => Err(USAGE.into()),
    };
    // Streams that are still open are not waited for.
    runtime.shutdown_background();
    told
}
