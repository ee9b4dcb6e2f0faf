# Sourced by the scripts that install into an environment of their own, $venv. $name is what they call themselves.

say() { printf '%s: %s\n' "$name" "$*" >&2; }

refuse() {
    say "cannot be installed here: $1"
    say "$2"
    exit 2
}

find_uv() {
    local uv=.venv/bin/uv
    [[ -x $uv ]] || uv=$(command -v uv) || refuse "uv is missing" "pip install uv, then try again"
    echo "$uv"
}

# Each argument is a lock without its ending: requirements/NAME.in becomes requirements/NAME.lock.
write_locks() {
    local uv each
    uv=$(find_uv)
    for each; do
        "$uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url \
            --no-emit-find-links --python-version 3.11 "$each.in" --output-file "$each.lock"
        say "wrote $each.lock"
    done
}

# A Python from 3.11 on; below the minor version $1, where it is given.
find_python() {
    local candidate below=${1:-}
    for candidate in "${PYTHON:-}" .venv/bin/python python3.11 python3; do
        [[ -n $candidate ]] && command -v "$candidate" >/dev/null || continue
        if "$candidate" -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, ${below:-1000}))"; then
            echo "$candidate"
            return
        fi
    done
    local wanted="3.11 or newer"
    [[ -z $below ]] || wanted="3.11 to 3.$((below - 1))"
    refuse "no Python $wanted found" "name one: PYTHON=/path/to/python3.11 $0"
}

# Into a new environment $venv of the interpreter $python, what the locks pin.
install_locked() {
    local each
    "$python" -m venv --clear "$venv"
    for each; do
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            --only-binary :all: -r "$each.lock" ||
            refuse "pip failed (its message is above)" "check that this machine reaches a Python package index"
    done
}
