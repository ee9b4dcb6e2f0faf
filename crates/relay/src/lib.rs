//! The HTTP relay.
