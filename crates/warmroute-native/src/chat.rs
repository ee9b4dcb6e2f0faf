//! Plain chats as Python sees them: a body in, ids out, without the template and with the interpreter free.

use ::tokens::chat::{self, Guard, Piece, Skeleton, Strip, Unknown};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relay::bytes::Bytes;

use crate::tokens::{Encoder, bytes_of, guarded_if};

/// Bytes of a body that are read within 50 us.
pub const LONG_BODY: usize = 100_000;
/// New text is encoded at 50 to 100 bytes a microsecond.
const MOST_NEW_INLINE: usize = 16_384;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PlainChat>()?;
    module.add_class::<PlainUnknown>()?;
    module.add_class::<Conversations>()
}

/// A chat body that holds texts and nothing that changes how they are rendered.
#[pyclass(module = "warmroute._native", frozen)]
pub struct PlainChat {
    chat: chat::PlainChat,
    body: Bytes,
}

impl PlainChat {
    pub fn of(body: &Bytes) -> Option<Self> {
        let chat = chat::PlainChat::read(body)?;
        Some(Self {
            chat,
            body: body.clone(),
        })
    }
}

#[pymethods]
impl PlainChat {
    #[staticmethod]
    fn read(body: &[u8]) -> Option<Self> {
        Self::of(&Bytes::copy_from_slice(body))
    }

    #[getter]
    fn model(&self) -> Option<&str> {
        self.chat.model.as_deref()
    }

    #[getter]
    fn stream(&self) -> bool {
        self.chat.stream
    }

    #[getter]
    fn max_tokens(&self) -> Option<u64> {
        self.chat.max_tokens
    }

    #[getter]
    fn signature(&self) -> &str {
        &self.chat.signature
    }

    #[getter]
    fn body_bytes(&self) -> usize {
        self.body.len()
    }
}

/// Why the ids of a plain chat were not told.
#[pyclass(module = "warmroute._native", frozen, eq, eq_int)]
#[derive(PartialEq)]
#[allow(clippy::upper_case_acronyms)]
enum PlainUnknown {
    SIGNATURE,
    CONTENT,
    LONG,
}

/// A text, or the position of a content with the sides on which it is stripped.
#[derive(FromPyObject)]
enum Written {
    Literal(String),
    Content((usize, bool, bool)),
}

/// Texts that a content must not hold, and whether it must not be blank.
type Looked = (Vec<String>, bool);

/// Conversations with one template and one tokenizer.
#[pyclass(module = "warmroute._native", frozen)]
struct Conversations {
    encoder: Py<Encoder>,
    kept: chat::Conversations,
}

#[pymethods]
impl Conversations {
    #[new]
    fn new(encoder: Py<Encoder>, cache_bytes: u64) -> Self {
        Self {
            encoder,
            kept: chat::Conversations::new(cache_bytes),
        }
    }

    fn knows(&self, signature: &str) -> bool {
        self.kept.knows(signature)
    }

    fn learn(&self, signature: String, pieces: Vec<Written>, guards: Vec<Looked>) -> PyResult<()> {
        let guards: Vec<Guard> = guards
            .into_iter()
            .map(|(forbidden, not_blank)| Guard { forbidden, not_blank })
            .collect();
        let skeleton = Skeleton::new(pieces.into_iter().map(piece).collect(), &guards)
            .ok_or_else(|| PyValueError::new_err("a message is not part of the text"))?;
        self.kept.learn(signature, skeleton);
        Ok(())
    }

    fn encode<'py>(&self, py: Python<'py>, chat: &PlainChat, most_new_bytes: usize) -> PyResult<Bound<'py, PyAny>> {
        let encoder = &self.encoder.get().inner;
        let long = chat.body.len() > LONG_BODY || most_new_bytes > MOST_NEW_INLINE;
        let told = guarded_if(py, long, || {
            self.kept.encode(encoder, &chat.chat, &chat.body, most_new_bytes)
        })?;
        match told {
            Ok(ids) => Ok(bytes_of(py, &ids).into_any()),
            Err(why) => Ok(Bound::new(py, unknown(why))?.into_any()),
        }
    }
}

fn piece(written: Written) -> Piece {
    match written {
        Written::Literal(text) => Piece::Literal(text),
        Written::Content((message, left, right)) => Piece::Content(message, Strip { left, right }),
    }
}

fn unknown(why: Unknown) -> PlainUnknown {
    match why {
        Unknown::Signature => PlainUnknown::SIGNATURE,
        Unknown::Content => PlainUnknown::CONTENT,
        Unknown::Long => PlainUnknown::LONG,
    }
}
