//! Sanitizes and checks untrusted text: the output of models, guests, files and servers.
//!
//! [`printable`] is for all text that reaches a terminal or a file that people read. [`exposed`] is for approval
//! questions: it leaves nothing invisible and nothing that imitates other characters. [`find_unsafe`] is for checks
//! that reject a text instead of changing it.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;

/// Maximum combining marks on one character; more would paint over the lines above and below.
const MAX_MARKS: usize = 4;
/// Maximum consecutive spaces that [`exposed`] shows verbatim.
const MAX_BLANKS: usize = 20;
/// Maximum consecutive empty lines that [`exposed`] shows verbatim.
const MAX_EMPTY_LINES: usize = 2;

/// Joins the messages of an error and its causes with colons. A cause that the text so far already contains is left
/// out.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    append_causes(&mut text, error.source());
    text
}

/// Appends an error and its causes to a message, like [`with_causes`].
pub fn append_causes(text: &mut String, mut cause: Option<&dyn Error>) {
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
}

/// Formats a number of things: `1 turn`, `2 turns`.
pub fn count(n: u64, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// Replaces all characters that a terminal would interpret or that a reader cannot see.
///
/// Control characters, and thus all escape sequences, become pictures such as `␛`. Bidirectional controls, zero-width
/// and other ignorable characters, tags and noncharacters become `\u{…}`. Newlines and tabs remain; a carriage return
/// before a newline is dropped. Joiners and variation selectors remain where a script or an emoji needs them.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| matches!(b, b'\n' | b'\t' | 0x20..=0x7e)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut marks = MarkCounter::default();
    for (at, c) in text.char_indices() {
        let next = text[at + c.len_utf8()..].chars().next();
        if c == '\r' && next == Some('\n') {
            continue;
        }
        match is_unsafe(shown.chars().next_back(), c, next) || marks.is_too_many(c) {
            true => escape(&mut shown, c),
            false => shown.push(c),
        }
    }
    if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
}

/// Removes control characters but line ends, and makes other invisible characters visible.
pub fn without_controls(text: &str) -> String {
    let kept: String = text.replace('\t', "    ").chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    printable(&kept).into_owned()
}

/// Formats a text as one line of at most `characters` characters: line ends become ` ⏎ `, runs of whitespace become one
/// space, and the rest passes through [`printable`].
pub fn one_line(text: &str, characters: usize) -> String {
    // The line cannot need more than this, and cutting first avoids copying megabytes.
    let text = head(text, characters.saturating_mul(8).saturating_add(64));
    let lines = text.lines().map(|line| printable(line).split_whitespace().collect::<Vec<_>>().join(" "));
    let line = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ⏎ ");
    clip(&line, characters)
}

/// Shortens a text to at most `lines` lines and `characters` characters in total, and notes how many lines were left
/// out.
pub fn bounded(text: &str, lines: usize, characters: usize) -> String {
    let kept = head(text, characters.saturating_mul(4));
    let mut shown = clip(&printable(kept), characters);
    if let Some((at, _)) = shown.match_indices('\n').nth(lines.saturating_sub(1)) {
        let more = text.lines().count().saturating_sub(lines);
        shown.truncate(at);
        if more > 0 {
            let _ = write!(shown, "\n… {}", count(more as u64, "more line"));
        }
    } else if kept.len() < text.len() && !shown.ends_with('…') {
        shown.push('…');
    }
    shown
}

/// Truncates a text to a number of characters, marking the cut with `…`.
pub fn clip(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Formats a text so that nothing in it is hidden, for approval questions.
///
/// Beyond [`printable`], it escapes every invisible character, tab, carriage return and whitespace other than a space,
/// and all letters and signs that imitate ASCII ones, unless their word is clearly written in another script. Long runs
/// of spaces and of empty lines are replaced by their length. Newlines remain.
pub fn exposed(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    let mut empty = 0;
    for (number, line) in text.split('\n').enumerate() {
        if line.is_empty() && number > 0 {
            empty += 1;
            continue;
        }
        empty_lines(&mut shown, std::mem::take(&mut empty));
        if number > 0 {
            shown.push('\n');
        }
        exposed_line(&mut shown, line);
    }
    empty_lines(&mut shown, empty);
    shown
}

/// Finds the first character that a manifest or a tool list must not contain, with its byte offset. `allow_lines`
/// permits newlines and tabs.
pub fn find_unsafe(text: &str, allow_lines: bool) -> Option<(usize, char)> {
    let mut marks = MarkCounter::default();
    text.char_indices().find(|&(at, c)| {
        let next = text[at + c.len_utf8()..].chars().next();
        let before = text[..at].chars().next_back();
        let is_layout = matches!(c, '\n' | '\t') && !allow_lines;
        is_layout || is_unsafe(before, c, next) || marks.is_too_many(c)
    })
}

/// Returns the start of a text, at most `bytes` long.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn empty_lines(shown: &mut String, count: usize) {
    match count {
        0..=MAX_EMPTY_LINES => shown.extend(std::iter::repeat_n('\n', count)),
        _ => {
            let _ = write!(shown, "\n··· {count} empty lines ···");
        }
    }
}

