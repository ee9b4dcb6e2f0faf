"""The router against two real vLLM servers on CPU (`make test-vllm`). Not part of `make test`: it takes gigabytes."""
