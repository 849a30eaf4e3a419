//! Names of tools and commands, `SERVER__NAME`.
//!
//! The host refuses a list in which two names look alike, and so do these: the second of two gets a suffix. It depends on the
//! names alone, so that a name stays the same from one list to the next.

use std::collections::HashSet;

/// Bytes of a name; models accept no more.
const MAX_NAME: usize = 64;
/// Bytes of the part for the server.
const MAX_SERVER: usize = 24;
/// Hexadecimal digits of a suffix.
const DIGITS: usize = 8;

/// A set of names of which no two look alike.
#[derive(Default)]
pub struct Names {
    read: HashSet<String>,
    drawn: HashSet<String>,
}

impl Names {
    /// Reserves a name. Returns false if it looks like one in the set.
    pub fn reserve(&mut self, name: &str) -> bool {
        let [read, drawn] = folded(name);
        if self.read.contains(&read) || self.drawn.contains(&drawn) {
            return false;
        }
        self.read.insert(read);
        self.drawn.insert(drawn);
        true
    }

    /// Returns a new name for something of a server.
    pub fn add(&mut self, server: &str, name: &str) -> String {
        let full = format!("{}__{}", server_part(server), letters(name));
        let is_whole = full.len() <= MAX_NAME && !letters(name).is_empty();
        if is_whole && self.reserve(&full) {
            return full;
        }
        let begin = full[..full.len().min(MAX_NAME - DIGITS - 1)].trim_end_matches('_').to_owned();
        let mut round: u64 = 0;
        loop {
            let suffix = format!("{:016x}", hash(&[server, name, &round.to_string()]));
            let candidate = format!("{begin}_{}", &suffix[..DIGITS]);
            if self.reserve(&candidate) {
                return candidate;
            }
            round += 1;
        }
    }
}

/// The part of a name that stands for the server: begins with a letter, and has no `__`.
fn server_part(server: &str) -> String {
    let letters = letters(server);
    let mut part = String::with_capacity(letters.len() + 2);
    for c in letters.trim_matches(['_', '-']).chars() {
        if c != '_' || !part.ends_with('_') {
            part.push(c);
        }
    }
    if !part.starts_with(|c: char| c.is_ascii_alphabetic()) {
        part.insert_str(0, "s_");
    }
    part.truncate(MAX_SERVER);
    part.trim_end_matches('_').to_owned()
}

fn letters(name: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().take(4 * MAX_NAME).map(|c| if is_letter(c) { c } else { '_' }).collect()
}

/// Folds a name as it is read and as it is drawn, in the same way as the host.
fn folded(name: &str) -> [String; 2] {
    let letters = || name.chars().filter(|c| !matches!(c, '-' | '_'));
    let shape = |c: char| match c {
        '1' | 'I' => 'l',
        '0' => 'o',
        c => c.to_ascii_lowercase(),
    };
    let drawn: String = letters().map(shape).collect();
    [letters().map(|c| c.to_ascii_lowercase()).collect(), drawn.replace("rn", "m").replace("vv", "w")]
}

/// FNV-1a. Suffixes only tell names apart; approvals do not depend on them.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(pairs: &[(&str, &str)]) -> Vec<String> {
        let mut names = Names::default();
        pairs.iter().map(|(server, name)| names.add(server, name)).collect()
    }

    #[test]
    fn usual_names_stay_as_they_are() {
        assert_eq!(named(&[("github", "create_issue"), ("my-db", "query")]), ["github__create_issue", "my-db__query"]);
    }

    #[test]
    fn strange_names_become_letters() {
        let names = named(&[("my server", "a.b/c"), ("__x__y__", "z"), ("9", "n"), ("\u{1b}[2J", "\u{202e}évil")]);
        assert_eq!(names, ["my_server__a_b_c", "x_y__z", "s_9__n", "s_2J____vil"]);
    }

    #[test]
    fn collisions_get_a_suffix_of_the_later_one() {
        let names = named(&[("a", "b_c"), ("a", "b.c"), ("a", "B-C"), ("a_b", "c"), ("a", "")]);
        assert_eq!(names[0], "a__b_c");
        assert!(names[1].starts_with("a__b_c_") && names[1].len() == 15, "{names:?}");
        assert_eq!(names[1..], named(&[("a", "b_c"), ("a", "b.c"), ("a", "B-C"), ("a_b", "c"), ("a", "")])[1..]);
        let mut other = Names::default();
        other.reserve("mcp_search");
        assert_ne!(other.add("mcp", "search"), "mcp__search");
    }

    proptest! {
        #[test]
        fn any_names_are_valid_and_distinct(pairs in prop::collection::vec((".{0,40}", ".{0,90}"), 1..40)) {
            let mut names = Names::default();
            let made: Vec<String> = pairs.iter().map(|(server, name)| names.add(server, name)).collect();
            let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            for name in &made {
                prop_assert!(!name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_letter), "{name}");
                prop_assert!(name.starts_with(|c: char| c.is_ascii_alphabetic()), "{name}");
            }
            let distinct: HashSet<[String; 2]> = made.iter().map(|name| folded(name)).collect();
            prop_assert_eq!(distinct.len(), made.len());
        }
    }
}
