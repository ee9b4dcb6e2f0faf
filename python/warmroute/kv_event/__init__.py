"""What engines say about their KV caches: read from the wire, applied to the prefix index, followed over ZeroMQ.

frames   multipart message -> sequence number and payload        decode   payload -> events
apply    events -> prefix index                                  sequence gaps, restarts, duplicates
replay   what a publisher has sent before                        inbox    the socket, read by the slice
subscriber keeps one lane's view in step                         listening the threads that lanes are followed on
"""

from warmroute.kv_event.apply import ApplyReport, BlockIndex, CacheGroups, apply_batch
from warmroute.kv_event.decode import decode_batch
from warmroute.kv_event.listener import EventSource, Listener, Position
from warmroute.kv_event.listening import Listeners, Listening, open_listener
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
    "CacheGroups",
    "Duplicate",
    "Event",
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
    "decode_batch",
    "open_listener",
]
