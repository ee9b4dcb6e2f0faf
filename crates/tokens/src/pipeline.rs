//! What a tokenizer's definition proves: which seams its texts may be cut at.
//!
//! The parts of the definition are those of `tokenizers` 0.23: `normalizer`, `added_tokens`, `pre_tokenizer`, `model`.
//! A text goes through them in this order; each step hands pieces to the next, which treats each by itself. A seam is
//! proven when every step up to some point keeps both sides apart, and at that point a piece ends there for certain:
//! at a pre-tokenizer that begins a new one, or else at the model, whose vocabulary has no token across.
//! Whatever is not known here proves nothing, and then texts are cut at added tokens alone.

use serde_json::{Map, Value};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::{NormalizedString, Normalizer};

use crate::definition::{kind, splits, steps};
use crate::pattern::{Proof, prove};
use crate::seam::Seam;

/// The pattern of the `ByteLevel` pre-tokenizer, which stands in the code of `tokenizers`, not in a definition.
const BYTE_LEVEL: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// What takes the place of a space: in `SentencePiece`'s vocabularies, and in byte-level ones.
const META_SPACE: &str = "▁";
const BYTE_SPACE: &str = "Ġ";

/// The kinds of seam at which texts of this definition may be cut.
pub fn proven_seams(definition: &Value) -> Vec<Seam> {
    let proven = |seam: &Seam| Walk::new(definition, *seam).is_some_and(Walk::ends_at_seam);
    Seam::ALL.into_iter().filter(proven).collect()
}

/// One seam on its way through the steps.
struct Walk<'a> {
    definition: &'a Value,
    seam: Seam,
    /// What a space has become.
    space: &'static str,
}

impl<'a> Walk<'a> {
    /// None where the normalizer, or an added token, might join both sides.
    fn new(definition: &'a Value, seam: Seam) -> Option<Self> {
        let mut walk = Self {
            definition,
            seam,
            space: " ",
        };
        let normalizers = steps(&definition["normalizer"], "normalizers");
        let apart = normalizers.iter().all(|step| walk.normalizer_keeps_apart(step));
        (apart && walk.added_tokens_keep_apart(&normalizers)).then_some(walk)
    }

    fn normalizer_keeps_apart(&mut self, step: &Value) -> bool {
        match kind(step) {
            // Neither character composes with the other, nor changes by itself.
            "NFC" | "Prepend" => true,
            // These take voiced kana apart, or fold full-width forms into others.
            "NFD" | "NFKC" | "NFKD" | "Lowercase" => self.seam == Seam::Space,
            "Replace" => self.replacement_keeps_apart(step),
            _ => false,
        }
    }

