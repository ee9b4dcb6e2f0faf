//! The extension module `warmroute._native`: conversions between Python objects and the Rust core, nothing else.

use pyo3::prelude::*;

mod chat;
mod detach;
mod index;
mod kv_event;
mod relay;
mod tokens;
mod zmtp;

/// Gives memory back when much of the index is removed, which the C library's allocator does by chance.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    index::register(module)?;
    kv_event::register(module)?;
    zmtp::register(module)?;
    tokens::register(module)?;
    chat::register(module)?;
    relay::register(module)
}
