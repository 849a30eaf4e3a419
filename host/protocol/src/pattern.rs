//! Regular expressions in schemas, in the form that every server compiles.
//!
//! Servers compile the patterns of a tool's schema into a grammar, and reject the whole request when one of them fails.
//! Their dialects differ: llama.cpp requires anchors at both ends and knows no `\d`, RE2 knows no look-around, the JSON
//! Schema dialect of JavaScript no `[\w-.]`. This module knows the subset that all of them share, and rewrites patterns
//! where it can.
//!
//! The file depends on nothing, because plugins compile it too.

/// Limit on the nesting of groups.
const MAX_DEPTH: usize = 12;
/// Limit on the repetitions of one part of a pattern, multiplied over nested groups.
const MAX_REPETITIONS: u64 = 500;
/// Characters that are escaped outside a class.
const SPECIAL: &str = "^$.[]()|{}*+?\\";

/// A pattern in the common subset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortablePattern {
    /// The pattern, anchored at both ends.
    pub text: String,
    /// True if it admits exactly the same texts; otherwise it admits more.
    pub is_exact: bool,
}

impl PortablePattern {
    /// Rewrites a pattern; `None` when it has no equivalent in the common subset, or is invalid.
    pub fn from_pattern(pattern: &str) -> Option<Self> {
        let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
        let trailing = inner.len() - inner.trim_end_matches('\\').len();
        if trailing % 2 == 1 {
            return None;
        }
        let mut parser = Parser { rest: inner, out: String::from("^"), is_exact: true };
        parser.sequence(0)?;
        if !parser.rest.is_empty() {
            return None;
        }
        parser.out.push('$');
        Some(Self { text: parser.out, is_exact: parser.is_exact })
    }
}

