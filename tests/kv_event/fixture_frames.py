"""The golden frames: from the engines' own publishers (`wire`), and from a real vLLM 0.32 server."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "fixtures" / "kv_event"


@dataclass(frozen=True)
class WireFixture:
    engine: str
    version: str
    stored_fields: list[str]
    removed_fields: list[str]
    live: list[list[bytes]]
    decoded: list[Any]
    replay_request: list[bytes]
    # The payload of a reply is given by its length only: `<payload 193B>`.
    replay_reply: list[list[str]]

    @property
    def name(self) -> str:
        return f"{self.engine}-{self.version}"


def wire_fixtures() -> list[WireFixture]:
    entries = json.loads((FOLDER / "kv_event_wire_fixtures.json").read_text())
    return [
        WireFixture(
            engine=entry["engine"],
            version=entry["version"],
            stored_fields=entry["stored_fields"],
            removed_fields=entry["removed_fields"],
            live=[[bytes.fromhex(frame) for frame in message] for message in entry["live"]],
            decoded=ast.literal_eval(entry["decoded"]),
            replay_request=[bytes.fromhex(frame) for frame in entry["replay_request"]],
            replay_reply=entry["replay_reply"],
        )
        for entry in entries
    ]


def captured(name: str) -> list[list[bytes]]:
    """The multipart messages of one capture, in order."""
    lines = (FOLDER / f"vllm-0.32-{name}.jsonl").read_text().splitlines()
    return [[bytes.fromhex(frame) for frame in json.loads(line)["frames_hex"]] for line in lines]
