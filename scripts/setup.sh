#!/usr/bin/env bash
# Makes the environment $1: a virtual environment with the pinned packages. Says what to install where a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
minimum_rust=1.88

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else die "needs root: $*"; fi
}

# The linker for Rust and the headers that some wheels lack; Debian's packages, only where a C compiler is missing.
install_debian_packages() {
    command -v cc >/dev/null && return
    command -v apt-get >/dev/null || die "no C compiler (cc); install one with your system's packages"
    echo "setup: installing build-essential"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq build-essential >/dev/null
}

find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3.14 python3; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    die "no Python 3.11 or newer; install one (Debian 12: apt-get install python3 python3-venv)"
}

check_rust() {
    command -v cargo >/dev/null || die "no Rust; install version $minimum_rust or newer (rustup, or your system's packages)"
    local version
    version=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n%s\n' "$minimum_rust" "$version" | sort -V | head -n 1)" = "$minimum_rust" ] ||
        die "Rust $version is too old; $minimum_rust or newer is needed (rustup update)"
}

install_debian_packages
check_rust
python=$(find_python)
if [ ! -x "$venv/bin/python" ]; then
    echo "setup: making $venv with $python"
    "$python" -m venv "$venv" || die "'$python -m venv' failed (Debian: apt-get install python3-venv)"
fi
echo "setup: installing the pinned packages"
"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
