#!/usr/bin/env bash
# Installs what only measuring needs into a virtual environment of its own (.venv-dynamo): NVIDIA Dynamo's index, beside
# which bench/ measures ours, and matplotlib for the plots. requirements/dynamo.lock and bench.lock pin both.
# Run again it does nothing, unless a lock file has changed. Exit codes: 0 installed, 2 cannot be installed here.
#
#   PYTHON=/path/to/python3.11 scripts/install_dynamo.sh      to name the interpreter
#   scripts/install_dynamo.sh lock                            to write both lock files anew (needs uv)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly name=dynamo
readonly venv=.venv-dynamo
readonly names=(dynamo bench)
readonly locks=("${names[@]/#/requirements/}")
readonly stamp=$venv/installed.sha256

source scripts/own_environment.sh

check_machine() {
    local machine
    machine="$(uname -s) $(uname -m)"
    [[ $machine == "Linux x86_64" || $machine == "Linux aarch64" ]] ||
        refuse "Dynamo's wheels are for Linux, this is $machine" "run it in a Linux container"
}

main() {
    if [[ ${1:-} == lock ]]; then
        write_locks "${locks[@]}"
        return
    fi
    if [[ -f $stamp ]] && sha256sum --check --status "$stamp"; then
        return
    fi
    check_machine
    local python
    python=$(find_python)
    say "installing Dynamo's index and matplotlib into $venv (100 MB to fetch)"
    install_locked "${locks[@]}"
    "$venv/bin/python" -c 'from dynamo._core import RadixTree; RadixTree()' ||
        refuse "the installed Dynamo does not load (message above)" "remove $venv and try again"
    sha256sum "${locks[@]/%/.lock}" >"$stamp"
    say "installed in $venv"
}

main "$@"
