//! The reader of server-sent events against its readable twin, which sees the whole stream at once.

use proptest::prelude::*;
use relay::{SseReader, Usage, usage_of};

/// The twin: the specification's algorithm on a whole stream, without limits.
fn read_whole(stream: &[u8]) -> (u64, Usage) {
    let text = String::from_utf8_lossy(stream)
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let mut events = 0;
    let mut usage = Usage::default();
    for event in text.split("\n\n") {
        let data: Vec<&str> = event.split('\n').filter_map(data_of).collect();
        if data.is_empty() {
            continue;
        }
        events += 1;
        let found = usage_of(data.join("\n").as_bytes());
        usage.prompt_tokens = found.prompt_tokens.or(usage.prompt_tokens);
        usage.completion_tokens = found.completion_tokens.or(usage.completion_tokens);
        usage.cached_tokens = found.cached_tokens.or(usage.cached_tokens);
    }
    (events, usage)
}

fn data_of(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name == "data").then(|| value.strip_prefix(' ').unwrap_or(value))
}

fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (u64, Usage) {
    let mut reader = SseReader::default();
    pieces.into_iter().for_each(|piece| reader.push(piece));
    reader.finish();
    (reader.events(), reader.usage())
}

const RECORDED: &str = concat!(
    ": comment\n\n",
    "data: {\"choices\":[{\"text\":\"a\"}],\"usage\":null}\n\n",
    "event: x\nid: 7\ndata:{\"choices\":[{\"text\":\"b\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,",
    "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n",
    "data: [DONE]\n\n",
);

fn recorded_usage() -> Usage {
    Usage {
        prompt_tokens: Some(11),
        completion_tokens: Some(2),
        cached_tokens: Some(8),
    }
}

#[test]
fn a_recorded_stream_gives_the_same_counts_cut_at_every_byte() {
    for stream in [
        RECORDED.to_owned(),
        RECORDED.replace('\n', "\r\n"),
        RECORDED.replace('\n', "\r"),
    ] {
        let bytes = stream.as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(
                read_pieces([&bytes[..cut], &bytes[cut..]]),
                (4, recorded_usage()),
                "cut at {cut}"
            );
        }
        assert_eq!(read_pieces(bytes.chunks(1)), (4, recorded_usage()));
    }
}

#[test]
fn the_last_event_needs_no_blank_line() {
    assert_eq!(
        read_pieces([&b"data: 1\n\ndata: {\"usage\":{\"prompt_tokens\":5}}"[..]])
            .1
            .prompt_tokens,
        Some(5)
    );
}

#[test]
fn data_over_several_lines_is_one_event() {
    let (events, usage) = read_pieces([&b"data: {\"usage\":\ndata: {\"prompt_tokens\":5}}\n\n"[..]]);
    assert_eq!((events, usage.prompt_tokens), (1, Some(5)));
}

#[test]
fn an_overlong_line_is_counted_but_not_read() {
    let long = format!(
        "data: {{\"pad\":\"{}\",\"usage\":{{\"prompt_tokens\":1}}}}\n\n",
        "x".repeat(300 * 1024)
    );
    let stream = format!("{long}data: {{\"usage\":{{\"completion_tokens\":2}}}}\n\n");
    for size in [1 << 20, 290 * 1024, 64 * 1024, 1000] {
        let (events, usage) = read_pieces(stream.as_bytes().chunks(size));
        assert_eq!(
            (events, usage.prompt_tokens, usage.completion_tokens),
            (2, None, Some(2)),
            "pieces of {size}"
        );
    }
}

#[test]
fn what_follows_a_cut_parses_as_an_event_of_its_own() {
    for stream in [RECORDED.to_owned(), RECORDED.replace('\n', "\r\n")] {
        for cut in 0..=stream.len() {
            let mut reader = SseReader::default();
            reader.push(&stream.as_bytes()[..cut]);
            let closed = format!("{}{}", &stream[..cut], reader.closing());
            let with_error = format!("{closed}data: {{\"usage\":{{\"prompt_tokens\":99}}}}\n\n");
            let (events, usage) = read_whole(with_error.as_bytes());
            assert_eq!(
                (events, usage.prompt_tokens),
                (read_whole(closed.as_bytes()).0 + 1, Some(99)),
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn what_follows_whole_lines_parses_as_an_event_of_its_own() {
    for stream in [
        RECORDED.to_owned(),
        RECORDED.replace('\n', "\r\n"),
        RECORDED.replace('\n', "\r"),
    ] {
        for cut in 0..=stream.len() {
            let mut reader = SseReader::default();
            reader.push(&stream.as_bytes()[..cut]);
            let lines = stream[..cut].rfind(['\n', '\r']).map_or(0, |at| at + 1);
            if lines == cut {
                continue; // nothing was held back
            }
            let closed = format!("{}{}", &stream[..lines], reader.closing_of_lines());
            let with_error = format!("{closed}data: {{\"usage\":{{\"prompt_tokens\":99}}}}\n\n");
            let (events, usage) = read_whole(with_error.as_bytes());
            let before = read_whole(closed.as_bytes()).0;
            assert_eq!((events, usage.prompt_tokens), (before + 1, Some(99)), "cut at {cut}");
        }
    }
}

/// Pieces from which streams are made: more likely to be interesting than random bytes.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "data",
        "data:",
        "data: ",
        ":",
        "event: x",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\r\n\r\n",
        "{\"usage\":",
        "null",
        "}",
        "{\"prompt_tokens\":3",
        ",\"completion_tokens\":4",
        "[DONE]",
        "{}",
        " ",
        "\"",
        "{\"usage\":{\"prompt_tokens\":7}}",
    ];
    prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(fragment(), 0..40).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn any_cut_of_any_stream_reads_as_the_whole(bytes in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        at.sort_unstable();
        let pieces = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(read_pieces(pieces), read_whole(&bytes));
    }
}
