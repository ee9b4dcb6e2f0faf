"""The workload: the same for the same seed, and of a size that makes routing matter."""

import itertools

import pytest

from warmroute.demo.options import MODEL, POD, DemoOptions
from warmroute.demo.show import workload_shape
from warmroute.demo.workload import WorkloadShape, build_workload, opening, plan_caches, resident_tokens
from warmroute.errors import ConfigError
from warmroute.openai_api import ChatContent, Endpoint, Prompt
from warmroute.tokenizer import LocalTokenizer, TokenIds

SMALL = WorkloadShape(agents=5, turns=3, rules=8, tools=3)


@pytest.fixture(scope="module")
def tokenizer() -> LocalTokenizer:
    return LocalTokenizer.load(MODEL)


class OneTokenPerCharacter:
    """An encoder whose counts can be made by hand: contents only, no template."""

    def encode(self, prompt: Prompt) -> TokenIds:
        (content,) = prompt.contents
        assert isinstance(content, ChatContent)
        total = sum(len(message["content"]) for message in content.messages)
        return TokenIds([0] * total, total)


def test_equal_seeds_give_equal_workloads_and_other_seeds_others() -> None:
    assert build_workload(SMALL, 7) == build_workload(SMALL, 7)
    assert build_workload(SMALL, 7) != build_workload(SMALL, 8)


def test_every_agent_has_its_conversations_and_they_start_in_order() -> None:
    workload = build_workload(SMALL, 0)
    assert workload.requests == SMALL.agents * SMALL.conversations_per_agent * SMALL.turns
    starts = [conversation.starts_at_s for conversation in workload.conversations]
    assert starts == sorted(starts)
    first = [conversation.agent.title for conversation in workload.conversations[: SMALL.agents]]
    assert sorted(first) == sorted(agent.title for agent in workload.agents)
    assert max(starts) < 2 * SMALL.ramp_s


def test_resident_tokens_count_what_is_shared_once() -> None:
    workload = build_workload(SMALL, 0)
    by_hand = sum(len(agent.instructions) for agent in workload.agents) + sum(
        len(turn.message) + turn.max_tokens for conversation in workload.conversations for turn in conversation.turns
    )
    assert resident_tokens(workload, OneTokenPerCharacter()) == by_hand


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_prefixes_fit_the_fleet_but_no_engine(tokenizer: LocalTokenizer, workers: int) -> None:
    plan = plan_caches(build_workload(SMALL, 1), tokenizer, workers, POD)
    assert plan.engine_capacity_tokens < plan.prefix_tokens < plan.fleet_capacity_tokens


def test_the_default_demo_has_prefixes_of_which_an_engine_holds_a_third_to_a_half(tokenizer: LocalTokenizer) -> None:
    options = DemoOptions()
    plan = plan_caches(build_workload(workload_shape(options), options.seed), tokenizer, options.workers, POD)
    assert 1 / 3 < plan.engine_capacity_tokens / plan.prefix_tokens < 1 / 2


def test_prompts_of_two_agents_differ_from_their_first_block_on(tokenizer: LocalTokenizer) -> None:
    agents = build_workload(WorkloadShape(agents=40), 0).agents
    blocks = {tuple(first_block(tokenizer, opening(agent))) for agent in agents}
    assert len(blocks) == len(agents)


def first_block(tokenizer: LocalTokenizer, messages: list[dict[str, str]]) -> list[int]:
    content = ChatContent(messages)
    return list(tokenizer.encode(Prompt(Endpoint.CHAT, contents=(content,))).ids[: POD.block_size])


def test_the_names_of_an_agents_functions_are_distinct() -> None:
    for agent in build_workload(SMALL, 3).agents:
        names = [tool["function"]["name"] for tool in agent.tools]
        assert len(set(names)) == len(names) == SMALL.tools


def test_thinking_and_lengths_stay_in_their_bounds() -> None:
    turns = itertools.chain.from_iterable(c.turns for c in build_workload(SMALL, 2).conversations)
    for turn in turns:
        assert SMALL.think_s[0] <= turn.think_s <= SMALL.think_s[1]
        assert SMALL.answer_tokens[0] <= turn.max_tokens <= SMALL.answer_tokens[1]


def test_options_that_show_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="workers must be at least 2"):
        DemoOptions(workers=1)
    with pytest.raises(ConfigError, match="turns must be at least 1"):
        DemoOptions(turns=0)


def test_a_policy_given_twice_is_shown_once() -> None:
    assert DemoOptions(policy=("warmroute", "random", "warmroute")).policies == ("warmroute", "random")
    assert DemoOptions().policies == ("random", "round-robin", "warmroute")
