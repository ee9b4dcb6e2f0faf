//! What requests are made of, HTTP/1.1 and HTTP/2.

/// Begins a connection of HTTP/2 (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Takes the byte after it as it is.
const AS_IT_IS: u8 = 0xFF;
/// The byte of the first word.
const FIRST: u8 = 0x80;
/// Most fields of a request that is put together, and most frames of a connection.
const MOST: u32 = 4;

const KINDS: [&[&[u8]]; 5] = [STARTS, FIELDS, BODIES, ANSWERS, FRAMES];

/// The bytes that `text` stands for.
pub fn spelled(text: &[u8]) -> Vec<u8> {
    let words: Vec<&[u8]> = KINDS.concat();
    let (mut bytes, mut text) = (Vec::new(), text.iter());
    while let Some(&byte) = text.next() {
        match byte {
            0..FIRST => bytes.push(byte),
            AS_IT_IS => bytes.extend(text.next()),
            _ => bytes.extend_from_slice(words[usize::from(byte - FIRST) % words.len()]),
        }
    }
    bytes
}

/// Words that follow one another as they do in a request, or in a connection of HTTP/2; different ones for each `seed`.
pub fn sensible(seed: u32) -> Vec<u8> {
    let mut draws = Draws(seed);
    if draws.below(4) > 0 {
        let mut words = vec![draws.of(STARTS)];
        words.extend((0..draws.below(MOST)).map(|_| draws.of(FIELDS)).collect::<Vec<_>>());
        words.push(draws.of(BODIES));
        return words;
    }
    let mut words = vec![byte_of(FRAMES, 0), byte_of(FRAMES, 1)];
    words.extend(
        (0..=draws.below(2 * MOST))
            .map(|_| draws.of(FRAMES))
            .collect::<Vec<_>>(),
    );
    words
}

/// Numbers from a seed (a linear congruence, of whose bits the upper ones are good enough).
struct Draws(u32);

impl Draws {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % limit
    }

    fn of(&mut self, kind: &[&[u8]]) -> u8 {
        byte_of(kind, self.below(kind.len() as u32) as usize)
    }
}

/// The byte of a word, given its kind.
fn byte_of(kind: &[&[u8]], at: usize) -> u8 {
    let before = KINDS.iter().take_while(|other| other.first() != kind.first());
    FIRST + (before.map(|other| other.len()).sum::<usize>() + at) as u8
}

/// Up to the first field.
const STARTS: &[&[u8]] = &[
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\n",
    b"GET / HTTP/1.1\r\nHost: r\r\n",
    b"GET /smuggled HTTP/1.1\r\nHost: r\r\n",
    b"HEAD /h?q HTTP/1.1\r\nHost: r\r\n",
    b"POST /v1/messages HTTP/1.0\r\nConnection: keep-alive\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: r\r\n",
    b"CONNECT w:80 HTTP/1.1\r\nHost: w\r\n",
    b"GET http://elsewhere/x HTTP/1.1\r\nHost: r\r\n",
];

const FIELDS: &[&[u8]] = &[
    b"Content-Length: 3\r\n",
    b"Content-Length: 4\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: ",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Connection: x-request-id, host, content-length\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"X-Request-Id: 1\r\n",
    b"X-Fold: a\r\n b\r\n",
    b"Trailer: x\r\nTE: trailers\r\n",
    b"Cookie: a=1\r\n",
];

/// From the end of the head on, whole and in parts.
const BODIES: &[&[u8]] = &[
    b"\r\n",
    b"\r\nabc",
    b"\r\n3\r\nabc\r\n0\r\n\r\n",
    b"\r\n{\"messages\":[]}",
    b"\r\n\r\n",
    b"3\r\nabc\r\n",
    b"3;x=y\r\nabc\r\n",
    b"0\r\n\r\n",
    b"0\r\nX-Trailer: 1\r\n\r\n",
    b"7fffffffffffffff\r\n",
];

/// Of a worker; such answers are given where the request's body is the answer.
const ANSWERS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n\r\n",
    b"Content-Type: text/event-stream\r\n",
    b"data: {}\n\n",
];

/// After the preface: length, type, flags, stream and content (RFC 9113, 4.1).
const FRAMES: &[&[u8]] = &[
    PREFACE,
    // SETTINGS and its acknowledgement, PING, WINDOW_UPDATE.
    b"\0\0\0\x04\0\0\0\0\0",
    b"\0\0\0\x04\x01\0\0\0\0",
    b"\0\0\x08\x06\0\0\0\0\0pingpong",
    b"\0\0\x04\x08\0\0\0\0\0\0\0\x10\0",
    // HEADERS: GET / and POST /, on streams 1, 3 and 5; authority r.
    b"\0\0\x06\x01\x05\0\0\0\x01\x82\x84\x86\x41\x01r",
    b"\0\0\x06\x01\x05\0\0\0\x03\x82\x84\x86\x41\x01r",
    b"\0\0\x06\x01\x04\0\0\0\x01\x83\x84\x86\x41\x01r",
    b"\0\0\x06\x01\x04\0\0\0\x03\x83\x84\x86\x41\x01r",
    b"\0\0\x06\x01\x04\0\0\0\x05\x83\x84\x86\x41\x01r",
    // Content-length 3 and 300, a transfer coding, a line end in the path and in a value, crumbs, another host.
    b"\0\0\x09\x01\x04\0\0\0\x01\x83\x84\x86\x41\x01r\x5c\x013",
    b"\0\0\x0b\x01\x04\0\0\0\x03\x83\x84\x86\x41\x01r\x5c\x03300",
    b"\0\0\x10\x01\x04\0\0\0\x01\x83\x84\x86\x41\x01r\x0f\x2a\x07chunked",
    b"\0\0\x0b\x01\x05\0\0\0\x01\x82\x86\x41\x01r\x44\x04/\r\nx",
    b"\0\0\x0d\x01\x05\0\0\0\x03\x82\x84\x86\x41\x01r\0\x01x\x03\r\ny",
    b"\0\0\x10\x01\x05\0\0\0\x03\x82\x84\x86\x41\x01r\x60\x03a=1\x60\x03b=2",
    b"\0\0\x09\x01\x05\0\0\0\x05\x82\x84\x86\x41\x01r\x66\x01h",
    // DATA with and without its end, trailers, half a head and its CONTINUATION, RST_STREAM, GOAWAY.
    b"\0\0\x03\0\x01\0\0\0\x01abc",
    b"\0\0\x03\0\0\0\0\0\x01abc",
    b"\0\0\x03\0\x01\0\0\0\x03abc",
    b"\0\0\x04\x01\x05\0\0\0\x01\0\x01x\0",
    b"\0\0\x03\x01\x01\0\0\0\x05\x82\x84\x86",
    b"\0\0\x03\x09\x04\0\0\0\x05\x41\x01r",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x08",
    b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0",
];
