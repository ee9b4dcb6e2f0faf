//! Many measurements, told by a few of them.

use serde_json::{Value, json};

/// Measurements in one unit.
#[derive(Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    pub fn add(&mut self, sample: u64) {
        self.0.push(sample);
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Median, 99th percentile and greatest; null where nothing was measured.
    pub fn told(&mut self) -> Value {
        self.0.sort_unstable();
        let at = |percent: usize| {
            self.0
                .get((self.0.len() * percent / 100).min(self.0.len().saturating_sub(1)))
        };
        json!({"p50": at(50), "p90": at(90), "p99": at(99), "max": self.0.last(), "count": self.0.len()})
    }
}

/// A count as a factor; none here comes near 2^52.
#[allow(clippy::cast_precision_loss)]
pub fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        (0..200).rev().for_each(|sample| samples.add(sample));
        let told = samples.told();
        assert_eq!(
            (told["p50"].as_u64(), told["p99"].as_u64(), told["max"].as_u64()),
            (Some(100), Some(198), Some(199))
        );
        assert!(Samples::default().told()["p50"].is_null());
    }
}
