"""Every router's policy, with its published defaults, to be compared on the same work.

    rival            one file each: a `Policy` in its own unit and terms, and its `Arm`
    own state        a rival that keeps some (trees, blocks in flight, order of use) is a `RouterObserver`: it changes
                     when a request was decided or settled, never when costs are asked for
    what it knows    events: `overlap`, less what only our router expects; text: chunks of tokens; load: requests in
                     flight, or metrics as old as the arm's scrapes

What is not imitated: a rival's own network, processes and time-outs, and how it notices that a worker was restarted.
"""

from collections.abc import Mapping

from warmroute.simulator.arm import Arm
from warmroute.simulator.rivals import (
    aibrix,
    baselines,
    bounded_load_sticky,
    cache_aware,
    dynamo,
    gorgo,
    llm_d,
    llm_d_affinity,
    power_of_two,
    preble,
    prefix_hash,
    production_stack,
    ray_prefix_affinity,
    session_sticky,
    smg_event,
    vllm_kv_aware,
)

__all__ = ["ARMS"]

_ALL = (
    *baselines.ARMS,
    power_of_two.ARM,
    session_sticky.ARM,
    bounded_load_sticky.ARM,
    prefix_hash.ARM,
    dynamo.ARM,
    *llm_d.ARMS,
    llm_d_affinity.ARM,
    *cache_aware.ARMS,
    vllm_kv_aware.ARM,
    smg_event.ARM,
    production_stack.ARM,
    ray_prefix_affinity.ARM,
    aibrix.ARM,
    gorgo.ARM,
    preble.ARM,
)

ARMS: Mapping[str, Arm] = {arm.name: arm for arm in _ALL}
"""All arms by name, ours first."""
