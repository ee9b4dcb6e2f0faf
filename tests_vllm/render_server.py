"""vLLM's render server, as `vllm launch render` starts it: its tokenizer and its pages, no engine and no weights.

Run by the Python of vLLM's environment. Of the package for CPUs the command itself cannot be used: it asks for the
version of a package named vllm.
"""

import uvloop
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.render.entry import run_launch_fastapi  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

if __name__ == "__main__":
    uvloop.run(run_launch_fastapi(make_arg_parser(FlexibleArgumentParser()).parse_args()))
