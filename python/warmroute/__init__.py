"""warmroute sends each LLM request to the worker that already holds its prefix."""

import os

# For the allocator of the Rust core, which reads it when it is loaded. A page of 2 MiB is cleared at one go, for which
# whoever waits for a lane of the index waits 3 ms; small pages cost no throughput (bench/kv_ingest.py).
os.environ.setdefault("MIMALLOC_ALLOW_THP", "0")
