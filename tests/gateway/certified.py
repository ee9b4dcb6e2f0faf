"""Certificates for tests, made by openssl: an authority, and what it has signed."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    """PEM files."""

    certificate: str
    key: str


@dataclass
class Authority:
    """Signs certificates that are valid for a day; `folder` is for its files."""

    folder: Path
    name: str = "authority"
    curve: str = "prime256v1"

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.pair = self._files(self.name)
        self._openssl(
            "req", "-x509", *self._new(self.pair.key), "-days", "1", "-subj", f"/CN={self.name}", "-out", self.ca
        )

    @property
    def ca(self) -> str:
        """Its own certificate."""
        return self.pair.certificate

    def signed(self, name: str, of: str = "IP:127.0.0.1") -> Pair:
        """A certificate of this name, for what `of` says as openssl writes it (subjectAltName)."""
        pair = self._files(name)
        request, extensions = str(self.folder / f"{name}.csr"), self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={of}\n")
        self._openssl("req", *self._new(pair.key), "-subj", f"/CN={name}", "-out", request)
        by = ("-CA", self.ca, "-CAkey", self.pair.key, "-CAcreateserial", "-days", "1", "-extfile", str(extensions))
        self._openssl("x509", "-req", "-in", request, *by, "-out", pair.certificate)
        return pair

    def _files(self, name: str) -> Pair:
        return Pair(str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key"))

    def _new(self, key: str) -> tuple[str, ...]:
        return ("-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{self.curve}", "-nodes", "-keyout", key)

    def _openssl(self, *words: str) -> None:
        subprocess.run(("openssl", *words), check=True, capture_output=True, timeout=20)
