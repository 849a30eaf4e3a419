//! Suggestions for a name or text that was not found, so that the next attempt succeeds.

use crate::near_miss::{NearMiss, first_difference, near_miss};
use crate::text::cut;
use std::cmp::Ordering;

/// Minimum similarity of two names.
const NAMES_ALIKE: f32 = 0.5;
/// Minimum similarity of two lines.
const LINES_ALIKE: f32 = 0.6;
/// Maximum number of lines to show.
const SHOWN: usize = 12;
/// Maximum bytes of a line to show.
const SHOWN_BYTES: usize = 300;
/// Maximum bytes of a line to compare.
const COMPARED_BYTES: usize = 200;
/// Maximum number of wanted lines to compare, and of file lines to compare by similarity.
const COMPARED_LINES: usize = 100;
const COMPARED_FILE_LINES: usize = 10_000;
/// Maximum number of file lines to look at.
const FILE_LINES: usize = 100_000;

/// Returns up to three of `names` that resemble `wanted`, the most similar first.
pub(crate) fn nearest_names<'a>(wanted: &str, names: &'a [String]) -> Vec<&'a str> {
    let mut near: Vec<(f32, &str)> = names
        .iter()
        .map(|name| (likeness(wanted, name), name.as_str()))
        .filter(|(likeness, _)| *likeness >= NAMES_ALIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Explains why `wanted` is not in `text` and shows the most similar lines, numbered.
pub(crate) fn nearest_lines(text: &str, wanted: &str) -> Option<String> {
    if let Some(hint) = decoration(text, wanted) {
        return Some(hint);
    }
    let lines: Vec<&str> = text.lines().take(FILE_LINES).collect();
    if let Some(NearMiss { start, end, is_whitespace, differences }) = near_miss(&lines, wanted) {
        let why = if is_whitespace { "same except for whitespace at" } else { "same except for look-alikes at" };
        let shown = numbered(&lines[start..end], start);
        return Some(format!("{why} {}:\n{shown}\n{}", place(start, end), differences.join("\n")));
    }
    let wanted: Vec<&str> = wanted.lines().skip_while(|line| line.trim().is_empty()).take(COMPARED_LINES).collect();
    let start = window_of_most_equal_lines(&lines, &wanted).or_else(|| likest_line(&lines, &wanted))?;
    let end = (start + wanted.len()).min(lines.len());
    let shown = numbered(&lines[start..end], start);
    let pairs = lines[start..end].iter().zip(&wanted).enumerate();
    let different = pairs.filter(|(_, (line, wanted))| line.trim() != wanted.trim());
    let difference = different
        .filter_map(|(i, (line, wanted))| first_difference(start + i + 1, line, wanted))
        .next()
        .map(|difference| format!("\n{difference}"));
    Some(format!("most similar: {}:\n{shown}{}", place(start, end), difference.unwrap_or_default()))
}

/// Explains decoration that is not part of the file, such as line numbers, if the text without it is there.
fn decoration(text: &str, wanted: &str) -> Option<String> {
    let text = text.replace("\r\n", "\n");
    let wanted = wanted.replace("\r\n", "\n");
    let line_of = |bare: &str| Some(text[..text.find(bare)?].matches('\n').count() + 1);
    let is_all_numbered =
        wanted.lines().any(is_numbered) && wanted.lines().all(|line| line.is_empty() || is_numbered(line));
    let lines = |strip: fn(&str) -> Option<&str>| -> Option<String> {
        wanted
            .split('\n')
            .map(|line| if line.is_empty() { Some(line) } else { strip(line) })
            .collect::<Option<Vec<_>>>()
            .map(|lines| lines.join("\n"))
    };
    let unescaped = || {
        let pairs = [("\\n", "\n"), ("\\t", "\t"), ("\\\"", "\""), ("\\\\", "\\")];
        pairs.iter().fold(wanted.clone(), |text, (escape, plain)| text.replace(escape, plain))
    };
    let without_entities = || {
        let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        pairs.iter().fold(wanted.clone(), |text, (entity, plain)| text.replace(entity, plain))
    };
    let candidates = [
        ("line numbers that read or search adds", lines(without_number)),
        ("the `+`, `-` or blank that begins each line of a diff", lines(without_marker)),
        ("backslash escapes in place of the characters", Some(unescaped())),
        ("HTML entities in place of the characters", Some(without_entities())),
    ];
    for (what, bare) in candidates {
        let bare = bare.filter(|bare| *bare != wanted && !bare.trim().is_empty());
        if let Some(line) = bare.as_deref().and_then(line_of) {
            return Some(format!("old_text contains {what}; without them it occurs at line {line}"));
        }
    }
    is_all_numbered.then(|| "old_text seems to contain the line numbers that read adds; remove them".to_owned())
}

/// Removes a line number: as `read` adds it, or with another mark behind it.
fn without_number(line: &str) -> Option<&str> {
    let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = rest.len() < line.trim_start().len();
    let marks = ["\t", "\u{2192}", " | ", "|", ": ", ":"];
    marks.iter().find_map(|mark| rest.strip_prefix(mark)).filter(|_| is_number)
}

fn without_marker(line: &str) -> Option<&str> {
    line.strip_prefix(['+', '-', ' '])
}

fn place(start: usize, end: usize) -> String {
    if end - start == 1 { format!("line {}", start + 1) } else { format!("lines {} to {end}", start + 1) }
}

fn numbered(lines: &[&str], start: usize) -> String {
    let mut shown: Vec<String> = lines
        .iter()
        .take(SHOWN)
        .enumerate()
        .map(|(i, line)| format!("{:>6}\t{}", start + i + 1, cut(line, SHOWN_BYTES)))
        .collect();
    if lines.len() > SHOWN {
        shown.push("   ...".to_owned());
    }
    shown.join("\n")
}

/// Returns whether the line starts as `read` numbers it: whitespace, digits, a tab.
fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.trim_start().len() && rest.starts_with('\t')
}

