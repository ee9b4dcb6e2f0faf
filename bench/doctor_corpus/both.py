"""Two faults at once: the second one costs nothing more until the first is mended, and has to be found all the same."""

from dataclasses import replace
from random import Random

from bench.doctor_corpus.application import application
from bench.doctor_corpus.dialects import WITH_TOOLS, system_field
from bench.doctor_corpus.family import Case, Expected
from bench.doctor_corpus.orders import shuffled
from bench.doctor_corpus.traffic import questions
from bench.doctor_corpus.volatile import STYLES

from warmroute.doctor import Kind


def tools_and_head(rng: Random) -> Case:
    """Tools in another order each time, and something that changes at the head of the instructions behind them."""
    app = application(rng, dialects=WITH_TOOLS, tools=(4, 16), system_tokens=(800, 3_000))
    kind = rng.choice(tuple(STYLES))
    written = STYLES[kind](rng, app)
    asked = questions(rng, app, rng.randint(8, 14))
    texts = [written(rng, each) for each in asked]
    sent = [
        replace(each, system=f"{text}\n\n{each.system}", tools=shuffled(rng, app.tools))
        for each, text in zip(asked, texts, strict=True)
    ]
    healthy = [
        replace(each, messages=(replace(each.last, text=f"{each.last.text}\n\n{text}"),))
        for each, text in zip(asked, texts, strict=True)
    ]
    expected = (Expected(Kind.TOOL_ORDER, ("tools",)), Expected(kind, (system_field(app.dialect),)))
    return Case(app, sent, healthy, expected)
