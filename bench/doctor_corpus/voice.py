"""How one application sounds: a language, and the firm, the products and the places that its texts are about."""

from random import Random

from bench.doctor_corpus.language import Language

_PRODUCTS, _PLACES, _THINGS, _PERSONS = 14, 6, 12, 6


class Voice:
    """Makes sentences about what one firm has to do with; which, `rng` decides at each call."""

    def __init__(self, language: Language, rng: Random) -> None:
        self.language = language
        self.words = language.words
        sentences = language.sentences
        self.firm = rng.choice(sentences["firms"]).format(name=self._name(rng))
        self.role = rng.choice(sentences["roles"])
        self.places = rng.sample(sentences["places"], _PLACES)
        self.persons = rng.sample(sentences["persons"], _PERSONS)
        self._things = rng.sample(sentences["things"], _THINGS)
        self._products = [f"{self._name(rng)} {rng.randrange(2, 90)}" for _ in range(_PRODUCTS)]

    def _name(self, rng: Random) -> str:
        return "".join(rng.choices(self.language.sentences["syllables"], k=rng.randint(2, 3))).capitalize()

    def sentence(self, rng: Random, kind: str) -> str:
        """One of a kind, such as `facts`, with its gaps filled."""
        return self._filled(rng, rng.choice(self.language.sentences[kind]))

    def _filled(self, rng: Random, sentence: str) -> str:
        return sentence.format(
            role=self.role,
            firm=self.firm,
            thing=rng.choice(self._things),
            product=rng.choice(self._products),
            place=rng.choice(self.places),
            person=rng.choice(self.persons),
            number=rng.randrange(2, 999),
        )

    def rule(self, rng: Random) -> str:
        """One rule of a system prompt."""
        parts = (self.sentence(rng, kind) for kind in ("occasions", "duties", "cautions"))
        occasion, duty, caution = parts
        text = rng.choice(self.language.sentences["rules"]).format(occasion=occasion, duty=duty, caution=caution)
        return text[:1].upper() + text[1:]

    def rules(self, rng: Random, size: int) -> str:
        """Numbered rules of about `size` bytes."""
        lines, total = list[str](), 0
        while total < size:
            lines.append(f"{len(lines) + 1}. {self.rule(rng)}")
            total += len(lines[-1].encode())
        return "\n".join(lines)

    def paragraph(self, rng: Random, size: int) -> str:
        """Facts of about `size` bytes, as a document has them."""
        told, total = [self.sentence(rng, "facts")], 0
        while (total := total + len(told[-1].encode())) < size:
            told.append(self.sentence(rng, "facts"))
        return " ".join(told)

    def question(self, rng: Random, sentences: int = 1) -> str:
        """What somebody asks, after what they tell first."""
        told = [self.sentence(rng, "facts") for _ in range(sentences - 1)]
        return " ".join([*told, self.sentence(rng, "questions")])

    def answer(self, rng: Random) -> str:
        """What an assistant says, in a few sentences."""
        return " ".join(self.sentence(rng, rng.choice(("answers", "facts"))) for _ in range(rng.randint(1, 5)))

    def opening(self, rng: Random) -> str:
        """The first lines of a system prompt."""
        return self.sentence(rng, "openings")