/// Finds the first line of the window with the most lines equal to `wanted` except for surrounding whitespace.
fn window_of_most_equal_lines(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let equal_from = |start: usize| {
        let pairs = lines[start..].iter().zip(wanted);
        pairs.filter(|(line, wanted)| !wanted.trim().is_empty() && line.trim() == wanted.trim()).count()
    };
    let (start, equal) =
        (0..lines.len()).map(|start| (start, equal_from(start))).max_by_key(|(start, n)| (*n, usize::MAX - start))?;
    // Short lines such as `}` or `end` occur everywhere and identify nothing.
    let telling =
        equal > 0 && lines[start..].iter().zip(wanted).any(|(l, w)| l.trim() == w.trim() && l.trim().len() > 3);
    telling.then_some(start)
}

/// Finds the line most similar to the longest wanted line, as the start of a window.
fn likest_line(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(i, line)| (line.trim().len(), usize::MAX - i))?;
    let longest = cut(longest.trim(), COMPARED_BYTES);
    let alike = lines.iter().take(COMPARED_FILE_LINES).map(|line| likeness(cut(line.trim(), COMPARED_BYTES), longest));
    let (index, likest) = alike.enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (likest >= LINES_ALIKE).then_some(index.saturating_sub(offset))
}

/// Returns the similarity of two texts from 0 to 1: the share of common byte pairs (Dice's coefficient).
fn likeness(a: &str, b: &str) -> f32 {
    let (mut a, mut b) = (pairs(a), pairs(b));
    let all = a.len() + b.len();
    // Skips texts whose lengths differ too much.
    if all == 0 || a.len().min(b.len()) * 3 < a.len().max(b.len()) {
        return 0.0;
    }
    a.sort_unstable();
    b.sort_unstable();
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    (2 * common) as f32 / all as f32
}

/// Returns all byte pairs, including the boundaries, so that a single byte has pairs too.
fn pairs(text: &str) -> Vec<[u8; 2]> {
    let bytes: Vec<u8> = [0].into_iter().chain(text.bytes()).chain([0]).collect();
    bytes.windows(2).map(|pair| [pair[0].to_ascii_lowercase(), pair[1].to_ascii_lowercase()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_most_similar_first() {
        let names = ["main.rs", "mail.rs", "README.md", "domain.rs"].map(str::to_owned);
        assert_eq!(nearest_names("Main.rs", &names), ["main.rs", "domain.rs", "mail.rs"]);
        assert!(nearest_names("quux", &names).is_empty());
    }

    #[test]
    fn whitespace_difference_is_reported() {
        let hint = nearest_lines("fn a() {\n    let x = 1;\n}\n", "fn a() {\n\tlet x = 1;\n}").unwrap();
        assert_eq!(
            hint,
            "same except for whitespace at lines 1 to 3:\n     1\tfn a() {\n     2\t    let x = 1;\n     3\t}\n\
             line 2 begins: the file has 4 spaces, old_text has 1 tab"
        );
    }

    #[test]
    fn window_with_most_equal_lines_is_shown() {
        let text = "fn a() {\n    one();\n}\nfn b() {\n    two();\n    three();\n}\n";
        let hint = nearest_lines(text, "fn b() {\n    two();\n    four();\n}").unwrap();
        assert!(hint.starts_with("most similar: lines 4 to 7:\n     4\tfn b() {"), "{hint}");
    }

    #[test]
    fn line_with_a_typo_is_found() {
        let hint = nearest_lines("alpha\nlet total = compute(items);\nomega\n", "let totl = compute(items);").unwrap();
        assert_eq!(
            hint,
            "most similar: line 2:\n     2\tlet total = compute(items);\nfirst difference at line 2, column 8: the file \
             has `al = compute(items);`, old_text has `l = compute(items);`"
        );
    }

    #[test]
    fn line_numbers_in_the_text_are_reported() {
        let hint = nearest_lines("alpha\nbeta\n", "     1\talpha\n     2\tbeta").unwrap();
        assert!(hint.ends_with("without them it occurs at line 1"), "{hint}");
        assert!(nearest_lines("alpha\n", "  1\tomega").unwrap().contains("line numbers"));
    }

    #[test]
    fn decoration_of_the_text_is_reported() {
        let text = "alpha\r\n  say(\"a\\n\");\n\nif a < b && c {\n";
        for (wanted, what) in [
            ("12:  say(\"a\\n\");", "line numbers"),
            ("   1\u{2192}alpha\n   2\u{2192}  say(", "line numbers"),
            ("+  say(\"a\\n\");", "diff"),
            ("alpha\\n  say", "backslash escapes"),
            ("if a &lt; b &amp;&amp; c", "HTML entities"),
        ] {
            let hint = nearest_lines(text, wanted).unwrap_or_default();
            assert!(hint.contains(what) && hint.contains("without them it occurs at line"), "{wanted}: {hint}");
        }
    }

    #[test]
    fn look_alikes_are_reported() {
        let hint = nearest_lines("x = \u{2018}a\u{2019}\n", "x = 'a'").unwrap();
        assert!(
            hint.starts_with(
                "same except for look-alikes at line 1:\n     1\tx = \u{2018}a\u{2019}\nline 1, column 5: "
            )
        );
    }

    #[test]
    fn dissimilar_text_gives_no_hint() {
        assert_eq!(nearest_lines("alpha\nbeta\n", "completely different words"), None);
        assert_eq!(nearest_lines("", "x"), None);
        assert_eq!(nearest_lines("x\n", "\n\n"), None);
    }
}
