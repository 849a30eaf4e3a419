//! Names of plugins, tools and commands: the allowed characters, and names that look alike.

use std::collections::HashSet;

/// The most bytes of the name of a plugin, a tool or a command.
pub const MAX_NAME_BYTES: usize = 64;

/// Returns whether a text is 1 to 64 of `a-z A-Z 0-9 _ -`: names of plugins, tools and commands.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Folds a name in two ways, as it is read and as it is drawn. People could mistake one name for another when either form
/// is equal. Both ignore case, `-` and `_`; the second also treats `1` and `I` as `l`, `0` as `o`, `rn` as `m` and `vv`
/// as `w`.
pub fn folded(name: &str) -> [String; 2] {
    let letters = || name.chars().filter(|c| !matches!(c, '-' | '_'));
    let shape = |c: char| match c {
        '1' | 'I' => 'l',
        '0' => 'o',
        c => c.to_ascii_lowercase(),
    };
    let drawn: String = letters().map(shape).collect();
    [letters().map(|c| c.to_ascii_lowercase()).collect(), drawn.replace("rn", "m").replace("vv", "w")]
}

/// A set of names, as they are read and as they are drawn.
#[derive(Debug, Default, Clone)]
pub struct FoldedNames {
    read: HashSet<String>,
    drawn: HashSet<String>,
}

impl FoldedNames {
    /// Creates the set of one plugin name, folded as `is_alike` of the runtime compares it.
    pub fn of_plugin(name: &str) -> Self {
        let mut names = Self::default();
        names.insert(name);
        names.drawn = names.drawn.iter().map(|drawn| drawn.replace('5', "s")).collect();
        names
    }

    /// Adds a name. Returns whether all other names in the set look different.
    pub fn insert(&mut self, name: &str) -> bool {
        let is_new = !self.has(name);
        let [read, drawn] = folded(name);
        self.read.insert(read);
        self.drawn.insert(drawn);
        is_new
    }

    /// The names as they are read, and as they are drawn.
    pub fn forms(&self) -> [&HashSet<String>; 2] {
        [&self.read, &self.drawn]
    }

    /// Returns whether the sets have names that look alike.
    pub fn meets(&self, other: &Self) -> bool {
        !self.read.is_disjoint(&other.read) || !self.drawn.is_disjoint(&other.drawn)
    }

    /// Returns whether the set has a name that looks like this one.
    pub fn has(&self, name: &str) -> bool {
        if self.read.is_empty() {
            return false;
        }
        let [read, drawn] = folded(name);
        self.read.contains(&read) || self.drawn.contains(&drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookalike_names_are_found() {
        let is_alike = |one: &str, other: &str| {
            let mut names = FoldedNames::default();
            names.insert(one) && names.has(other)
        };
        for (one, other) in [
            ("shell", "SHELL"),
            ("shell", "she11"),
            ("shell", "s-h_ell"),
            ("list", "LIST"),
            ("list", "1ist"),
            ("form", "forrn"),
        ] {
            assert!(is_alike(one, other) && is_alike(other, one), "{one} {other}");
        }
        assert!(!is_alike("read", "write") && !is_alike("t10", "t11") && !is_alike("tail", "tall"));
    }
}
