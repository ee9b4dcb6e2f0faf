#!/usr/bin/env bash
# Installs the encoders beside which bench/tokenize.py measures ours into a virtual environment of its own
# (.venv-encoders), pinned by requirements/encoders.lock. Run again it does nothing, unless the lock has changed.
# Exit codes: 0 installed, 2 cannot be installed here.
#
#   PYTHON=/path/to/python3.11 scripts/install_encoders.sh      to name the interpreter
#   scripts/install_encoders.sh lock                            to write the lock anew (needs uv)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly name=encoders
readonly venv=.venv-encoders
readonly lock=requirements/encoders
readonly stamp=$venv/installed.sha256

source scripts/own_environment.sh

main() {
    if [[ ${1:-} == lock ]]; then
        write_locks "$lock"
        return
    fi
    if [[ -f $stamp ]] && sha256sum --check --status "$stamp"; then
        return
    fi
    local python
    python=$(find_python)
    say "installing into $venv (60 MB to fetch)"
    install_locked "$lock"
    "$venv/bin/python" -c 'import fastokens, gigatoken, kitoken, tokenizers, tokie' ||
        refuse "what was installed does not load (message above)" "remove $venv and try again"
    sha256sum "$lock.lock" >"$stamp"
    say "installed in $venv"
}

main "$@"
