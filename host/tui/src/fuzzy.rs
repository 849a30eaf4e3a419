//! Fuzzy matching: the letters of the query in order, best where they begin words and stand together.

/// Scores of a letter: for itself, behind the letter before it, at the beginning of a word, and in the last part of a
/// path.
const LETTER: i32 = 1;
const ADJACENT: i32 = 8;
const BEGINNING: i32 = 6;
const IN_NAME: i32 = 2;

/// Returns the score of a text; `None` if it does not contain the query. Ignores case unless the query has capitals.
fn score(query: &[u8], has_capitals: bool, text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    let same = |a: u8, b: u8| if has_capitals { a == b } else { a == b.to_ascii_lowercase() };
    // The end of the first match, and the latest beginning that leads there.
    let mut end = 0;
    for wanted in query {
        end += bytes[end..].iter().position(|byte| same(*wanted, *byte))? + 1;
    }
    let name = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    // A match in the name of a file is better than one in its directories.
    let from = if contains(query, &bytes[name..], same) { name } else { start(query, &bytes[..end], same) };
    let (mut total, mut at, mut last) = (0, from, None);
    for wanted in query {
        at += bytes[at..].iter().position(|byte| same(*wanted, *byte))?;
        total += LETTER;
        total += if last.is_some_and(|last| last + 1 == at) { ADJACENT } else { 0 };
        total += if is_beginning(bytes, at) { BEGINNING } else { 0 };
        total += if at >= name { IN_NAME } else { 0 };
        last = Some(at);
        at += 1;
    }
    Some(total)
}

fn contains(query: &[u8], bytes: &[u8], same: impl Fn(u8, u8) -> bool) -> bool {
    let mut left = bytes.iter();
    query.iter().all(|wanted| left.any(|byte| same(*wanted, *byte)))
}

/// Returns the latest offset where the rest of the bytes contains the query.
fn start(query: &[u8], bytes: &[u8], same: impl Fn(u8, u8) -> bool) -> usize {
    let mut at = bytes.len();
    for wanted in query.iter().rev() {
        at = bytes[..at].iter().rposition(|byte| same(*wanted, *byte)).unwrap_or(0);
    }
    at
}

fn is_beginning(bytes: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|at| bytes[at]) else { return true };
    !before.is_ascii_alphanumeric() || before.is_ascii_lowercase() && bytes[at].is_ascii_uppercase()
}

/// A match: its missing score, the length of its text, and its index. The least is the best.
pub(crate) type Match = (i32, usize, usize);

/// Returns the indices of at most `limit` texts that match, best first; with an empty query, the first ones.
pub(crate) fn filter<'a>(query: &str, texts: impl Iterator<Item = &'a str>, limit: usize) -> Vec<usize> {
    best(matches(query, texts.enumerate()), limit)
}

/// Returns the matches among texts with an index each. A longer query with the same beginning matches no others.
pub(crate) fn matches<'a>(query: &str, texts: impl Iterator<Item = (usize, &'a str)>) -> Vec<Match> {
    let query: String = query.chars().filter(|c| !c.is_whitespace()).collect();
    if query.is_empty() {
        return texts.map(|(at, _)| (0, 0, at)).collect();
    }
    let has_capitals = query.bytes().any(|byte| byte.is_ascii_uppercase());
    let score = |text| score(query.as_bytes(), has_capitals, text);
    texts.filter_map(|(at, text)| score(text).map(|score| (-score, text.len(), at))).collect()
}

/// Returns the indices of at most `limit` matches, best first.
pub(crate) fn best(mut found: Vec<Match>, limit: usize) -> Vec<usize> {
    if found.len() > limit {
        found.select_nth_unstable(limit);
        found.truncate(limit);
    }
    found.sort_unstable();
    found.into_iter().map(|(.., at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first<'a>(query: &str, texts: &[&'a str]) -> Option<&'a str> {
        filter(query, texts.iter().copied(), 10).first().map(|at| texts[*at])
    }

    #[test]
    fn beginnings_of_words_and_names_of_files_win() {
        assert_eq!(first("mod", &["compose/d.rs", "src/model.rs", "src/mod.rs"]), Some("src/mod.rs"));
        assert_eq!(first("tr", &["/text-ring", "/tree", "/attract"]), Some("/tree"));
        assert_eq!(first("HK", &["hk", "HouseKeeper"]), Some("HouseKeeper"));
        assert_eq!(first("xyz", &["abc"]), None);
    }

    proptest! {
        #[test]
        fn any_text_matches_itself(text in "\\PC{0,20}") {
            prop_assert_eq!(filter(&text, std::iter::once(text.as_str()), 5), [0]);
        }

        #[test]
        fn longer_query_matches_among_the_matches_of_its_beginning(
            query in "[abA /]{1,6}", at in 0..6_usize, texts in prop::collection::vec("[abAB/]{0,8}", 0..20),
        ) {
            let beginning: String = query.chars().take(at).collect();
            let all = || texts.iter().map(String::as_str).enumerate();
            let narrowed = matches(&beginning, all()).into_iter().map(|(.., at)| (at, texts[at].as_str()));
            let mut narrowed = matches(&query, narrowed);
            narrowed.sort_unstable_by_key(|found| found.2);
            prop_assert_eq!(narrowed, matches(&query, all()));
        }
    }
}
