#!/usr/bin/env bash
# Installs the fuzzing tool for Rust, pinned, into target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.13.2

[ "$(target/tools/bin/cargo-fuzz --version 2>/dev/null)" = "cargo-fuzz $version" ] && exit
echo "cargo-fuzz: installing version $version into target/tools"
cargo install cargo-fuzz --quiet --locked --version "$version" --root target/tools --target-dir target/tools/build
