"""Texts that are another one in every request, or for everybody, by their kind."""

from collections.abc import Callable, Sequence
from random import Random
from uuid import UUID

from bench.doctor_corpus.application import Application
from bench.doctor_corpus.asked import Asked

from warmroute.doctor import Kind

Written = Callable[[Random, Asked], str]
"""Writes the text for a request."""
Style = Callable[[Random, Application], Written]
"""Chooses how an application writes it."""
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PLANS = ("Gold", "Basic", "Premium", "Team", "Trial")


def _moment(rng: Random, app: Application) -> Written:
    """The time in the language of the application, or in one that machines write."""
    language, words = app.voice.language, app.voice.words
    own_digits = rng.random() < 0.5
    form = rng.choice((*language.moments, "{year}-{month2}-{day2}T{hour2}:{minute2}:{second2}+00:00"))
    label = rng.choice((words["now"], "Current time", words["now"]))
    return lambda _, asked: f"{label}: {language.written(form, asked.at_s, own_digits)}"


def day_alone(rng: Random, app: Application) -> Written:
    """The day alone; the requests must lie days apart."""
    language, form = app.voice.language, rng.choice(app.voice.language.days)
    own_digits = rng.random() < 0.5
    return lambda _, asked: f"{app.voice.words['today']} {language.written(form, asked.at_s, own_digits)}."


def _epoch(rng: Random, app: Application) -> Written:
    forms: Sequence[Written] = (
        lambda _, asked: f"ts={asked.at_s:.0f}",
        lambda _, asked: f"timestamp: {1_000 * asked.at_s:.0f}",
        lambda _, asked: f"{app.voice.words['now']}: {asked.at_s:.3f}",
        lambda _, asked: f'{{"generated_at": {asked.at_s:.0f}}}',
    )
    return rng.choice(forms)


def uuid(rng: Random) -> str:
    """A random UUID."""
    return str(UUID(int=rng.getrandbits(128), version=4))


def _uuid(rng: Random, app: Application) -> Written:
    request = app.voice.words["request"]
    forms: Sequence[Written] = (
        lambda draw, _: f"{request} {uuid(draw)}",
        lambda draw, _: f"[{uuid(draw)}]",
        lambda draw, _: f"request_id: {uuid(draw).upper()}",
        lambda draw, _: f"<conversation id='{uuid(draw)}'/>",
    )
    return rng.choice(forms)


def ulid(rng: Random, at_s: float) -> str:
    """A ULID of a moment."""
    value = (int(1_000 * at_s) << 80) | rng.getrandbits(80)
    return "".join(_CROCKFORD[value >> 5 * place & 31] for place in reversed(range(26)))


def _ulid(rng: Random, app: Application) -> Written:
    request = app.voice.words["request"]
    forms: Sequence[Written] = (
        lambda draw, asked: f"{request}: {ulid(draw, asked.at_s)}",
        lambda draw, asked: f"run_{ulid(draw, asked.at_s)}",
        lambda draw, asked: f"[{ulid(draw, asked.at_s)}]",
    )
    return rng.choice(forms)


def hexadecimal(rng: Random, digits: int) -> str:
    """Digits as of a hash, at least one of them a letter."""
    return f"{rng.getrandbits(4 * digits - 4):0{digits - 1}x}" + rng.choice("abcdef")


def _hex_id(rng: Random, app: Application) -> Written:
    request = app.voice.words["request"]
    forms: Sequence[Written] = (
        lambda draw, _: f"{request} {hexadecimal(draw, 24)}",
        lambda draw, _: f"nonce: {hexadecimal(draw, 16)}",
        lambda draw, _: f"sha256:{hexadecimal(draw, 64)}",
        lambda draw, _: f"req_{hexadecimal(draw, 20)}",
        lambda draw, _: f"commit {hexadecimal(draw, 40)}",
    )
    return rng.choice(forms)


