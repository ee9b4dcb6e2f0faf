//! Where a block lies, from the names that engines and KV connectors give to their media.

use prefix_index::Tier;

use crate::msgpack::Value;

/// Spellings differ by engine, connector and release: vLLM says "GPU", "CPU", "FS", "OBJ", "STORAGE", `LMCache` and
/// Mooncake "cpu" and "disk", `SGLang` "`CPU_PINNED`", "DISK", "EXTERNAL". What is not here is behind a network.
const NAMES: [(&[u8], Tier); 6] = [
    (b"GPU", Tier::Device),
    (b"CPU", Tier::Host),
    (b"CPU_PINNED", Tier::Host),
    (b"DISK", Tier::Disk),
    (b"STORAGE", Tier::Disk),
    (b"FS", Tier::Disk),
];

/// The tier of a medium; none at all is the device, as in releases that had no tiers.
///
/// A medium nobody has heard of counts as remote, the tier from which a block is slowest to come back; so do
/// "EXTERNAL", "REMOTE" and "OBJ".
pub(crate) fn tier_of(medium: Value<'_>) -> Tier {
    match medium {
        Value::Nil => Tier::Device,
        Value::Text(name) => {
            let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            known.map_or(Tier::Remote, |(_, tier)| *tier)
        }
        _ => Tier::Remote,
    }
}

/// Whether a locality (vLLM, 0.26 on) says that the medium is another machine's.
pub(crate) fn is_remote(locality: Value<'_>) -> bool {
    matches!(locality, Value::Text(name) if name.eq_ignore_ascii_case(b"REMOTE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case() {
        for (name, tier) in [
            ("GPU", Tier::Device),
            ("gpu", Tier::Device),
            ("cpu", Tier::Host),
            ("Cpu_Pinned", Tier::Host),
            ("disk", Tier::Disk),
            ("STORAGE", Tier::Disk),
            ("fs", Tier::Disk),
            ("OBJ", Tier::Remote),
            ("EXTERNAL", Tier::Remote),
            ("REMOTE", Tier::Remote),
            ("something new", Tier::Remote),
            ("", Tier::Remote),
        ] {
            assert_eq!(tier_of(Value::Text(name.as_bytes())), tier, "{name}");
        }
        assert_eq!(tier_of(Value::Nil), Tier::Device);
        assert_eq!(tier_of(Value::Unsigned(7)), Tier::Remote);
        assert!(is_remote(Value::Text(b"remote")) && !is_remote(Value::Text(b"LOCAL")) && !is_remote(Value::Nil));
    }
}
