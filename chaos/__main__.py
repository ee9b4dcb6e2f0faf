"""`python -m chaos`: exit code 0 where everything held, 1 where something did not, 2 where the harness failed."""

import asyncio
import sys

from chaos.engine_process import ChaosError
from chaos.options import read_options
from chaos.run import run


def main() -> int:
    """One run."""
    options = read_options()
    sys.stderr.write(f"chaos for {options.seconds:g} s, seed {options.seed}\n")
    try:
        report = asyncio.run(run(options))
    except ChaosError as error:
        sys.stderr.write(f"chaos: {error}\n")
        return 2
    sys.stdout.write(report.as_json() + "\n" if options.json else report.as_text())
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
