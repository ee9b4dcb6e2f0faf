from pathlib import Path

import pytest

from simulator.workloads.made import turns
from warmroute.errors import ConfigError
from warmroute.simulator.workloads.azure import SizeTrace, read_sizes
from warmroute.simulator.workloads.window import Window

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_times_and_lengths(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    # The last line of one of the real files has no end.
    path.write_text(
        HEADER + "2023-11-16 18:17:04.0319600,3180,8\r\n2023-11-16 18:17:03.9819600,4808,10\n"
        "2023-11-16 18:18:03.9819600,110,27"
    )
    sessions = list(SizeTrace(read_sizes(path), Window(1000.0)).sessions(1))
    assert [session.start_s for session in sessions] == pytest.approx([0.0, 0.05, 60.0])
    assert [(len(turn.prompt), len(turn.answer)) for turn in turns(sessions)] == [(4808, 10), (3180, 8), (110, 27)]
    beginnings = {turn.prompt.ids()[:16].tobytes() for turn in turns(sessions)}
    assert len(beginnings) == 3, "nothing in common"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,in,out\n", "must begin with the line TIMESTAMP,ContextTokens,GeneratedTokens"),
        ("", "must begin with the line"),
        (HEADER, "nothing follows its first line"),
        (HEADER + "2023-11-16 18:17:04.0319600,3180\n", "line 2: "),
        (HEADER + "2023-11-16 18:17:04.0319600,1,1\nyesterday,1,2\n", "line 3: "),
        (HEADER + "2023-11-16 18:17:04.0319600,many,2\n", "line 2: .*many"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_sizes(path)
