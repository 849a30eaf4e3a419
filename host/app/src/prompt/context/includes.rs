//! Includes in context files: `@docs/rules.md`.

/// Maximum bytes of a path.
const MAX_PATH: usize = 512;

/// An include.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Include {
    /// The path, relative to the directory of the file.
    pub(super) path: String,
    /// True if the line has nothing else, so that it cannot be the name of a person or of a package.
    pub(super) is_alone: bool,
}

/// Returns the includes of a text in Markdown, outside of code.
pub(super) fn includes(text: &str) -> Vec<Include> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if fence.is_some() || mark.is_some() {
            continue;
        }
        let content = trimmed.trim_start_matches(['-', '*', '+', ' ']);
        // Every other part lies between backticks.
        for part in line.split('`').step_by(2) {
            let words = part.split_whitespace().filter_map(|word| Some((word, path_in(word)?)));
            found.extend(words.map(|(word, path)| Include { path: path.to_owned(), is_alone: word == content }));
        }
    }
    found
}

/// Returns the path in `@docs/rules.md`; `None` if the word is not an include.
fn path_in(word: &str) -> Option<&str> {
    let path = word.strip_prefix('@')?.trim_end_matches(['.', ',', ';', ':', ')', '!', '?']);
    let is_path = path.contains(['/', '.']) && !path.contains(['@', '\0']) && path.len() <= MAX_PATH;
    is_path.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_words_outside_of_code() {
        let text = "# Rules\n@docs/rules.md\n- @style.md\nSee @docs/a.md, and (@b.md) or @ada of @types/node.\n\
                    `@code.md` and me@example.com\n```\n@fenced.md\n~~~\n```\n@../last.md\n@ada\n";
        let found: Vec<(String, bool)> = includes(text).into_iter().map(|found| (found.path, found.is_alone)).collect();
        let expected = [("docs/rules.md", true), ("style.md", true), ("docs/a.md", false), ("types/node", false)];
        let expected = expected.into_iter().chain([("../last.md", true)]);
        assert_eq!(found, expected.map(|(path, is_alone)| (path.to_owned(), is_alone)).collect::<Vec<_>>());
    }
}
