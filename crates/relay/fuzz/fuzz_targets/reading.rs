//! Requests as RFC 9112 has them, read one after another from the bytes of a connection: written without looking at the
//! relay's parser, so that the two do not err alike.

/// A request that can be read in one way only.
#[derive(Debug)]
pub struct Request {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    /// Names in lower case, values without the blanks around them.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// What the bytes begin with.
#[derive(Debug)]
pub enum Next {
    /// A request, and how many bytes it takes.
    Request(Request, usize),
    Incomplete,
    /// No request, or one whose end is a matter of opinion.
    Unreadable,
}

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Takes a lone line feed for the end of a line of the head (2.2) and a coding for stronger than a length (6.3).
    Lenient,
    /// Neither: what it reads, every reader reads alike.
    Strict,
}

/// None where more bytes are needed.
type Parsed<T> = Result<Option<T>, Unreadable>;
struct Unreadable;

impl Request {
    pub fn all(&self, name: &[u8]) -> Vec<&[u8]> {
        let headers = self.headers.iter().filter(|(key, _)| key == name);
        headers.map(|(_, value)| value.as_slice()).collect()
    }

    /// Path and query of a target in origin form.
    pub fn origin(&self) -> Option<(&[u8], &[u8])> {
        if self.target.first() != Some(&b'/') {
            return None;
        }
        // A fragment belongs to the client alone.
        let target = self.target.split(|&byte| byte == b'#').next().unwrap_or_default();
        let query = target.iter().position(|&byte| byte == b'?');
        Some(query.map_or((target, &[][..]), |at| (&target[..at], &target[at + 1..])))
    }
}

pub fn next(bytes: &[u8], reader: Reader) -> Next {
    match request(bytes, reader) {
        Ok(Some((request, length))) => Next::Request(request, length),
        Ok(None) => Next::Incomplete,
        Err(Unreadable) => Next::Unreadable,
    }
}

fn request(bytes: &[u8], reader: Reader) -> Parsed<(Request, usize)> {
    let Some((lines, at)) = head(bytes, reader)? else {
        return Ok(None);
    };
    let [method, target, version] = start(lines[0])?;
    let headers = lines[1..]
        .iter()
        .map(|line| field(line))
        .collect::<Result<Vec<_>, _>>()?;
    let mut request = Request {
        method: method.to_vec(),
        target: target.to_vec(),
        headers,
        body: Vec::new(),
    };
    let rest = &bytes[at..];
    let Some((body, length)) = body(&request, version, rest, reader)? else {
        return Ok(None);
    };
    request.body = body;
    Ok(Some((request, at + length)))
}

/// The lines of a head, and where its body begins.
fn head(bytes: &[u8], reader: Reader) -> Parsed<(Vec<&[u8]>, usize)> {
    let (mut lines, mut at) = (Vec::new(), 0);
    while let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') {
        let line = &bytes[at..at + length];
        at += length + 1;
        let line = match line.strip_suffix(b"\r") {
            Some(line) => line,
            None if reader == Reader::Lenient => line,
            None => return Err(Unreadable),
        };
        match (line.is_empty(), lines.is_empty()) {
            // Empty lines before a request are to be ignored (2.2).
            (true, true) if reader == Reader::Lenient => {}
            (true, true) => return Err(Unreadable),
            (true, false) => return Ok(Some((lines, at))),
            (false, _) => lines.push(line),
        }
    }
    Ok(None)
}

fn start(line: &[u8]) -> Result<[&[u8]; 3], Unreadable> {
    let parts: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = parts[..] else {
        return Err(Unreadable);
    };
    let good_target = !target.is_empty() && target.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    let good_version = matches!(version, b"HTTP/1.1" | b"HTTP/1.0");
    if is_token(method) && good_target && good_version {
        Ok([method, target, version])
    } else {
        Err(Unreadable)
    }
}

fn field(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Unreadable> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or(Unreadable)?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    let good_value = value
        .iter()
        .all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
    if is_token(name) && good_value {
        Ok((name.to_ascii_lowercase(), value.to_vec()))
    } else {
        Err(Unreadable)
    }
}

fn body(request: &Request, version: &[u8], rest: &[u8], reader: Reader) -> Parsed<(Vec<u8>, usize)> {
    let (lengths, codings) = (request.all(b"content-length"), request.all(b"transfer-encoding"));
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Some((Vec::new(), 0))),
        ([first, others @ ..], []) => {
            if others.iter().any(|other| other != first) || (reader == Reader::Strict && !others.is_empty()) {
                return Err(Unreadable);
            }
            let length = decimal(first)?;
            Ok(rest.get(..length).map(|body| (body.to_vec(), length)))
        }
        (lengths, [coding]) if coding.eq_ignore_ascii_case(b"chunked") && version == b"HTTP/1.1" => {
            if reader == Reader::Strict && !lengths.is_empty() {
                return Err(Unreadable);
            }
            // The length may be any nonsense: it is not looked at, and the connection is closed behind the request.
            chunks(rest)
        }
        _ => Err(Unreadable),
    }
}

fn chunks(bytes: &[u8]) -> Parsed<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = strict_line(bytes, &mut at)? else {
            return Ok(None);
        };
        let size = chunk_size(line)?;
        if size == 0 {
            break;
        }
        let Some(end) = at.checked_add(size) else {
            return Err(Unreadable);
        };
        let Some(data) = bytes.get(at..end) else {
            return Ok(None);
        };
        body.extend_from_slice(data);
        at = end;
        match strict_line(bytes, &mut at)? {
            None => return Ok(None),
            Some([]) => {}
            Some(_) => return Err(Unreadable),
        }
    }
    while let Some(line) = strict_line(bytes, &mut at)? {
        if line.is_empty() {
            return Ok(Some((body, at)));
        }
        field(line)?;
    }
    Ok(None)
}

/// A line that ends in CRLF and has neither of them within.
fn strict_line<'a>(bytes: &'a [u8], at: &mut usize) -> Parsed<&'a [u8]> {
    let rest = &bytes[*at..];
    let Some(length) = rest.iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    *at += length + 1;
    let line = rest[..length].strip_suffix(b"\r").ok_or(Unreadable)?;
    if line.contains(&b'\r') {
        Err(Unreadable)
    } else {
        Ok(Some(line))
    }
}

/// Hexadecimal digits; after them blanks, and extensions that say nothing to anybody.
fn chunk_size(line: &[u8]) -> Result<usize, Unreadable> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(Unreadable);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Unreadable)?;
    usize::from_str_radix(text, 16).map_err(|_| Unreadable)
}

fn decimal(value: &[u8]) -> Result<usize, Unreadable> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Unreadable);
    }
    let text = std::str::from_utf8(value).map_err(|_| Unreadable)?;
    text.parse().map_err(|_| Unreadable)
}

fn is_token(text: &[u8]) -> bool {
    let in_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.iter().all(in_token)
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
