#!/usr/bin/env bash
# Installs what only measuring needs into a virtual environment of its own (.venv-dynamo): NVIDIA Dynamo's index, beside
# which bench/ measures ours, and matplotlib for the plots. requirements/dynamo.lock and bench.lock pin both.
# Run again it does nothing, unless a lock file has changed. Exit codes: 0 installed, 2 cannot be installed here.
#
#   PYTHON=/path/to/python3.11 scripts/install_dynamo.sh      to name the interpreter
#   scripts/install_dynamo.sh lock                            to write both lock files anew (needs uv)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly venv=.venv-dynamo
readonly names=(dynamo bench)
readonly locks=("${names[@]/#/requirements/}")
readonly stamp=$venv/installed.sha256

say() { printf 'dynamo: %s\n' "$*" >&2; }

refuse() {
    say "cannot be installed here: $1"
    say "$2"
    exit 2
}

write_locks() {
    local uv=.venv/bin/uv lock
    [[ -x $uv ]] || uv=$(command -v uv) || refuse "uv is missing" "pip install uv, then try again"
    for lock in "${locks[@]}"; do
        "$uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url \
            --no-emit-find-links --python-version 3.11 "$lock.in" --output-file "$lock.lock"
        say "wrote $lock.lock"
    done
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

check_machine() {
    local machine
    machine="$(uname -s) $(uname -m)"
    [[ $machine == "Linux x86_64" || $machine == "Linux aarch64" ]] ||
        refuse "Dynamo's wheels are for Linux, this is $machine" "run it in a Linux container"
}

install() {
    local python=$1 lock
    say "installing Dynamo's index and matplotlib into $venv (100 MB to fetch)"
    "$python" -m venv --clear "$venv"
    for lock in "${locks[@]}"; do
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            --only-binary :all: -r "$lock.lock" ||
            refuse "pip failed (its message is above)" "check that this machine reaches a Python package index"
    done
}

main() {
    if [[ ${1:-} == lock ]]; then
        write_locks
        return
    fi
    if [[ -f $stamp ]] && sha256sum --check --status "$stamp"; then
        return
    fi
    check_machine
    local python
    python=$(find_python)
    install "$python"
    "$venv/bin/python" -c 'from dynamo._core import RadixTree; RadixTree()' ||
        refuse "the installed Dynamo does not load (message above)" "remove $venv and try again"
    sha256sum "${locks[@]/%/.lock}" >"$stamp"
    say "installed in $venv"
}

main "$@"
