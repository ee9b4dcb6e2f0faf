"""Policies: which worker a request should go to, as a cost for each of them.

A policy only asks and computes; it changes nothing. Policies are registered in `POLICIES` by the name that a person
writes after `--policy`.
"""

from collections.abc import Callable, Mapping

from warmroute.policy.cost_model import CostModelPolicy
from warmroute.policy.least_loaded import LeastLoadedPolicy
from warmroute.policy.longest_prefix import LongestPrefixPolicy
from warmroute.policy.protocol import Candidate, Cost, Policy, PolicyRequest, cached_tokens, cheapest
from warmroute.policy.random_choice import RandomPolicy
from warmroute.policy.round_robin import RoundRobinPolicy
from warmroute.policy.weighted import WeightedPolicy

POLICIES: Mapping[str, Callable[[], Policy]] = {
    CostModelPolicy.name: CostModelPolicy,
    WeightedPolicy.name: WeightedPolicy,
    LongestPrefixPolicy.name: LongestPrefixPolicy,
    LeastLoadedPolicy.name: LeastLoadedPolicy,
    RoundRobinPolicy.name: RoundRobinPolicy,
    RandomPolicy.name: RandomPolicy,
}

__all__ = ["POLICIES", "Candidate", "Cost", "Policy", "PolicyRequest", "cached_tokens", "cheapest"]
