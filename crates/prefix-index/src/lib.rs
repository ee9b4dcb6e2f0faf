//! Chained block hashes and the block-to-worker index.
