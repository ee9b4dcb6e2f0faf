//! What a worker says of itself, and the ids of prompts, in vLLM's words.

use serde::Deserialize;
use serde_json::json;

use crate::conversation::MODEL;
use crate::holdings::{BLOCK_SIZE, Holdings};

const CONTEXT: u32 = 1_000_000;

/// `GET /v1/models`; `root` is the model's folder.
pub fn models(root: &str) -> String {
    let model = json!({"id": MODEL, "object": "model", "created": 1_700_000_000, "owned_by": "vllm", "root": root,
        "parent": null, "max_model_len": CONTEXT});
    json!({"object": "list", "data": [model]}).to_string()
}

/// `GET /metrics`; `running` requests.
pub fn metrics(running: usize) -> String {
    let labels = format!("{{engine=\"0\",model_name=\"{MODEL}\"}}");
    format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{labels} {running}\n\
         # TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{labels} 0\n\
         # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{labels} 0.1\n\
         # TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{block_size=\"{BLOCK_SIZE}\",\
         enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"1000000\"}} 1\n"
    )
}

/// `GET /kv_event_sources`.
pub fn event_sources(events_port: u16, replay_port: u16) -> String {
    let source = json!({"enable_kv_cache_events": true, "publisher": "zmq",
        "endpoint": format!("tcp://*:{events_port}"), "replay_endpoint": format!("tcp://*:{replay_port}"),
        "buffer_steps": 10_000, "hwm": 100_000, "max_queue_size": 100_000, "topic": ""});
    json!({"0": source}).to_string()
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: String,
}

#[derive(Deserialize)]
struct Asked {
    messages: Option<Vec<Message>>,
    prompt: Option<String>,
    add_special_tokens: Option<bool>,
}

/// `POST /tokenize` of a prompt or of messages; None where the body is neither.
pub fn tokenized(holdings: &Holdings, body: &[u8]) -> Option<String> {
    let ids = ids(holdings, body)?;
    Some(json!({"count": ids.len(), "max_model_len": CONTEXT, "tokens": ids, "token_strs": null}).to_string())
}

/// `POST /v1/chat/completions/render`: vLLM's `GenerateRequest`; None where there are no messages.
pub fn rendered(holdings: &Holdings, body: &[u8]) -> Option<String> {
    let ids = ids(holdings, body)?;
    let sampling = json!({"temperature": 1.0, "top_p": 1.0, "max_tokens": 16});
    let request = json!({"request_id": "chatcmpl-render", "token_ids": ids, "features": null, "model": MODEL,
        "sampling_params": sampling, "stream": false, "stream_options": null, "cache_salt": null, "priority": 0,
        "kv_transfer_params": null});
    Some(request.to_string())
}

fn ids(holdings: &Holdings, body: &[u8]) -> Option<Vec<u32>> {
    let asked: Asked = serde_json::from_slice(body).ok()?;
    if let Some(messages) = &asked.messages {
        return Some(holdings.chat_ids(messages.iter().map(|each| (each.role.as_str(), each.content.as_str()))));
    }
    Some(holdings.ids(asked.prompt.as_deref()?, asked.add_special_tokens.unwrap_or(true)))
}