    fn replacement_keeps_apart(&mut self, step: &Value) -> bool {
        let Some(text) = step["pattern"]["String"].as_str() else {
            return false;
        };
        if text == " " && step["content"] == META_SPACE {
            self.space = META_SPACE;
            return true;
        }
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => !self.seam.may_precede(only) && !self.seam.may_follow(only) && only != ' ',
            _ => false,
        }
    }

    /// Added tokens that are looked for in the normalized text could stand across a seam, or take white space with them.
    fn added_tokens_keep_apart(&self, normalizers: &[&Value]) -> bool {
        let tokens = self.definition["added_tokens"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let mut normalized = tokens.iter().filter(|token| token["normalized"] != false).peekable();
        if normalized.peek().is_none() {
            return true;
        }
        let prefixed = normalizers.iter().any(|step| kind(step) == "Prepend");
        !prefixed && normalized.all(|token| self.token_keeps_apart(token))
    }

    fn token_keeps_apart(&self, token: &Value) -> bool {
        let plain = ["lstrip", "rstrip", "single_word"]
            .iter()
            .all(|flag| token[flag] != true);
        let content = token["content"].as_str().and_then(|content| self.normalized(content));
        plain && content.is_some_and(|content| !self.stands_in(&content) && !self.seam.stands_in(&content))
    }

    fn normalized(&self, content: &str) -> Option<String> {
        let mut text = NormalizedString::from(content);
        if !self.definition["normalizer"].is_null() {
            let normalizer: NormalizerWrapper = serde_json::from_value(self.definition["normalizer"].clone()).ok()?;
            normalizer.normalize(&mut text).ok()?;
        }
        Some(text.get().to_owned())
    }

    /// Whether some step ends a piece at the seam for certain.
    fn ends_at_seam(mut self) -> bool {
        let steps = steps(&self.definition["pre_tokenizer"], "pretokenizers");
        // Further on it would put its mark before pieces that begin elsewhere.
        if steps.iter().skip(1).any(|step| kind(step) == "Metaspace") {
            return false;
        }
        for step in steps {
            let proof = self.pre_tokenizer(step);
            if !proof.separates {
                return false;
            }
            if proof.begins {
                return true;
            }
        }
        self.vocabulary_ends_at_seam()
    }

    fn pre_tokenizer(&mut self, step: &Value) -> Proof {
        let separates = |separates| Proof {
            separates,
            begins: false,
        };
        let begins = |begins| Proof {
            separates: begins,
            begins,
        };
        match kind(step) {
            "Split" => self.split(step),
            "ByteLevel" => self.byte_level(step),
            "Digits" => separates(self.is_plain()),
            "Punctuation" => separates(self.is_plain() && step["behavior"] == "Isolated"),
            "Metaspace" => self.metaspace(step),
            "Whitespace" | "WhitespaceSplit" | "BertPreTokenizer" => {
                begins(self.is_plain() && self.seam == Seam::Space)
            }
            _ => separates(false),
        }
    }

    /// Whether the text is still as it was written, as far as the seam goes.
    fn is_plain(&self) -> bool {
        self.space == " "
    }

    fn split(&self, step: &Value) -> Proof {
        let isolated = step["behavior"] == "Isolated" || (step["behavior"] == "Removed" && step["invert"] == true);
        // A text without spaces is not split at them, however that is done.
        let idle = step["pattern"]["String"] == " " && self.space == META_SPACE;
        match step["pattern"]["Regex"].as_str() {
            Some(pattern) if isolated && self.is_plain() => prove(pattern, self.seam),
            _ => Proof {
                separates: idle,
                begins: false,
            },
        }
    }

    fn byte_level(&mut self, step: &Value) -> Proof {
        // A space that is put before a piece changes none that begins with one.
        let changes = step["add_prefix_space"] != false && self.seam != Seam::Space;
        let plain = self.is_plain() && !changes;
        if step["use_regex"] != false {
            let proof = prove(BYTE_LEVEL, self.seam);
            return Proof {
                separates: plain && proof.separates,
                begins: plain && proof.begins,
            };
        }
        self.space = BYTE_SPACE;
        Proof {
            // Other characters are several bytes here.
            separates: plain && self.seam == Seam::Space,
            begins: false,
        }
    }

    fn metaspace(&mut self, step: &Value) -> Proof {
        let marks_all = step["prepend_scheme"] != "never" && step["prepend_scheme"] != "first";
        let usual =
            step["replacement"] == META_SPACE && self.space != BYTE_SPACE && (self.seam == Seam::Space || !marks_all);
        self.space = META_SPACE;
        Proof {
            separates: usual,
            begins: usual && self.seam == Seam::Space && splits(step),
        }
    }

    /// The model may join what it likes, if it has a token for it. It has none across the seam, and both sides are known
    /// to it, so that they are not one unknown token either.
    fn vocabulary_ends_at_seam(&self) -> bool {
        let model = &self.definition["model"];
        let unset = |name: &str| model[name].is_null() || model[name] == "";
        let merges_alone = kind(model) == "BPE"
            && (model["dropout"].is_null() || model["dropout"] == 0.0)
            && unset("continuing_subword_prefix")
            && unset("end_of_word_suffix")
            && model["ignore_merges"] != true;
        let Some(vocabulary) = model["vocab"].as_object() else {
            return false;
        };
        merges_alone
            && self.followers().iter().all(|next| vocabulary.contains_key(next))
            && self.none_vanishes(vocabulary)
            && !vocabulary.keys().any(|token| self.stands_in(token))
    }

    /// Whether each character before the seam becomes something: itself, bytes, or the one token for all unknown ones.
    /// Else what stands before it would come to the seam. And what stands for it must not be joined to anything.
    fn none_vanishes(&self, vocabulary: &Map<String, Value>) -> bool {
        let model = &self.definition["model"];
        let mut before = self.seam.before().iter().flat_map(|&(low, high)| low..=high);
        if before.all(|character| vocabulary.contains_key(character.encode_utf8(&mut [0; 4]) as &str)) {
            return true;
        }
        let is_byte = |token: &str| token.starts_with("<0x") && token.len() == 6;
        let bytes = model["byte_fallback"] == true && vocabulary.keys().filter(|token| is_byte(token)).count() == 256;
        let unknown = model["unk_token"]
            .as_str()
            .filter(|token| vocabulary.contains_key(*token));
        let joined = |token: &String| {
            (token.contains("<0x") && !is_byte(token))
                || unknown.is_some_and(|unknown| token.contains(unknown) && token != unknown)
        };
        (bytes || unknown.is_some()) && !vocabulary.keys().any(joined)
    }

    /// What follows the seam, as it is by now.
    fn followers(&self) -> Vec<String> {
        match self.seam {
            Seam::Space => vec![self.space.to_owned()],
            Seam::Ideographic => self.seam.after().iter().map(char::to_string).collect(),
        }
    }

    fn stands_in(&self, token: &str) -> bool {
        let followers = self.followers();
        token.char_indices().any(|(at, character)| {
            let rest = &token[at + character.len_utf8()..];
            self.seam.may_precede(character) && followers.iter().any(|next| rest.starts_with(next.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::{after_a_seam, after_a_token};

    fn byte_level() -> Value {
        json!({
            "added_tokens": [{"id": 2, "content": "<|end|>", "normalized": false, "special": true}],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}| ?[^\s\p{N}]+|\s+(?!\S)|\s+"},
                 "behavior": "Isolated", "invert": false},
                {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
            ]},
            "model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "a b": 3}},
        })
    }

    fn sentence_piece() -> Value {
        json!({
            "added_tokens": [],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ]},
            "pre_tokenizer": null,
            "model": {"type": "BPE", "dropout": null, "byte_fallback": true, "unk_token": "<unk>",
                      "vocab": {"▁": 0, "▁a": 1, "▁▁": 2, "a": 3, "<unk>": 4}},
        })
    }

    fn with(mut definition: Value, pointer: &str, value: Value) -> Value {
        *definition.pointer_mut(pointer).expect(pointer) = value;
        definition
    }

    #[test]
    fn a_pattern_that_begins_at_a_space_proves_that_seam() {
        assert_eq!(proven_seams(&byte_level()), [Seam::Space]);
        assert_eq!(after_a_seam(&byte_level()), None);
    }

    #[test]
    fn a_vocabulary_without_inner_spaces_proves_it_too() {
        assert_eq!(proven_seams(&sentence_piece()), [Seam::Space]);
        let inner = with(sentence_piece(), "/model/vocab", json!({"▁": 0, "a▁": 1, "<unk>": 2}));
        assert!(proven_seams(&inner).is_empty());
        let unknown = with(sentence_piece(), "/model/vocab", json!({"a": 1, "<unk>": 2}));
        assert!(proven_seams(&unknown).is_empty());
    }

    #[test]
    fn what_follows_a_seam_gets_no_mark_of_its_own() {
        let changed = after_a_seam(&sentence_piece()).expect("it differs");
        assert_eq!(steps(&changed.normalizer, "normalizers").len(), 1);
        let first = with(
            sentence_piece(),
            "/pre_tokenizer",
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}),
        );
        let changed = after_a_token(&first).expect("it differs");
        assert_eq!(changed.pre_tokenizer["prepend_scheme"], "never");
        assert_eq!(changed.pre_tokenizer["split"], false);
        assert_eq!(after_a_token(&sentence_piece()), None);
    }

    #[test]
    fn what_might_join_both_sides_proves_nothing() {
        for (pointer, value) in [
            (
                "/normalizer",
                json!({"type": "Strip", "strip_left": true, "strip_right": true}),
            ),
            (
                "/normalizer",
                json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}),
            ),
            (
                "/normalizer",
                json!({"type": "Replace", "pattern": {"String": "a"}, "content": " "}),
            ),
            ("/added_tokens/0", json!({"content": "a b", "normalized": true})),
            (
                "/added_tokens/0",
                json!({"content": "<a>", "normalized": true, "rstrip": true}),
            ),
            ("/pre_tokenizer/pretokenizers/0/behavior", json!("MergedWithNext")),
            ("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!(r"\S+ ?|\s+")),
            ("/pre_tokenizer/pretokenizers/0", json!({"type": "UnicodeScripts"})),
        ] {
            assert!(
                proven_seams(&with(byte_level(), pointer, value.clone())).is_empty(),
                "{value}"
            );
        }
        for (pointer, value) in [("/model/type", json!("Unigram")), ("/model/dropout", json!(0.1))] {
            assert!(
                proven_seams(&with(sentence_piece(), pointer, value.clone())).is_empty(),
                "{value}"
            );
        }
    }
}
