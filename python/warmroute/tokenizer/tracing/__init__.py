"""What a chat template writes around contents that it does not look into, found by running it on stand-ins for them."""

from warmroute.tokenizer.tracing.skeleton import Skeleton, TracingTemplate, trace

__all__ = ["Skeleton", "TracingTemplate", "trace"]
