"""The agent workload: what is asked, when, and how much of it an engine would have to keep.

Several agents, each with a long system prompt and tools of its own; several conversations with each; in each turn the
whole history comes again, with the model's real answers in it. A conversation waits for its answer and thinks before
it goes on, so the offered load is the same for every policy until the engines fall behind.
"""

import dataclasses
import random
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from warmroute.demo import prose
from warmroute.engine_model import EngineOptions
from warmroute.openai_api import ChatContent, Endpoint, Prompt
from warmroute.tokenizer import TokenIds

# The fleet's caches hold all prefixes this many times: room for some to be held twice and for workers to differ.
_FLEET_HEADROOM = 1.6


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """How large a workload is. Lengths in lines or tokens, times in seconds of wall-clock.

    In the first `ramp_s` each agent gets its first conversation, in the next as long all others: agents come up one
    after the other, and then their users come.
    """

    agents: int
    conversations_per_agent: int = 3
    turns: int = 6
    rules: int = 60
    tools: int = 10
    message_lines: tuple[int, int] = (2, 4)
    answer_tokens: tuple[int, int] = (8, 24)
    think_s: tuple[float, float] = (0.8, 2.0)
    ramp_s: float = 3.0


@dataclass(frozen=True, slots=True)
class Agent:
    """What all conversations with one agent begin with."""

    title: str
    instructions: str
    tools: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a user, `think_s` seconds after the answer to the one before."""

    message: str
    max_tokens: int
    think_s: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns with one agent; the first comes `starts_at_s` seconds (and its thinking) after the start of the load."""

    agent: Agent
    starts_at_s: float
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything that will be asked, in the order of the conversations' starts."""

    agents: tuple[Agent, ...]
    conversations: tuple[Conversation, ...]

    @property
    def requests(self) -> int:
        return sum(len(conversation.turns) for conversation in self.conversations)


class PromptEncoder(Protocol):
    """What measuring needs of a tokenizer."""

    def encode(self, prompt: Prompt) -> TokenIds:
        """The prompt's tokens."""


@dataclass(frozen=True, slots=True)
class CachePlan:
    """How the caches are sized for a workload: each engine holds a part of the prefixes, the fleet all of them.

    prefix_tokens: distinct tokens of all conversations at their end, what two have in common counted once.
    """

    prefix_tokens: int
    workers: int
    engine: EngineOptions

    @property
    def engine_capacity_tokens(self) -> int:
        return self.engine.capacity_tokens

    @property
    def fleet_capacity_tokens(self) -> int:
        return self.engine_capacity_tokens * self.workers


def build_workload(shape: WorkloadShape, seed: int) -> Workload:
    """The workload of this shape and seed; equal arguments give equal workloads."""
    agents = tuple(_agent(random.Random(f"{seed}/{index}"), index, shape) for index in range(shape.agents))
    rng = random.Random(f"{seed}/conversations")
    first = rng.sample(agents, len(agents))
    later = [agent for agent in agents for _ in range(shape.conversations_per_agent - 1)]
    rng.shuffle(later)
    starts = [*_spread(first, 0.0, shape.ramp_s), *_spread(later, shape.ramp_s, shape.ramp_s)]
    conversations = (
        Conversation(agent, start, tuple(_turn(rng, shape) for _ in range(shape.turns))) for agent, start in starts
    )
    return Workload(agents, tuple(conversations))


def plan_caches(workload: Workload, encoder: PromptEncoder, workers: int, pod: EngineOptions) -> CachePlan:
    """`pod` with a cache sized for `workload` on `workers` engines, at least 2."""
    prefix_tokens = resident_tokens(workload, encoder)
    num_blocks = ceil(prefix_tokens * _FLEET_HEADROOM / workers / pod.block_size)
    plan = CachePlan(prefix_tokens, workers, dataclasses.replace(pod, num_blocks=num_blocks))
    assert plan.engine_capacity_tokens < plan.prefix_tokens < plan.fleet_capacity_tokens, f"nothing to show: {plan}"
    return plan


def resident_tokens(workload: Workload, encoder: PromptEncoder) -> int:
    """Tokens that would have to be kept so that nothing is ever computed twice, answers at their full length."""
    shared = {agent.title: _tokens(agent, [], encoder) for agent in workload.agents}
    own = (
        _tokens(conversation.agent, [turn.message for turn in conversation.turns], encoder)
        + sum(turn.max_tokens for turn in conversation.turns)
        - shared[conversation.agent.title]
        for conversation in workload.conversations
    )
    return sum(shared.values()) + sum(own)


def opening(agent: Agent) -> list[dict[str, Any]]:
    """The messages that every conversation with `agent` begins with."""
    return [{"role": "system", "content": agent.instructions}]


def _tokens(agent: Agent, user_messages: list[str], encoder: PromptEncoder) -> int:
    """Tokens of a conversation whose answers are still empty."""
    messages = opening(agent)
    for message in user_messages:
        messages += [{"role": "user", "content": message}, {"role": "assistant", "content": ""}]
    content = ChatContent(messages, agent.tools, add_generation_prompt=False)
    return encoder.encode(Prompt(Endpoint.CHAT, contents=(content,))).total


def _agent(rng: random.Random, index: int, shape: WorkloadShape) -> Agent:
    title = prose.agent_title(index)
    return Agent(title, prose.instructions(rng, title, shape.rules), prose.tools(rng, shape.tools))


def _spread(agents: list[Agent], begin_s: float, over_s: float) -> list[tuple[Agent, float]]:
    """Each agent with a start, evenly from `begin_s` on: what is shown is not a crowd at the door."""
    return [(agent, begin_s + over_s * place / len(agents)) for place, agent in enumerate(agents)]


def _turn(rng: random.Random, shape: WorkloadShape) -> Turn:
    message = prose.findings(rng, rng.randint(*shape.message_lines))
    return Turn(message, rng.randint(*shape.answer_tokens), rng.uniform(*shape.think_s))
