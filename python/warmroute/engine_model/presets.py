"""Engines by name: what hardware and model they stand for, and where each figure comes from.

Three of them are fitted to published runs. llm-d's ladder (its `shared_prefix` workload on 8 pods, tables of 2026), in
each pair of figures the published one and that of these models:

    requests/s                           20               30               40               60        whole ladder
    precise  output tokens/s  11,224 11,387    13,507 12,684    15,593 15,530    15,733 15,818    12,598 12,851
             TTFT p90, s       0.320  0.210     0.193  0.218     0.272  0.258     0.300  0.260     0.262  0.262
    round    output tokens/s   6,205  6,295     5,702  6,243     6,336  6,673     6,551  6,647     5,722  6,147
    robin    TTFT p90, s        35.3   35.0      46.0   45.1     126.2  128.3     138.7  137.3     107.4  130.5

The rates are means of 2 to 4 seeds after fewer stages than the ladder's, so they and the last column differ by chance.
(107.4 s is not what the published percentiles of the rates make together, which lies above 125.) The published arm is a
Kubernetes Service called round robin. As kube-proxy mostly does, it may choose at random for each connection: random
routing gives 5,596 tokens/s and a TTFT mean of 57.9 s on these models, where 5,722 and 58.1 were published.

Arithmetic that the figures follow where nothing was measured, for a model with its layers, query heads and KV heads:

    KV bytes per token           2 x layers x KV heads x head size x 2 bytes
    reading the weights          bytes of the weights / memory bandwidth of all GPUs
    per context token            KV bytes per token / memory bandwidth
    prefill                      2 x parameters floating-point operations per token, at a share of the peak
    attention                    4 x layers x query heads x head size operations for each token of context: after so
                                 many tokens as the former holds the latter, a token costs twice as much

A GPU: H100 SXM 3.35 TB/s and 989 Tflop/s, A100 SXM 2.04 TB/s and 312 Tflop/s, L40S 0.864 TB/s and 362 Tflop/s (dense
bf16; the vendor's data sheets).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from warmroute.engine_model.options import EngineOptions


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of engine. `source` says whether its figures are published, fitted to published ones, or assumed."""

    name: str
    about: str
    source: str
    options: EngineOptions