def _trace_id(rng: Random, app: Application) -> Written:
    label = app.voice.words["trace"]
    forms: Sequence[Written] = (
        lambda draw, _: f"traceparent: 00-{hexadecimal(draw, 32)}-{hexadecimal(draw, 16)}-01",
        lambda draw, _: f"trace_id={hexadecimal(draw, 32)} span_id={hexadecimal(draw, 16)}",
        lambda draw, _: f"{label} (trace_id): {hexadecimal(draw, 32)}",
        lambda draw, asked: f"X-Amzn-Trace-Id: Root=1-{int(asked.at_s):x}-{hexadecimal(draw, 24)}",
    )
    return rng.choice(forms)


def _counter(rng: Random, app: Application) -> Written:
    """Goes up by one or a few from request to request."""
    count = rng.randrange(2, 5_000)
    words, form = app.voice.words, rng.randrange(4)
    forms = (f"{words['request']} {{}}", f"{words['visit']} {{}}", "#{}", "seq: {}")

    def written(draw: Random, _: Asked) -> str:
        nonlocal count
        count += draw.randint(1, 3)
        return forms[form].format(count)

    return written


def person(rng: Random, app: Application) -> str:
    """Somebody whose name and address are known to the application."""
    mail = f"{rng.choice(('k', 'm', 's', 'a'))}.{''.join(rng.choices('abdegiklmnorstu', k=7))}@example.org"
    return f"{rng.choice(app.voice.persons)} <{mail}>"


def _user_data(rng: Random, app: Application) -> Written:
    """Another one for each user, the same in all requests of one session."""
    words, known, form = app.voice.words, dict[str | None, str](), rng.randrange(3)

    def told(draw: Random) -> str:
        plan, place = draw.choice(_PLANS), draw.choice(app.voice.places)
        if form == 0:
            return f"{words['user']}: {person(draw, app)}, {words['plan']}: {plan}, {place}"
        if form == 1:
            made = "".join(draw.choices(app.voice.language.sentences["syllables"], k=3)).capitalize()
            return f"{words['tenant']}: {made} ({place}), {words['plan']}: {plan}"
        return f'<user name="{draw.choice(app.voice.persons)}" mail="{person(draw, app)[:-1].split("<")[1]}"/>'

    def written(draw: Random, asked: Asked) -> str:
        return known.setdefault(asked.session, told(draw))

    return written


def signed_url(rng: Random, app: Application) -> Written:
    """The same file, signed anew each time, or at another of several hosts."""
    file = f"{rng.choice(('manual', 'pricelist', 'floorplan', 'photo'))}-{rng.randrange(99)}"
    forms: Sequence[Written] = (
        lambda draw, asked: (
            f"https://files.s3.amazonaws.com/{file}.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256"
            f"&X-Amz-Date={app.voice.language.written('{year}{month2}{day2}T{hour2}{minute2}{second2}Z', asked.at_s)}"
            f"&X-Amz-Expires=900&X-Amz-Signature={hexadecimal(draw, 64)}"
        ),
        lambda draw, asked: (
            f"https://storage.googleapis.com/desk/{file}.png?GoogleAccessId=desk&Expires={asked.at_s + 900:.0f}"
            f"&Signature={hexadecimal(draw, 40)}"
        ),
        lambda draw, _: f"https://cdn{draw.randrange(64)}.example.net/{hexadecimal(draw, 12)}/{file}.jpg",
        lambda draw, asked: (
            f"https://desk.blob.core.windows.net/docs/{file}.pdf?sv=2024-11-04&se={asked.at_s + 3600:.0f}"
            f"&sr=b&sp=r&sig={hexadecimal(draw, 43)}%3D"
        ),
    )
    return rng.choice(forms)


def _url(rng: Random, app: Application) -> Written:
    link, written = app.voice.words["link"], signed_url(rng, app)
    return lambda draw, asked: f"{link}: {written(draw, asked)}"


STYLES: dict[Kind, Style] = {
    Kind.DATE_TIME: _moment,
    Kind.EPOCH: _epoch,
    Kind.UUID: _uuid,
    Kind.ULID: _ulid,
    Kind.HEX_ID: _hex_id,
    Kind.TRACE_ID: _trace_id,
    Kind.COUNTER: _counter,
    Kind.USER_DATA: _user_data,
    Kind.URL: _url,
}
