//! When the interpreter is released.

use pyo3::prelude::*;

/// Does `work`, without the interpreter if that is `long`. Whoever waits for the interpreter takes it as soon as it is
/// released, and has to be waited for in turn, on one core through two changes of thread: short work is done quicker with
/// it.
pub fn detached_if<R: Send>(py: Python<'_>, long: bool, work: impl FnOnce() -> R + Send) -> R {
    if long { py.detach(work) } else { work() }
}
