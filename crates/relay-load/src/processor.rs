//! What processes have used of the processor, by the kernel's account.

/// The kernel counts in hundredths of a second (`USER_HZ`, the same on every architecture that matters here).
const TICKS_PER_S: f64 = 100.0;

/// Seconds, user and system, of all threads of these processes together; those that have ended count nothing.
pub fn seconds_of(pids: &[u32]) -> f64 {
    pids.iter().filter_map(|pid| ticks(*pid)).sum::<f64>() / TICKS_PER_S
}

fn ticks(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before this may hold anything, also spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something_and_a_missing_one_nothing() {
        let own = std::process::id();
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 60 {}
        assert!(seconds_of(&[own]) > 0.0);
        assert!(seconds_of(&[u32::MAX]).abs() < f64::EPSILON);
    }
}
