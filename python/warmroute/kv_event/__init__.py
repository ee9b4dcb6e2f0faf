"""What engines say about their KV caches: read from the wire, applied to the prefix index, followed over ZeroMQ.

frames   multipart message -> sequence number and payload        sequence gaps, restarts, duplicates
apply    payloads, or messages read elsewhere -> prefix index    messages what an engine says, whoever reads it
replay   what a publisher has sent before                        inbox    the connection, read by the slice
subscriber keeps one lane's view in step                         listening the threads that lanes are followed on
"""

from warmroute.kv_event.apply import ApplyReport, BlockIndex, EngineMemory, EventApplier, apply_batch
from warmroute.kv_event.listener import EventSource, Listener, Position
from warmroute.kv_event.listening import Listeners, Listening, open_listener, threads_for
from warmroute.kv_event.messages import AllBlocksCleared, BlockRemoved, BlockStored, Event, EventBatch
from warmroute.kv_event.sequence import Duplicate, Gap, Next, Restart, SequenceTracker, Verdict
from warmroute.kv_event.subscriber import REPLAY_DEADLINE_S, Subscription
from warmroute.kv_event.subscription_state import SubscriptionObserver, SubscriptionState, Unobserved

__all__ = [
    "REPLAY_DEADLINE_S",
    "AllBlocksCleared",
    "ApplyReport",
    "BlockIndex",
    "BlockRemoved",
    "BlockStored",
    "Duplicate",
    "EngineMemory",
    "Event",
    "EventApplier",
    "EventBatch",
    "EventSource",
    "Gap",
    "Listener",
    "Listeners",
    "Listening",
    "Next",
    "Position",
    "Restart",
    "SequenceTracker",
    "Subscription",
    "SubscriptionObserver",
    "SubscriptionState",
    "Unobserved",
    "Verdict",
    "apply_batch",
    "open_listener",
    "threads_for",
]
