#!/usr/bin/env bash
# Installs the encoders beside which bench/tokenize.py measures ours into a virtual environment of its own
# (.venv-encoders), pinned by requirements/encoders.lock. Run again it does nothing, unless the lock has changed.
# Exit codes: 0 installed, 2 cannot be installed here.
#
#   PYTHON=/path/to/python3.11 scripts/install_encoders.sh      to name the interpreter
#   scripts/install_encoders.sh lock                            to write the lock anew (needs uv)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly venv=.venv-encoders
readonly lock=requirements/encoders
readonly stamp=$venv/installed.sha256

say() { printf 'encoders: %s\n' "$*" >&2; }

refuse() {
    say "cannot be installed here: $1"
    say "$2"
    exit 2
}

write_lock() {
    local uv=.venv/bin/uv
    [[ -x $uv ]] || uv=$(command -v uv) || refuse "uv is missing" "pip install uv, then try again"
    "$uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url \
        --no-emit-find-links --python-version 3.11 "$lock.in" --output-file "$lock.lock"
    say "wrote $lock.lock"
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" .venv/bin/python python3.11 python3; do
        [[ -n $candidate ]] && command -v "$candidate" >/dev/null || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            echo "$candidate"
            return
        fi
    done
    refuse "no Python 3.11 or newer found" "name one: PYTHON=/path/to/python3.11 $0"
}

main() {
    if [[ ${1:-} == lock ]]; then
        write_lock
        return
    fi
    if [[ -f $stamp ]] && sha256sum --check --status "$stamp"; then
        return
    fi
    local python
    python=$(find_python)
    say "installing into $venv (60 MB to fetch)"
    "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        --only-binary :all: -r "$lock.lock" ||
        refuse "pip failed (its message is above)" "check that this machine reaches a Python package index"
    "$venv/bin/python" -c 'import fastokens, gigatoken, kitoken, tokenizers, tokie' ||
        refuse "what was installed does not load (message above)" "remove $venv and try again"
    sha256sum "$lock.lock" >"$stamp"
    say "installed in $venv"
}

main "$@"
