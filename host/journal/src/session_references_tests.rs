use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use tempfile::TempDir;

/// A session's file that grows.
struct Session {
    directory: TempDir,
    index: SessionIndex,
}

impl Session {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let index = SessionIndex::new(&directory.path().join("s.jsonl"));
        Self { directory, index }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("s.jsonl")
    }

    /// Adds a line with a text as JSON has it, and lets the index read it.
    fn add(&mut self, text: &str) {
        self.add_line(&format!("{{\"text\":{}}}", quoted(text)));
    }

    fn add_line(&mut self, line: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.path()).unwrap();
        writeln!(file, "{line}").unwrap();
        self.index.update().unwrap();
    }

    /// Writes and restores a value; returns the size of its tokens.
    fn round_trip(&self, value: &[u8]) -> usize {
        let Some(tokens) = self.index.shorten(value) else { return value.len() };
        let mut reader = SessionReader::new(Some(&self.path()));
        assert_eq!(reader.restore(&tokens, value.len()).as_deref(), Some(value));
        tokens.len()
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t").replace('\r', "\\r");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}

/// A text whose lines differ from each other and from texts with other seeds.
fn lines(count: u32, seed: u32) -> String {
    (0..count).fold(String::new(), |mut text, line| {
        let number = (line + seed * 100_000 + 1).wrapping_mul(2_654_435_761);
        writeln!(text, "    let \"value_{number:x}\" = {};\r", number.rotate_left(7)).unwrap();
        text
    })
}

fn numbered(text: &str) -> String {
    text.split_inclusive('\n')
        .zip(1..)
        .fold("f.rs: lines\n".to_owned(), |text, (line, number)| text + &format!("{number:>6}\t{line}"))
}

#[test]
fn file_is_a_reference_into_the_numbered_lines_of_its_result() {
    let (mut session, file) = (Session::new(), lines(300, 1));
    session.add(&numbered(&file));
    for value in [file.clone(), numbered(&file), quoted(&numbered(&file)), file[1_000..].to_owned()] {
        let size = session.round_trip(value.as_bytes());
        assert!(size < 80, "{size} of {}", value.len());
    }
    let part = format!("{}{}", lines(100, 2), file);
    let size = session.round_trip(part.as_bytes());
    assert!(size < lines(100, 2).len() + 80, "{size} of {}", part.len());
}

#[test]
fn value_without_a_part_in_the_session_stays_as_it_is() {
    let mut session = Session::new();
    assert_eq!(session.index.shorten(&[b'a'; 5_000]), None);
    session.index.update().unwrap();
    session.add(&lines(100, 1));
    assert_eq!(session.index.shorten(lines(100, 2).as_bytes()), None);
}

#[test]
fn old_lines_of_a_long_session_are_dropped() {
    let mut session = Session::new();
    session.add(&lines(200, 0));
    for seed in 1..40 {
        session.add(&lines(4_000, seed));
    }
    assert!(session.index.text.len() <= 3 * WINDOW);
    assert_eq!(session.index.shorten(lines(200, 0).as_bytes()), None);
    assert!(session.round_trip(lines(4_000, 39).as_bytes()) < 100);
}

#[test]
fn session_that_was_there_before_is_read_from_a_complete_line() {
    let mut session = Session::new();
    let text = (0..80).map(|seed| format!("{}\n", quoted(&lines(400, seed)))).collect::<String>();
    assert!(text.len() as u64 > EARLIER);
    fs::write(session.path(), &text[..text.len() - 1]).unwrap();
    session.index.update().unwrap();
    assert_eq!(session.index.shorten(lines(400, 0).as_bytes()), None);
    // The last line is not complete yet.
    assert_eq!(session.index.shorten(lines(400, 79).as_bytes()), None);
    assert!(session.round_trip(lines(400, 78).as_bytes()) < 100);
    session.add_line("");
    assert!(session.round_trip(lines(400, 79).as_bytes()) < 100);
}

#[test]
fn line_longer_than_a_part_is_left_out() {
    let mut session = Session::new();
    session.add_line(&"x".repeat(usize::try_from(MAX_PART).unwrap() + 5_000));
    session.add(&lines(50, 1));
    assert!(session.round_trip(lines(50, 1).as_bytes()) < 100);
}

#[test]
fn damaged_tokens_are_refused_or_stay_within_the_limit() {
    let (mut session, file) = (Session::new(), lines(50, 1));
    session.add(&numbered(&file));
    let tokens = session.index.shorten(file.as_bytes()).unwrap();
    for at in 0..tokens.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, tokens[at] ^ 1] {
            let mut damaged = tokens.clone();
            damaged[at] = value;
            let restored = SessionReader::new(Some(&session.path())).restore(&damaged, 4_000);
            assert!(restored.is_none_or(|restored| restored.len() <= 4_000));
        }
        assert_eq!(SessionReader::new(Some(&session.path())).restore(&tokens[..at], 4_000).filter(|_| at == 0), None);
    }
    assert_eq!(SessionReader::new(None).restore(&tokens, 4_000), None);
}

/// Texts of lines, with and without CRLF, and bytes of all kinds.
fn any_text() -> impl Strategy<Value = String> {
    let line =
        prop_oneof!["[ -~]{0,90}", "[a-c\\\\\"\t]{0,60}", "\\PC{0,40}", Just("\u{0}\u{1}\\u00e4\u{feff}".to_owned())];
    let ending = prop_oneof![Just("\n"), Just("\r\n")];
    (prop::collection::vec(line, 0..40), ending).prop_map(|(lines, ending)| lines.join(ending))
}

/// The number of a text, the bounds of a part of it, and other bytes.
fn any_piece() -> impl Strategy<Value = (usize, usize, usize, Vec<u8>)> {
    (0_usize..6, 0_usize..4_000, 0_usize..4_000, prop::collection::vec(any::<u8>(), 0..80))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_of_pieces_of_the_session_and_of_other_bytes_are_restored(
        texts in prop::collection::vec(any_text(), 1..6),
        pieces in prop::collection::vec(any_piece(), 1..12),
    ) {
        let mut session = Session::new();
        texts.iter().for_each(|text| session.add(&numbered(text)));
        let mut value = Vec::new();
        for (text, from, to, other) in pieces {
            let text = &texts[text % texts.len()].as_bytes();
            let (from, to) = (from.min(text.len()), to.min(text.len()));
            value.extend_from_slice(&text[from.min(to)..to.max(from)]);
            value.extend_from_slice(&other);
        }
        session.round_trip(&value);
    }
}
