"""The router against two real vLLM servers on CPU (`make test-vllm`). Not part of `make test`: it takes gigabytes."""

import sys
from pathlib import Path

# What the tests read events with.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
