#!/usr/bin/env bash
# Fuzzes every target of the crate $1 for $2 seconds each and says how many executions that were.
set -euo pipefail
cd "$(dirname "$0")/.."
crate=$1 seconds=$2
out=$PWD/target/fuzz/$(basename "$crate")
export PATH=$PWD/target/tools/bin:$PATH

mkdir -p "$out"
for target in $(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"/\1/p' "$crate/fuzz/Cargo.toml"); do
    corpus=$out/corpus-$target log=$out/$target.log
    mkdir -p "$corpus"
    # Not the address sanitizer: it needs a nightly Rust, there is no unsafe code to find faults in, and it is slow.
    cargo fuzz run --fuzz-dir "$crate/fuzz" --target-dir target/fuzz/build --sanitizer none "$target" "$corpus" -- \
        -max_total_time="$seconds" -artifact_prefix="$out/" -print_final_stats=1 >"$log" 2>&1 ||
        { tail -n 60 "$log"; printf 'fuzz: %s %s failed; %s has all of it\n' "$crate" "$target" "$log" >&2; exit 1; }
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf 'fuzz: %s %s: %d executions in %d s, no crash\n' "$crate" "$target" "$executions" "$seconds"
done