/// Appends the exposed form of one line, word by word.
fn exposed_line(shown: &mut String, line: &str) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let class = Class::from_char(first);
        let end = rest.find(|c| Class::from_char(c) != class).unwrap_or(rest.len());
        let (part, more) = rest.split_at(end);
        match class {
            Class::Blank if part.len() > MAX_BLANKS => {
                let _ = write!(shown, "··· {} spaces ···", part.len());
            }
            Class::Word if imitates_ascii(part) => part.chars().for_each(|c| match c.is_ascii() {
                true => shown.push(c),
                false => escape(shown, c),
            }),
            Class::Blank | Class::Word => exposed_word(shown, part),
            Class::Other => part.chars().for_each(|c| match is_hidden(c) || looks_like_sign(c) {
                true => escape(shown, c),
                false => shown.push(c),
            }),
        }
        rest = more;
    }
}

/// Appends a word that imitates nothing; still escapes excess combining marks.
fn exposed_word(shown: &mut String, word: &str) {
    let mut marks = MarkCounter::default();
    for c in word.chars() {
        match is_hidden(c) || marks.is_too_many(c) {
            true => escape(shown, c),
            false => shown.push(c),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    Word,
    Other,
}

impl Class {
    fn from_char(c: char) -> Self {
        match c {
            ' ' => Self::Blank,
            c if c.is_alphanumeric() || c == '_' || is_mark(c) => Self::Word,
            _ => Self::Other,
        }
    }
}

/// Returns whether a word could be misread as ASCII: it mixes ASCII letters with another script, or consists only of
/// look-alikes.
fn imitates_ascii(word: &str) -> bool {
    if word.is_ascii() {
        return false;
    }
    let foreign = |c: char| !c.is_ascii() && !is_latin(c);
    let has_ascii_letters = word.chars().any(|c| c.is_ascii_alphabetic() || is_latin(c));
    let is_imitation = |c: char| foreign(c) && looks_like_letter(c);
    match has_ascii_letters {
        true => word.chars().any(foreign),
        false => word.chars().any(is_imitation) && word.chars().all(|c| c.is_ascii() || is_imitation(c)),
    }
}

/// Returns whether `c` is an accented Latin letter of a European language. Excludes phonetic letters, which imitate
/// plain ones.
fn is_latin(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
        && !matches!(c, '\u{d7}' | '\u{f7}' | '\u{131}' | '\u{17f}' | '\u{1c0}'..='\u{1c3}' | '\u{237}')
}

/// Returns whether `c` is a non-ASCII letter that looks like an ASCII letter or digit.
fn looks_like_letter(c: char) -> bool {
    const CYRILLIC: &str = "АВЕЅІЈКМНОРСТУХаеорсухѕіјһԁԛԝҮүӀӏԌԚԜвкнтмзЗбг";
    const GREEK: &str = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορτυκγωχϲϳ";
    CYRILLIC.contains(c)
        || GREEK.contains(c)
        || matches!(c,
            '\u{aa}' | '\u{ba}' | '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{131}' | '\u{17f}' | '\u{1c0}'..='\u{1c3}' | '\u{237}'
            // Phonetic letters, modifiers, Armenian, Arabic-Indic digits, Cherokee, superscripts, letterlike signs, Coptic, Lisu.
            | '\u{250}'..='\u{2ff}' | '\u{531}'..='\u{587}' | '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}'
            | '\u{13a0}'..='\u{13ff}' | '\u{1d00}'..='\u{1dbf}' | '\u{2070}'..='\u{209c}' | '\u{2100}'..='\u{218f}'
            | '\u{2c60}'..='\u{2cff}' | '\u{a4d0}'..='\u{a4ff}' | '\u{a720}'..='\u{a7ff}' | '\u{ab30}'..='\u{abbf}'
            // Full-width forms, mathematical alphabets, letters in circles and squares.
            | '\u{ff10}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' | '\u{24b6}'..='\u{24e9}' | '\u{1f100}'..='\u{1f1e5}'
            | '\u{fb00}'..='\u{fb06}' | '\u{10280}'..='\u{1031f}' | '\u{118a0}'..='\u{118ff}' | '\u{1fbf0}'..='\u{1fbf9}')
}

/// Returns whether `c` is a non-ASCII sign that looks like one with a meaning in a shell or a path.
fn looks_like_sign(c: char) -> bool {
    matches!(c,
        '\u{2c2}'..='\u{2cf}' | '\u{37e}' | '\u{387}' | '\u{55d}' | '\u{589}' | '\u{5c0}' | '\u{5c3}' | '\u{60d}' | '\u{66a}'
        | '\u{6d4}' | '\u{2010}'..='\u{2012}' | '\u{2024}' | '\u{201a}' | '\u{2039}' | '\u{203a}' | '\u{2041}' | '\u{2044}'
        | '\u{204e}' | '\u{2052}' | '\u{2053}' | '\u{2212}' | '\u{2215}'..='\u{2217}' | '\u{2223}' | '\u{2236}' | '\u{223c}'
        | '\u{2758}' | '\u{27cb}' | '\u{27cd}' | '\u{29f5}' | '\u{29f8}' | '\u{29f9}' | '\u{3003}' | '\u{3014}' | '\u{3015}'
        | '\u{3033}' | '\u{30fb}' | '\u{a4fa}' | '\u{a4fd}' | '\u{a789}' | '\u{fe30}' | '\u{fe4d}'..='\u{fe6b}'
        | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}' | '\u{ffe8}')
}

/// Returns whether `c` is indistinguishable from a space or from nothing in every context.
fn is_hidden(c: char) -> bool {
    match c {
        ' ' | '\n' => false,
        c if c.is_whitespace() || c.is_control() => true,
        // The empty braille pattern, and private-use characters, whose appearance depends on the font.
        '\u{2800}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        c => is_ignorable(c),
    }
}

/// Returns whether `c` must not reach a terminal between `before` and `next`.
fn is_unsafe(before: Option<char>, c: char, next: Option<char>) -> bool {
    match c {
        '\n' | '\t' => false,
        ' '..='~' => false,
        '\u{200c}' | '\u{200d}' => {
            let is_in_word = before.is_some_and(is_joined_script) && next.is_some_and(is_joined_script);
            let is_in_emoji = before.is_some_and(is_pictograph_part) && next.is_some_and(is_pictograph);
            !(is_in_word || c == '\u{200d}' && is_in_emoji)
        }
        '\u{fe0e}' | '\u{fe0f}' => {
            !before.is_some_and(|b| is_pictograph(b) || b.is_ascii_digit() || b == '#' || b == '*')
        }
        c => c.is_control() || is_ignorable(c),
    }
}

/// Returns whether `c` is a format character, a character that renderers ignore or draw as nothing, a line or paragraph
/// separator, or a noncharacter.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{70f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{fdd0}'..='\u{fdef}' | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Returns whether `c` belongs to a script whose words need joiners and non-joiners: Arabic with its extensions,
/// Mongolian, and the scripts of India and South-East Asia.
fn is_joined_script(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{6d3}' | '\u{6fa}'..='\u{6ff}' | '\u{750}'..='\u{77f}' | '\u{8a0}'..='\u{8ff}'
        | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}' | '\u{17b6}'..='\u{17d3}'
        | '\u{1820}'..='\u{18aa}')
}

