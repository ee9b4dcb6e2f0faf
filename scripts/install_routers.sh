#!/usr/bin/env bash
# Installs the routers beside which bench/relay.py measures ours into a virtual environment of its own
# (.venv-routers), pinned by requirements/routers.lock, and nginx from Debian where it is missing and can be installed.
# Run again it does nothing, unless the lock has changed. Exit codes: 0 installed, 2 cannot be installed here.
#
#   PYTHON=/path/to/python3.11 scripts/install_routers.sh      to name the interpreter
#   scripts/install_routers.sh lock                            to write the lock anew (needs uv)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly name=routers
readonly venv=.venv-routers
readonly lock=requirements/routers
readonly stamp=$venv/installed.sha256

source scripts/own_environment.sh

install_nginx() {
    PATH=$PATH:/usr/sbin command -v nginx >/dev/null && return
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        say "nginx is missing; it is the floor of the comparison and is left out (apt-get install nginx-light)"
        return
    fi
    say "installing nginx-light"
    apt-get install --quiet=2 --no-install-recommends nginx-light >/dev/null || say "nginx could not be installed"
}

main() {
    if [[ ${1:-} == lock ]]; then
        write_locks "$lock"
        return
    fi
    install_nginx
    if [[ -f $stamp ]] && sha256sum --check --status "$stamp"; then
        return
    fi
    local python each
    python=$(find_python)
    say "installing into $venv (110 MB to fetch)"
    install_locked "$lock"
    for each in sglang_router.sglang_router_rs smg.smg_rs vllm_router_rs; do
        "$venv/bin/python" -c "import $each" ||
            refuse "what was installed does not load: $each (message above)" "remove $venv and try again"
    done
    sha256sum "$lock.lock" >"$stamp"
    say "installed in $venv"
}

main "$@"