/// Parses a pattern and writes it in the common subset.
struct Parser<'a> {
    rest: &'a str,
    out: String,
    is_exact: bool,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Parses parts up to `|`, `)` or the end, and returns how often one of them is repeated at most. Fails without any.
    fn sequence(&mut self, depth: usize) -> Option<u64> {
        let mut most = 0;
        while let Some(c) = self.rest.chars().next().filter(|c| !matches!(c, '|' | ')')) {
            self.next();
            let count = self.rewrite_atom(c, depth)?;
            most = self.quantifier(count)?.max(most);
        }
        (most > 0 && most <= MAX_REPETITIONS).then_some(most)
    }

    fn rewrite_atom(&mut self, c: char, depth: usize) -> Option<u64> {
        match c {
            '(' => return self.group(depth + 1),
            '[' => self.class()?,
            '.' => self.out.push('.'),
            '\\' => self.escape()?,
            '^' | '$' | '*' | '+' | '?' | '{' | '}' | ']' => return None,
            c => self.literal(c)?,
        }
        Some(1)
    }

    /// Parses a group after its parenthesis. Whether it captures makes no difference without references to it.
    fn group(&mut self, depth: usize) -> Option<u64> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(rest) = self.rest.strip_prefix("?:") {
            self.rest = rest;
        }
        self.out.push('(');
        let mut most = self.sequence(depth)?;
        while self.eat('|') {
            self.out.push('|');
            most = self.sequence(depth)?.max(most);
        }
        if !self.eat(')') {
            return None;
        }
        self.out.push(')');
        Some(most)
    }

    /// Parses a quantifier after a part with `count` repetitions inside. In an anchored pattern, a lazy one means the same
    /// as a greedy one.
    fn quantifier(&mut self, count: u64) -> Option<u64> {
        let most = match self.rest.chars().next() {
            Some(c @ ('*' | '+' | '?')) => {
                self.next();
                self.out.push(c);
                count
            }
            Some('{') => {
                let end = self.rest.find('}')?;
                let bounds = &self.rest[1..end];
                let (low, high) = bounds.split_once(',').unwrap_or((bounds, bounds));
                let low = number(low)?;
                let high = if high.is_empty() { low } else { number(high)? };
                if low > high || high == 0 && !bounds.ends_with(',') {
                    return None;
                }
                self.out.push_str(&self.rest[..=end]);
                self.rest = &self.rest[end + 1..];
                count.checked_mul(high.max(1))?
            }
            _ => return Some(count),
        };
        self.eat('?');
        let is_repeated = self.rest.starts_with(['*', '+', '?', '{']);
        (!is_repeated).then_some(most)
    }

    fn literal(&mut self, c: char) -> Option<()> {
        if c.is_control() {
            return None;
        }
        if SPECIAL.contains(c) {
            self.out.push('\\');
        }
        self.out.push(c);
        Some(())
    }

    /// Parses an escape outside a class, after its backslash.
    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[A-Za-z0-9_]"),
            'W' => self.out.push_str("[^A-Za-z0-9_]"),
            // Unicode's other blanks cannot be listed everywhere.
            'S' => {
                self.out.push_str("[^ \\t\\n\\r]");
                self.is_exact = false;
            }
            c @ ('n' | 'r' | 't') => self.out.extend(['\\', c]),
            c => {
                let c = self.escaped(c)?;
                self.literal(c)?;
            }
        }
        Some(())
    }

    /// Returns the character that an escape stands for.
    fn escaped(&mut self, c: char) -> Option<char> {
        let digits = match c {
            'x' => 2,
            'u' => 4,
            c if c.is_ascii_punctuation() => return Some(c),
            _ => return None,
        };
        let code = self.rest.get(..digits).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.rest = &self.rest[digits..];
        u32::from_str_radix(code, 16).ok().and_then(char::from_u32)
    }

    /// Parses a class after its bracket.
    fn class(&mut self) -> Option<()> {
        let is_negated = self.eat('^');
        let mut items: Vec<(char, char)> = Vec::new();
        loop {
            let before = self.rest;
            match self.item()? {
                ClassItem::End => break,
                ClassItem::Set(set) => {
                    // `[\w-.]` is a range to some and an error to others.
                    if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                        return None;
                    }
                    items.extend(set);
                }
                ClassItem::Char('-') if before.starts_with('-') => {
                    let is_at_edge = items.is_empty() || self.rest.starts_with(']');
                    if !is_at_edge {
                        return None;
                    }
                    items.push(('-', '-'));
                }
                ClassItem::Char(low) if self.rest.starts_with('-') && !self.rest.starts_with("-]") => {
                    self.next();
                    match self.item()? {
                        ClassItem::Char(high) if low <= high => items.push((low, high)),
                        _ => return None,
                    }
                }
                ClassItem::Char(c) => items.push((c, c)),
            }
        }
        self.write_class(is_negated, &items)
    }

    fn item(&mut self) -> Option<ClassItem> {
        match self.next()? {
            ']' => Some(ClassItem::End),
            '[' => None,
            '\\' => match self.next()? {
                'd' => Some(ClassItem::Set(&[('0', '9')])),
                'w' => Some(ClassItem::Set(&[('A', 'Z'), ('a', 'z'), ('0', '9'), ('_', '_')])),
                'n' => Some(ClassItem::Char('\n')),
                'r' => Some(ClassItem::Char('\r')),
                't' => Some(ClassItem::Char('\t')),
                c => self.escaped(c).filter(|c| !c.is_control()).map(ClassItem::Char),
            },
            c if c.is_control() => None,
            // Set operations of newer dialects.
            c @ ('&' | '~') if self.rest.starts_with(c) => None,
            c => Some(ClassItem::Char(c)),
        }
    }

    /// Writes a class in the only order that needs no escapes: `^` not first, `-` last.
    fn write_class(&mut self, is_negated: bool, items: &[(char, char)]) -> Option<()> {
        let is_single = |c: char| move |item: &(char, char)| *item == (c, c);
        let has_hyphen = items.iter().any(is_single('-'));
        let has_caret = items.iter().any(is_single('^'));
        let others: Vec<(char, char)> =
            items.iter().copied().filter(|item| !is_single('-')(item) && !is_single('^')(item)).collect();
        if items.is_empty() || others.iter().any(|(low, high)| [low, high].iter().any(|c| matches!(c, '-' | '^'))) {
            return None;
        }
        if others.is_empty() && has_caret && !is_negated {
            return if has_hyphen { None } else { self.literal('^') };
        }
        self.out.push('[');
        if is_negated {
            self.out.push('^');
        }
        for (low, high) in others {
            self.class_letter(low);
            if low != high {
                self.out.push('-');
                self.class_letter(high);
            }
        }
        if has_caret {
            self.out.push('^');
        }
        if has_hyphen {
            self.out.push('-');
        }
        self.out.push(']');
        Some(())
    }

    fn class_letter(&mut self, c: char) {
        match c {
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            '\\' | '[' | ']' => self.out.extend(['\\', c]),
            c => self.out.push(c),
        }
    }
}

