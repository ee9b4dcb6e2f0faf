//! What the command line says: one command and pairs of a name and its value.

use std::collections::HashMap;
use std::str::FromStr;

use crate::{Failure, USAGE};

/// The command and its options.
pub struct Arguments {
    pub command: String,
    options: HashMap<String, String>,
}

impl Arguments {
    /// Reads `COMMAND --name value --name value`.
    pub fn of(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let command = words.next().ok_or(USAGE)?;
        let mut options = HashMap::new();
        while let Some(name) = words.next() {
            let name = name.strip_prefix("--").ok_or(USAGE)?.to_owned();
            options.insert(name, words.next().ok_or(USAGE)?);
        }
        Ok(Self { command, options })
    }

    /// A value that must be there.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<T, Failure> {
        let text = self
            .options
            .get(name)
            .ok_or_else(|| format!("--{name} is missing\n{USAGE}"))?;
        text.parse()
            .map_err(|_| format!("--{name} {text} cannot be read\n{USAGE}").into())
    }

    /// The values of a list with commas; none where the option is not given.
    pub fn list<T: FromStr>(&self, name: &str) -> Result<Vec<T>, Failure> {
        let text = self.options.get(name).map_or("", String::as_str);
        let words = text.split(',').filter(|word| !word.is_empty());
        words
            .map(|word| {
                word.parse()
                    .map_err(|_| format!("--{name} {word} cannot be read\n{USAGE}").into())
            })
            .collect()
    }
}
