"""Policies: which worker a request should go to, as a cost for each of them.

A policy only asks and computes; it changes nothing. Policies are registered in `POLICIES` by the name that a person
writes after `--policy`; one of a person's own is named `package.module:Class` there, and is no less.
"""

from warmroute.policy.named import POLICIES, check_policy_name, no_such_policy, policy_named
from warmroute.policy.own import SHAPE, is_own, own_policy
from warmroute.policy.protocol import Candidate, Cost, Policy, PolicyRequest, attended, cached_tokens, cheapest

__all__ = [
    "POLICIES",
    "SHAPE",
    "Candidate",
    "Cost",
    "Policy",
    "PolicyRequest",
    "attended",
    "cached_tokens",
    "cheapest",
    "check_policy_name",
    "is_own",
    "no_such_policy",
    "own_policy",
    "policy_named",
]
