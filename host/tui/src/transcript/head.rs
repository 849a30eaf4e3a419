//! The arguments of a call in one line.

use crate::rows::{StyledPiece, width};
use crate::shorten::without_middle;
use pinion_protocol::arguments::summary;
use pinion_protocol::text::one_line;
use ratatui_core::style::Style;
use serde_json::Value;

/// Names of arguments that are paths.
const PATHS: [&str; 2] = ["path", "file"];
/// Characters of a path that are read.
const MAX_PATH: usize = 4_096;
/// Bytes of a line that is kept.
const MAX_KEPT: usize = 1_000;

/// The arguments of a call in one line. A path at its beginning lacks its middle where the line is too long, because the name
/// of the file says most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallHead {
    text: String,
    /// Bytes of the path.
    path: usize,
}

impl CallHead {
    pub(super) fn new(arguments: &Value) -> Self {
        let text = summary(arguments);
        let named = PATHS.iter().find_map(|name| arguments.get(name)?.as_str());
        let path = named.filter(|path| text.starts_with(path)).or_else(|| first_path(&text)).map_or(0, str::len);
        Self { text, path }
    }

    /// Returns the beginning of a long line, for items that are kept in large numbers.
    pub(super) fn bounded(mut self) -> Self {
        let kept = self.text.floor_char_boundary(self.path.clamp(MAX_KEPT, MAX_PATH));
        if kept < self.text.len() {
            self.text.truncate(kept);
            self.text.push('…');
            self.text.shrink_to_fit();
        }
        self.path = self.path.min(kept);
        self
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line in at most `columns`. The path is shortened for the text after it, if half of the columns
    /// suffice for that text.
    pub(super) fn line(&self, columns: usize, style: Style) -> StyledPiece {
        let (path, rest) = self.text.split_at(self.path);
        let behind = match width(StyledPiece::line(rest, columns, style).text()) {
            0 => 0,
            rest if rest < columns / 2 => rest + 1,
            // A mark says that there is more.
            _ => 2,
        };
        let path = one_line(path, MAX_PATH);
        let name = path.trim_end_matches('/').rfind('/').map_or(path.as_str(), |at| &path[at..]);
        let path = without_middle(&path, columns.saturating_sub(behind), width(name));
        StyledPiece::line(&format!("{path}{rest}"), columns, style)
    }
}

/// Returns the first word if it is a path.
fn first_path(text: &str) -> Option<&str> {
    let word = text.split(char::is_whitespace).next();
    word.filter(|word| word.contains('/') && !word.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn path_gives_way_to_what_follows_and_keeps_its_name() {
        let shown = |arguments: &Value, columns| CallHead::new(arguments).line(columns, Style::new()).text().to_owned();
        let path = "/home/me/work/packages/app/src/Button.tsx";
        for (arguments, columns, expected) in [
            (json!({ "path": path }), 60, path),
            (json!({ "path": path }), 30, "/home/me/work/p…src/Button.tsx"),
            (json!({ "path": path, "limit": 5 }), 30, "/home/m…/Button.tsx · limit: 5"),
            (
                json!({ "path": path, "content": "long ".repeat(9) }),
                60,
                "/home/me/work/packages/app/src/Button.tsx long long long lo…",
            ),
            (json!({ "path": path, "content": "long ".repeat(9) }), 30, "/home/me/work/…rc/Button.tsx …"),
            (json!({ "path": "a b/".repeat(9) + "c d.rs" }), 20, "a b/a b/a … b/c d.rs"),
            (json!({ "command": format!("{path} --all") }), 30, "/home/me/wor…/Button.tsx --all"),
            (json!({ "command": "cd /home/me/work/packages/app && make" }), 20, "cd /home/me/work/pa…"),
            (json!({ "url": "https://example.org/a/long/way/page.html" }), 20, "https://example.org…"),
        ] {
            assert_eq!(shown(&arguments, columns), expected, "{arguments}");
        }
    }

    #[test]
    fn kept_line_is_bounded_and_keeps_its_path() {
        let head = CallHead::new(&json!({ "path": "a/b.rs", "content": "é".repeat(5_000) })).bounded();
        assert!(head.text().len() <= MAX_KEPT + "…".len() && head.text().starts_with("a/b.rs"), "{head:?}");
    }

    proptest! {
        #[test]
        fn any_line_fits(path in "[a-z/ 世\\n]{0,60}", content in "\\PC{0,20}", columns in 0_usize..60) {
            let head = CallHead::new(&json!({ "path": path, "content": content }));
            prop_assert!(width(head.line(columns, Style::new()).text()) <= columns);
        }
    }
}
