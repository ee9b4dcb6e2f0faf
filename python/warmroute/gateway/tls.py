"""Certificates: those that the router shows to clients and operators, and what it believes and shows to workers.

Renewed files are taken over while requests run. Connections that are open go on as they are.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warmroute.errors import ConfigError
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.relay import ClientTlsFiles, RelayServer, TlsFiles
from warmroute.gateway.reload import Apply

# A listener that never listens: the relay takes fewer kinds of keys than OpenSSL (no P-521), and says so here, where
# nothing is changed by it.
_TRIED = "tried"
# Of a key that is encrypted OpenSSL would ask the password at the terminal, and wait.
_NO_PASSWORD = ""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of each listener that speaks TLS, by its name, and those for workers at https://."""

    listeners: Mapping[str, TlsFiles] = field(default_factory=dict)
    workers: ClientTlsFiles = field(default_factory=ClientTlsFiles)


def certificates(options: AccessOptions) -> Certificates:
    """Raises ConfigError where a file is named without the one that belongs to it, or cannot be used."""
    told = {
        "traffic": _listener("tls", options.tls_cert, options.tls_key, options.tls_client_ca),
        "admin": _listener("admin_tls", options.admin_tls_cert, options.admin_tls_key, options.admin_tls_client_ca),
    }
    identity = _pair("worker_client", options.worker_client_cert, options.worker_client_key)
    ca = None if options.worker_ca is None else _path(options.worker_ca)
    listeners = {name: files for name, files in told.items() if files is not None}
    return Certificates(listeners, ClientTlsFiles(ca, identity))


class Tls:
    """The certificates in use. Raises ConfigError, as `certificates`, for files that cannot be used."""

    def __init__(self, options: AccessOptions) -> None:
        self._files = certificates(options)
        self._relays: dict[str, RelayServer] = {}
        self.for_workers = ssl.create_default_context()
        """For the router's own questions; what it believed once it believes until it ends."""
        _load(self.for_workers, self._files.workers)

    def begin(self, listener: str, relay: RelayServer) -> bool:
        """Have a listener that is about to open speak TLS, if it is to; whether it is. Raises ConfigError."""
        self._relays[listener] = relay
        files = self._files.listeners.get(listener)
        if files is not None:
            relay.set_tls(listener, files)
        return files is not None

    def carry(self, relay: RelayServer) -> None:
        """Have a relay use the certificates for workers. Raises ConfigError."""
        if self._files.workers != ClientTlsFiles():
            relay.set_client_tls(self._files.workers)

    def prepare(self, old: Configuration, new: Configuration) -> Apply:
        """See `warmroute.gateway.reload.Prepare`."""
        told = certificates(new.access)
        if told.listeners.keys() != self._files.listeners.keys():
            raise ConfigError("whether a listener speaks TLS changes with a restart only")
        _load(ssl.create_default_context(), told.workers)
        for files in told.listeners.values():
            self._relays["traffic"].set_tls(_TRIED, files)

        async def apply() -> None:
            self._files = told
            # First those that nothing but this tries in the relay.
            self.carry(self._relays["traffic"])
            for listener, relay in self._relays.items():
                self.begin(listener, relay)
            _load(self.for_workers, told.workers)

        return apply


def _listener(name: str, certificate: str | None, key: str | None, client_ca: str | None) -> TlsFiles | None:
    pair = _pair(name, certificate, key)
    if pair is None:
        if client_ca is not None:
            raise ConfigError(f"{name}_client_ca needs {name}_cert and {name}_key beside it")
        return None
    files = TlsFiles(*pair, None if client_ca is None else _path(client_ca))
    _check(files)
    return files


def _pair(name: str, certificate: str | None, key: str | None) -> tuple[Path, Path] | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ConfigError(f"{name}_cert and {name}_key belong together")
    return _path(certificate), _path(key)


def _check(files: TlsFiles) -> None:
    """As far as this can be seen before the relay takes them: then nothing has changed yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key, _NO_PASSWORD)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
    except OSError as error:
        raise ConfigError(f"the certificate {files.certificate} with {files.key} cannot be used: {error}") from error


def _load(context: ssl.SSLContext, files: ClientTlsFiles) -> None:
    try:
        if files.ca is not None:
            context.load_verify_locations(files.ca)
        if files.identity is not None:
            context.load_cert_chain(*files.identity, _NO_PASSWORD)
    except OSError as error:
        raise ConfigError(f"the certificates for workers cannot be used: {error}") from error


def _path(file: str) -> Path:
    return Path(file).expanduser()
