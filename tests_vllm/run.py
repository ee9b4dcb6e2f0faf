"""Runs the check as a script; `python -m tests_vllm` does the same. `--help` tells the options."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # As a script Python starts imports in this folder, which is itself the package.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    runpy.run_module("tests_vllm", run_name="__main__", alter_sys=True)