/// One item of a class.
enum ClassItem {
    End,
    Char(char),
    Set(&'static [(char, char)]),
}

fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::PortablePattern;

    fn portable(pattern: &str) -> Option<String> {
        PortablePattern::from_pattern(pattern).map(|pattern| pattern.text)
    }

    #[test]
    fn patterns_of_the_common_subset_stay_as_they_are() {
        for pattern in [
            "^[a-z]+$",
            "^[A-Z]{2}-[0-9]{1,4}$",
            "^(a|b)?c*$",
            "^a\\.b\\$$",
            "^[^/]+/.*$",
            "^[a-z_.-]+$",
            "^[\\[\\]]$",
            "^ä{3,}$",
        ] {
            assert_eq!(portable(pattern).as_deref(), Some(pattern));
        }
    }

    #[test]
    fn equivalent_forms_are_rewritten() {
        let cases = [
            ("^\\d{4}-\\d{2}$", "^[0-9]{4}-[0-9]{2}$"),
            ("^[\\w.-]+$", "^[A-Za-z0-9_.-]+$"),
            ("^[-a]$", "^[a-]$"),
            ("^https:\\/\\/x$", "^https://x$"),
            ("^(?:a|b)+?$", "^(a|b)+$"),
            ("^\\W\\D$", "^[^A-Za-z0-9_][^0-9]$"),
            ("^\\x41[\\u4e00-\\u9fff]$", "^A[一-鿿]$"),
            ("^[\\^]$", "^\\^$"),
            ("^[.\\-\\/]$", "^[./-]$"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(portable(pattern).as_deref(), Some(expected), "{pattern}");
        }
        let weaker = PortablePattern::from_pattern("^\\S+$").map(|pattern| (pattern.text, pattern.is_exact));
        assert_eq!(weaker, Some(("^[^ \\t\\n\\r]+$".to_owned(), false)));
    }

    #[test]
    fn patterns_that_some_server_rejects_are_dropped() {
        for pattern in [
            "abc",
            "^abc",
            "^a|b$",
            "^(?=a)b$",
            "^(?!a)b$",
            "^(?<=a)b$",
            "^(?<n>a)$",
            "^(?i)a$",
            "^(a)\\1$",
            "^\\p{L}$",
            "^[\\p{L}]$",
            "^[\\w-.]+$",
            "^[a[b]$",
            "^[a-$",
            "^[z-a]$",
            "^[]$",
            "^[^]$",
            "^(a$",
            "^a)$",
            "^()$",
            "^(a|)$",
            "^*$",
            "^a**$",
            "^a*+$",
            "^{a}$",
            "^a{2,1}$",
            "^a{1,100000}$",
            "^(a{100}){100}$",
            "^a{x}$",
            "^a}$",
            "^a]$",
            "^\\0$",
            "^\\s$",
            "^[\\s]$",
            "^\\bq$",
            "^\\cA$",
            "^\\u{61}$",
            "^\\ud83d$",
            "^a\\$",
            "^a^b$",
            "^a$b$",
            "^$",
            "^[a&&b]$",
            "^[a-z-9]$",
            "^[a-\\d]$",
            "^\\q$",
        ] {
            assert_eq!(portable(pattern), None, "{pattern}");
        }
        assert_eq!(portable(&format!("^{}a{}$", "(".repeat(20), ")".repeat(20))), None);
    }
}