# KV: gpu-memory-utilization 0.95 of 2 x 80 GB, less the weights, at 256 KiB per token (64 layers, 8 KV heads of 128).
# Step base: 65.5 GB of weights at 6.7 TB/s are 9.8 ms; the rest is a fit to 14 to 15 ms per token at low load.
# Per context token: 262,144 bytes at 6.7 TB/s. Per running: sampling and scheduling, small beside it, assumed.
# Prefill: a lone prompt of 8,192 tokens takes 0.40 s (llm-d's fit for its routing configuration), of which attention,
# which equals the rest after 65.6 Gflop / 2.1 Mflop = 31k tokens of context, is an eighth.
# Mixed steps: a fit to round robin's throughput and TTFT. A prompt of 7,584 tokens then takes as long as at 13.8k
# tokens/s; the recipe's own figure for a loaded pod is 15.9k.
# Request overhead: a fit to the TTFT of warm requests. Token budget 8192 is published; 256 sequences, vLLM's default.
QWEN3_32B_H100_TP2 = Preset(
    "qwen3-32b-h100-tp2",
    "Qwen3-32B on 2 H100 (TP2), vLLM of 2026",
    "llm-d guides precise-prefix-cache-routing and optimized-baseline, 2026; blog of August 2026; fit",
    EngineOptions(block_size=64, num_blocks=341_000 // 64),
)

# KV of 307,328 tokens is published; base and slope are a fit to about 22 ms per token with 4 requests in a pod and
# under 75 with 190. The run does not agree with itself on the length of answers, so nothing finer can be fitted.
QWEN3_32B_H100_TP2_2025 = Preset(
    "qwen3-32b-h100-tp2-2025",
    "the same pod with vLLM of September 2025",
    "llm-d-kv-cache benchmarking/73-capacity, 2025; fit",
    replace(
        QWEN3_32B_H100_TP2.options,
        num_blocks=307_328 // 64,
        step_base_s=0.0205,
        step_per_context_token_s=32.3e-9,
    ),
)

# KV of 461,376 tokens is published. Per context token: 327,680 bytes (80 layers) at 13.4 TB/s; attention: 141 Gflop /
# 2.6 Mflop. Base and prefill are a fit to that run, whose prompts are taken to be 5 % longer than asked for, as in the
# other one: 5,604 output tokens/s with precise routing where 5,650 were published, 2,971 with random where 2,895 were;
# TTFT mean 0.207 s (0.193) and 40 s (42), p90 0.24 (0.275) and 106 (84.6).
LLAMA_70B_H100_TP4 = Preset(
    "llama-3.1-70b-h100-tp4",
    "Llama-3.1-70B on 4 H100 (TP4), vLLM of 2025",
    "llm-d-kv-cache benchmarking/37-capacity, 2025; fit",
    EngineOptions(
        block_size=64,
        num_blocks=461_376 // 64,
        step_base_s=0.020,
        step_per_context_token_s=24.5e-9,
        prefill_tokens_per_s=20_000.0,
        prefill_context_tokens=53_800.0,
    ),
)

# As the H100 pod, with the A100's bandwidth and arithmetic: 65.5 GB at 4.08 TB/s and the same 2.7 ms besides, 262,144
# bytes at 4.08 TB/s, prefill at 312/989 of the rate.
QWEN3_32B_A100_TP2 = Preset(
    "qwen3-32b-a100-tp2",
    "Qwen3-32B on 2 A100-80GB (TP2), a third as fast at prompts",
    "assumption: the H100 pod's fit scaled by the data sheets",
    replace(
        QWEN3_32B_H100_TP2.options,
        step_base_s=0.0188,
        step_per_context_token_s=64.3e-9,
        prefill_tokens_per_s=7_300.0,
    ),
)

# As above for 4 cards without NVLink: 65.5 GB at 3.46 TB/s and 6 ms for 128 all-reduces over PCIe, prefill at 4 x 362 /
# (2 x 989) of the rate and half of that lost to them; 192 GB at 0.90, less the weights and 10 GB.
QWEN3_32B_L40S_TP4 = Preset(
    "qwen3-32b-l40s-tp4",
    "Qwen3-32B on 4 L40S (TP4 over PCIe), slow at both",
    "assumption: the H100 pod's fit scaled by the data sheets",
    replace(
        QWEN3_32B_H100_TP2.options,
        num_blocks=370_000 // 64,
        step_base_s=0.025,
        step_per_context_token_s=75.8e-9,
        prefill_tokens_per_s=8_500.0,
    ),
)

# 16.1 GB of weights and 131,072 bytes of KV per token (32 layers, 8 KV heads of 128) at 3.35 TB/s, 77 % of which vLLM
# reaches with this model on an A100 (75 tokens/s where the weights alone allow 97; johnmusgrave.com, vLLM 0.23), and
# 1 ms besides; prefill at 60 % of the peak, lower than the larger model's; attention: 16.1 Gflop / 0.52 Mflop.
# KV: 0.90 of 80 GB less the weights and 2 GB.
LLAMA_8B_H100 = Preset(
    "llama-3.1-8b-h100",
    "Llama-3.1-8B on one H100, 128k context",
    "assumption: data sheets, and the share of them that vLLM reaches elsewhere",
    EngineOptions(
        block_size=64,
        num_blocks=412_000 // 64,
        max_model_len=131_072,
        step_base_s=0.0073,
        step_per_context_token_s=50.8e-9,
        prefill_tokens_per_s=37_000.0,
        prefill_context_tokens=30_700.0,
    ),
)

# KV: 0.90 of 2 x 80 GB, less 63 GB of weights and 8 GB, at 36,864 bytes per token (18 of 36 layers keep more than a
# window; 8 KV heads of 64). Base and per running: between the few experts that one request reads and the 63 GB that a
# full batch does. Prefill: 39,065 tokens/s on one H100 are published (blog of August 2026), two are taken to do half as
# much again; attention: 0.3 Mflop per token of context beside that rate.
GPT_OSS_120B_H100_TP2 = Preset(
    "gpt-oss-120b-h100-tp2",
    "gpt-oss-120b on 2 H100 (TP2), 128k context",
    "assumption: data sheets; prefill from llm-d's figure for one H100",
    EngineOptions(
        block_size=64,
        num_blocks=1_980_000 // 64,
        max_model_len=131_072,
        step_base_s=0.006,
        step_per_running_s=0.000_08,
        step_per_context_token_s=5.5e-9,
        prefill_tokens_per_s=60_000.0,
        prefill_context_tokens=85_000.0,
    ),
)

PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        QWEN3_32B_H100_TP2,
        QWEN3_32B_H100_TP2_2025,
        LLAMA_70B_H100_TP4,
        QWEN3_32B_A100_TP2,
        QWEN3_32B_L40S_TP4,
        LLAMA_8B_H100,
        GPT_OSS_120B_H100_TP2,
    )
}
"""In the order of their mention."""
