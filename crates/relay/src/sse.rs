//! A reader of server-sent events (WHATWG HTML, 9.2.6) that sees a stream in any pieces and keeps no more than a line.

use memchr::memchr2;

use crate::usage::{Counts, Usage};

/// A longer line, or a longer event, is counted but not read: no engine sends one, and memory must be bounded.
const LONGEST: usize = 256 * 1024;

/// Counts events and takes the last usage from a stream; the result does not depend on how the stream is cut.
#[derive(Debug, Default)]
pub struct SseReader {
    line: Bounded,
    data: Bounded,
    has_data: bool,
    /// Lines have come since the last blank one.
    event_open: bool,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    events: u64,
    counts: Counts,
}

/// The first [`LONGEST`] bytes, and whether there were more.
#[derive(Debug, Default)]
struct Bounded {
    bytes: Vec<u8>,
    over: bool,
}

impl Bounded {
    fn extend(&mut self, more: &[u8]) {
        let room = LONGEST - self.bytes.len();
        self.over |= more.len() > room;
        self.bytes.extend_from_slice(&more[..more.len().min(room)]);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.over = false;
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.over
    }
}

impl SseReader {
    /// See the next piece of the stream.
    pub fn push(&mut self, mut piece: &[u8]) {
        while let Some(&first) = piece.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', piece) else {
                self.line.extend(piece);
                return;
            };
            self.line_ended(&piece[..end]);
            self.after_cr = piece[end] == b'\r';
            piece = &piece[end + 1..];
        }
    }

    /// The stream has ended as it should: an event that lacks only its blank line counts.
    pub fn finish(&mut self) {
        if !self.line.is_empty() {
            self.line_ended(&[]);
        }
        self.event_ended();
    }

    /// Events with data so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last usage so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.counts.usage()
    }

    /// What must be sent before a new event if the stream was cut here.
    #[must_use]
    pub fn closing(&self) -> &'static str {
        match (self.line.is_empty(), self.event_open, self.after_cr) {
            (false, _, _) | (true, true, true) => "\n\n",
            (true, true, false) | (true, false, true) => "\n",
            (true, false, false) => "",
        }
    }

    /// As `closing`, for a reader who has seen whole lines only. After a carriage return the first line feed is its own;
    /// where there was none, one blank line more says nothing.
    #[must_use]
    pub fn closing_of_lines(&self) -> &'static str {
        if self.event_open { "\n\n" } else { "" }
    }

    fn line_ended(&mut self, rest: &[u8]) {
        if self.line.is_empty() {
            self.read_line(rest);
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend(rest);
        if line.over {
            self.skip_line(&line.bytes);
        } else {
            self.read_line(&line.bytes);
        }
        line.clear();
        self.line = line;
    }

    fn read_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.event_ended();
        } else if line.len() > LONGEST {
            self.skip_line(line);
        } else if let Some(value) = self.open_line(line) {
            self.data.extend(value);
        }
    }

    /// A line over the limit: its beginning tells whether it was data.
    fn skip_line(&mut self, beginning: &[u8]) {
        self.data.over |= self.open_line(beginning).is_some();
    }

    /// The value of a line that is data.
    fn open_line<'line>(&mut self, line: &'line [u8]) -> Option<&'line [u8]> {
        self.event_open = true;
        let value = data_of(line)?;
        if std::mem::replace(&mut self.has_data, true) {
            self.data.extend(b"\n");
        }
        Some(value)
    }

    fn event_ended(&mut self) {
        self.event_open = false;
        if std::mem::take(&mut self.has_data) {
            self.events += 1;
            if !self.data.over {
                self.counts.read(&self.data.bytes);
            }
        }
        self.data.clear();
    }
}

/// The value of a `data` line, without the one space that may follow the colon.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}