/// Returns whether `c` may precede a joiner in an emoji: a pictograph, a skin tone or a variation selector.
fn is_pictograph_part(c: char) -> bool {
    is_pictograph(c) || c == '\u{fe0f}'
}

fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}' | '\u{2460}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns whether `c` is a combining mark.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{302a}'..='\u{302f}' | '\u{3099}' | '\u{309a}'
        | '\u{fe20}'..='\u{fe2f}')
}

/// Counts the combining marks on one character.
#[derive(Default)]
struct MarkCounter(usize);

impl MarkCounter {
    fn is_too_many(&mut self, c: char) -> bool {
        self.0 = if is_mark(c) { self.0 + 1 } else { 0 };
        self.0 > MAX_MARKS
    }
}

/// Appends the picture of a control character, such as `␛`, or the code of any other character.
fn escape(shown: &mut String, c: char) {
    match c {
        '\0'..='\x1f' => shown.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER)),
        '\x7f' => shown.push('␡'),
        c => {
            // Writing to a string never fails.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in ["Grüße, 世界 👋\n\tok", "👨‍👩‍👧 ❤️ 1️⃣ 🏳️‍🌈", "می‌خواهم", "क्‍ष", "naïve e\u{301}", "→ ✓ ␛"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
    }

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(printable("\x1b[2J\x07"), "␛[2J␇");
        assert_eq!(printable("a\r\nb\rc"), "a\nb␍c");
        assert_eq!(printable("\x7f\u{9b}31m\u{202e}txt"), "␡\\u{9b}31m\\u{202e}txt");
    }

    #[test]
    fn invisible_characters_become_codes() {
        for c in
            "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}\u{3164}\u{115f}\u{e0041}\u{fff9}\u{2028}\u{180e}".chars()
        {
            let text = format!("a{c}b");
            assert_eq!(printable(&text), format!("a\\u{{{:x}}}b", u32::from(c)));
            assert_eq!(find_unsafe(&text, true), Some((1, c)));
            assert!(exposed(&text).is_ascii());
        }
    }

    #[test]
    fn excess_combining_marks_become_codes() {
        let text = format!("a{}", "\u{301}".repeat(100));
        assert_eq!(printable(&text).matches('\u{301}').count(), MAX_MARKS);
    }

    #[test]
    fn one_line_returns_a_single_bounded_line() {
        assert_eq!(one_line(" a\n\n\tb  c\r\nd", 20), "a ⏎ b c ⏎ d");
        assert_eq!(one_line(&"x".repeat(1_000_000), 10), format!("{}…", "x".repeat(10)));
        assert!(!one_line("a\u{2028}b\u{85}c", 80).contains(['\u{2028}', '\u{85}']));
    }

    #[test]
    fn bounded_text_counts_what_it_leaves_out() {
        assert_eq!(bounded("a\nb\nc\n", 2, 80), "a\nb\n… 1 more line");
        assert_eq!(bounded("a\nb\n", 2, 80), "a\nb");
        assert_eq!(bounded("abcdef", 2, 3), "abc…");
    }

    #[test]
    fn exposed_text_hides_nothing() {
        assert_eq!(exposed("a\tb\rc\u{a0}d"), "a␉b␍c\\u{a0}d");
        assert_eq!(exposed(&format!("ls{}; rm -rf ~", " ".repeat(5000))), "ls··· 5000 spaces ···; rm -rf ~");
        assert_eq!(exposed(&format!("ls{}rm", "\n".repeat(500))), "ls\n··· 499 empty lines ···\nrm");
        assert_eq!(exposed("a\n\nb\n"), "a\n\nb\n");
    }

    #[test]
    fn exposed_text_escapes_look_alikes() {
        assert_eq!(exposed("rm аpt"), "rm \\u{430}pt");
        assert_eq!(exposed("сору"), "\\u{441}\\u{43e}\\u{440}\\u{443}");
        assert_eq!(exposed("ls ／etc"), "ls \\u{ff0f}etc");
        for text in ["Привет, мир", "Grüße", "naïve", "日本語のテキスト", "👋 ok"] {
            assert_eq!(exposed(text), text);
        }
    }

    /// Independent of the tables above: characters that no output may contain.
    fn is_dangerous(c: char) -> bool {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(u32::from(c), 0x200b | 0x200e | 0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xad | 0xe0000..=0xe0fff)
    }

    fn hostile_text() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            any::<char>(),
            prop::sample::select(vec![
                '\x1b', '\r', '\n', '\t', '\u{9b}', '\u{200d}', '\u{200c}', '\u{fe0f}', '\u{301}', '\u{202e}', '👨',
                'a', 'а', ' ',
            ]),
        ];
        prop::collection::vec(c, 0..60).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn printable_text_contains_nothing_unsafe(text in hostile_text()) {
            let shown = printable(&text).into_owned();
            prop_assert!(!shown.contains(is_dangerous), "{shown:?}");
            prop_assert_eq!(find_unsafe(&shown, true), None);
            prop_assert_eq!(printable(&shown).into_owned(), shown);
        }

        #[test]
        fn safe_text_is_unchanged(text in hostile_text()) {
            prop_assert_eq!(find_unsafe(&text, true).is_none(), printable(&text) == text);
        }

        #[test]
        fn lines_and_lengths_are_bounded(text in hostile_text(), characters in 0..40_usize, lines in 1..5_usize) {
            let line = one_line(&text, characters);
            prop_assert!(line.chars().count() <= characters + 1 && !line.contains(['\n', '\t']), "{line:?}");
            let shown = bounded(&text, lines, characters);
            prop_assert!(shown.lines().count() <= lines + 1 && !shown.contains(is_dangerous), "{shown:?}");
        }

        #[test]
        fn exposed_text_is_safe_and_visible(text in hostile_text()) {
            let shown = exposed(&text);
            prop_assert!(!shown.contains(|c| is_dangerous(c) || is_hidden(c)), "{shown:?}");
        }
    }
}
