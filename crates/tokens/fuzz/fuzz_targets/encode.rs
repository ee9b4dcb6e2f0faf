//! Texts of any kind: cut and cached they have the ids of the whole, and of each beginning as much as is told stays true.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/definitions/mod.rs"]
mod definitions;

#[derive(Arbitrary, Debug)]
struct Part<'a> {
    text: &'a str,
    times: u8,
}

fuzz_target!(|input: (Vec<Part<'_>>, u16, bool)| {
    let (parts, cut, special) = input;
    let text: String = parts
        .iter()
        .map(|part| part.text.repeat(usize::from(part.times)))
        .collect();
    if text.len() > 20_000 {
        return;
    }
    let mut cut = usize::from(cut).min(text.len());
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    for (name, encoder) in definitions::encoders() {
        let whole = encoder.encode_whole(&text, special).expect(name);
        assert_eq!(encoder.encode(&text, special).expect(name), whole, "{name}");
        let known = encoder.encode_prefix(&text[..cut], special).expect(name);
        assert!(whole.starts_with(&known), "{name}");
    }
});
