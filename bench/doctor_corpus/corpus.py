"""The corpus: families of requests with labels, drawn from a seed, and all of them in one log, as traffic comes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from bench.doctor_corpus import both, forms, histories, namespaces, near_misses, orders, placed, templates
from bench.doctor_corpus.application import Application, Envelope
from bench.doctor_corpus.asked import Asked
from bench.doctor_corpus.clean import CLEAN
from bench.doctor_corpus.dialects import body
from bench.doctor_corpus.family import Family, Scenario

from warmroute.doctor import Kind, Logged

FAULTS: Mapping[Kind, Sequence[Scenario]] = {
    Kind.DATE_TIME: (*placed.scenarios(Kind.DATE_TIME), placed.day_at_head),
    Kind.EPOCH: placed.scenarios(Kind.EPOCH),
    Kind.UUID: placed.scenarios(Kind.UUID),
    Kind.ULID: placed.scenarios(Kind.ULID),
    Kind.HEX_ID: placed.scenarios(Kind.HEX_ID),
    Kind.TRACE_ID: placed.scenarios(Kind.TRACE_ID),
    Kind.COUNTER: placed.scenarios(Kind.COUNTER),
    Kind.USER_DATA: placed.scenarios(Kind.USER_DATA),
    Kind.URL: (*placed.scenarios(Kind.URL), placed.image_url),
    Kind.TOOL_ORDER: (orders.tools_shuffled, orders.tools_by_host),
    Kind.DOCUMENT_ORDER: (orders.documents_in_system, orders.documents_in_message, orders.documents_field),
    Kind.KEY_ORDER: (orders.schema_keys, orders.settings_keys),
    Kind.EXAMPLE_ORDER: (orders.examples_in_system, orders.examples_as_messages),
    Kind.WHITE_SPACE: forms.WHITE_SPACE,
    Kind.LINE_ENDINGS: forms.LINE_ENDINGS,
    Kind.UNICODE_FORM: forms.UNICODE_FORM,
    Kind.SYSTEM_PROMPT: (histories.state_in_system, histories.state_behind_system),
    Kind.HISTORY_TRUNCATED: (histories.truncated, histories.truncated_by_length),
    Kind.HISTORY_SUMMARISED: (histories.summary_as_message, histories.summary_in_system),
    Kind.REASONING_DROPPED: (
        histories.thoughts_left_out,
        histories.thoughts_left_out_after_calls,
        histories.thoughts_cut_from_text,
    ),
    Kind.TEMPLATE_DATE: templates.TEMPLATE_DATE,
    Kind.MODEL: (namespaces.alias_of_each_client, namespaces.switched_by_turn),
    Kind.ADAPTER: (namespaces.adapter_in_model, namespaces.adapter_by_path),
    Kind.SALT: (namespaces.salt_of_each_request, namespaces.salt_of_each_hour),
    Kind.SHORT_PREFIX: (templates.shorter_than_a_block, templates.lost_in_the_last_block),
}
"""By kind what may go wrong; every kind that the doctor names has some."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many families: of each kind, with two faults, clean ones, and of each near miss."""

    faults: int = 10
    both: int = 10
    clean: int = 75
    near_misses: int = 3


SMALL = Size(faults=2, both=5, clean=20, near_misses=1)


@dataclass(frozen=True, slots=True)
class Corpus:
    """log: the number of a family and of a request in it, in the order in which they come."""

    seed: int
    families: Sequence[Family]
    log: Sequence[tuple[int, int]]

    def requests(self) -> Iterator[Logged]:
        """The whole log."""
        return (self.families[family].requests[request] for family, request in self.log)


def draw(seed: int, size: Size | None = None) -> Corpus:
    """The corpus of a seed. Each family has a seed of its own, so that more of one kind leave the others alone."""
    families = [
        _family(f"{kind}/{number}", scenario, Random(f"{seed}/{kind}/{number}"))
        for kind, number, scenario in _wanted(size or Size())
    ]
    order = [
        (at_s, family, request) for family, each in enumerate(families) for request, at_s in enumerate(each.times_s)
    ]
    return Corpus(seed, families, [(family, request) for _, family, request in sorted(order)])


def _wanted(size: Size) -> Iterator[tuple[str, int, Scenario]]:
    for kind, scenarios in FAULTS.items():
        for number in range(size.faults):
            yield kind, number, scenarios[number % len(scenarios)]
    for number in range(size.both):
        yield "both", number, both.tools_and_head
    for number in range(size.clean):
        yield "clean", number, CLEAN[number % len(CLEAN)]
    for number in range(size.near_misses * len(near_misses.NEAR_MISSES)):
        yield "near-miss", number, near_misses.NEAR_MISSES[number % len(near_misses.NEAR_MISSES)]


def _family(name: str, scenario: Scenario, rng: Random) -> Family:
    case = scenario(rng)
    app = case.application
    return Family(
        name=name,
        scenario=getattr(scenario, "__qualname__", "").removesuffix(".<locals>.case"),
        language=app.voice.language.tag,
        requests=[_logged(app, asked) for asked in case.sent],
        times_s=[asked.at_s for asked in case.sent],
        healthy=[body(asked, app.dialect, app.in_parts) for asked in case.healthy],
        expected=case.expected,
    )


def _logged(app: Application, asked: Asked) -> Logged:
    written = body(asked, app.dialect, app.in_parts)
    if app.envelope is Envelope.BARE:
        return Logged(written)
    if app.envelope is Envelope.TIMED:
        return Logged(written, app.dialect.value, asked.at_s)
    return Logged(written, app.dialect.value, asked.at_s, asked.session, asked.user, app.name)
