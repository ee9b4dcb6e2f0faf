"""Who may come in, and what the router shows of itself to workers; taken anew from its files at each reload.

Without `--api-keys` nobody needs a key, and what a client shows in `Authorization` or `x-api-key` goes on to the
worker. With it a client's key is the router's: it is never sent on, and a worker gets the router's own
(`--worker-api-key-file`). What the router itself asks of workers carries that key in both cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.answers import JSON_TYPE, Answer, error_answer
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.destinations import Destinations, destinations
from warmroute.gateway.keys import Key, KeyRing, Role, read_keys
from warmroute.gateway.relay import Arrival
from warmroute.gateway.reload import Apply
from warmroute.gateway.tls import Tls
from warmroute.gateway.worker_keys import Headers, WorkerKeys, read_worker_keys
from warmroute.worker import Worker, WorkerSpec

_BEARER = "bearer "
_CHALLENGE = ("www-authenticate", 'Bearer realm="warmroute"')


@dataclass(frozen=True, slots=True)
class Rights:
    """What the options and their files say; `keys` None: nobody needs one."""

    keys: KeyRing | None = None
    worker_keys: WorkerKeys = field(default_factory=WorkerKeys)
    destinations: Destinations = field(default_factory=Destinations)


def read_rights(options: AccessOptions, specs: Sequence[WorkerSpec] = ()) -> Rights:
    """Raises ConfigError for a file that cannot be used, and for a worker that is not where workers may be."""
    allowed = destinations(options.allow_workers)
    for spec in specs:
        allowed.check(spec)
    keys = None if options.api_keys is None else read_keys(Path(options.api_keys).expanduser())
    told = options.worker_api_key_file
    return Rights(keys, WorkerKeys() if told is None else read_worker_keys(Path(told).expanduser()), allowed)


@dataclass(slots=True)
class Access:
    """Judges requests by the key that they show; has the certificates."""

    rights: Rights
    tls: Tls

    def refusal(self, arrival: Arrival, role: Role) -> Answer | None:
        """What a request is told that shows no key which is good for what needs `role`; None for one that may go on."""
        if self.rights.keys is None:
            return None
        key = self._key_of(arrival, self.rights.keys)
        if key is None:
            answer = error_answer(arrival.path, 401, "invalid_api_key", "no valid API key was shown to the router")
            return Answer(401, answer.body, (JSON_TYPE, _CHALLENGE))
        if not key.may(role):
            return error_answer(arrival.path, 403, "admin_key_needed", f"this page needs a key of the role {role}")
        return None

    def tenant_of(self, arrival: Arrival) -> str:
        """For whom a request is: the name of its key; nobody in particular where keys are not needed."""
        key = None if self.rights.keys is None else self._key_of(arrival, self.rights.keys)
        return "" if key is None else key.name

    def headers_for(self, worker: Worker) -> Headers:
        """What a worker gets in place of the client's key; nothing where the client's own goes on."""
        return () if self.rights.keys is None else self.rights.worker_keys.instead_of_the_clients(worker.spec.url)

    def passes_credentials(self) -> bool:
        """Whether what clients show is for the workers."""
        return self.rights.keys is None

    def prepare(self, old: Configuration, new: Configuration) -> Apply:
        """See `warmroute.gateway.reload.Prepare`."""
        rights = read_rights(new.access, new.specs)

        async def apply() -> None:
            self.rights = rights

        return apply

    def _key_of(self, arrival: Arrival, keys: KeyRing) -> Key | None:
        """The key that is shown as OpenAI's clients do, else as Anthropic's do."""
        shown = arrival.header("authorization")
        if shown is not None and shown[: len(_BEARER)].lower() == _BEARER:
            key = keys.key_of(shown[len(_BEARER) :].strip())
            if key is not None:
                return key
        shown = arrival.header("x-api-key")
        return None if shown is None else keys.key_of(shown.strip())
