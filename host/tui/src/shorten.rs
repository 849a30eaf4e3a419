//! Lines that are shortened to the columns that they have, with `…` in place of the missing part.

use crate::rows::{cluster_width, width};
use unicode_segmentation::UnicodeSegmentation as _;

/// Shortens a neutralized line at its end.
pub(crate) fn without_end(line: &str, columns: usize) -> String {
    match columns.checked_sub(1) {
        _ if width(line) <= columns => line.to_owned(),
        None => String::new(),
        Some(room) => fitting(line.graphemes(true), room).collect::<String>() + "…",
    }
}

/// Shortens a neutralized line in its middle. Its last `end` columns stay, where there is room for them.
pub(crate) fn without_middle(line: &str, columns: usize, end: usize) -> String {
    let Some(room) = columns.checked_sub(1).filter(|_| width(line) > columns) else {
        return without_end(line, columns);
    };
    let behind = (room / 2).max(end).min(room);
    let before: String = fitting(line.graphemes(true), room - behind).collect();
    let mut last: Vec<&str> = fitting(line.graphemes(true).rev(), behind).collect();
    last.reverse();
    format!("{before}…{}", last.concat())
}

/// Returns the first clusters that fit into some columns.
fn fitting<'a>(clusters: impl Iterator<Item = &'a str>, columns: usize) -> impl Iterator<Item = &'a str> {
    let mut used = 0;
    clusters.take_while(move |cluster| {
        used += cluster_width(cluster);
        used <= columns
    })
}

/// Formats a number of tokens in a few characters.
pub(crate) fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{:.1} k", n as f64 / 1e3),
        10_000..1_000_000 => format!("{} k", n / 1_000),
        _ => format!("{:.1} M", n as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn middle_gives_way_and_the_wanted_end_stays() {
        for (columns, end, expected) in [
            (20, 4, "a/long/path/file.rs"),
            (12, 0, "a/long…le.rs"),
            (12, 8, "a/l…/file.rs"),
            (5, 8, "…e.rs"),
            (0, 3, ""),
        ] {
            assert_eq!(without_middle("a/long/path/file.rs", columns, end), expected);
        }
        assert_eq!(without_middle("目录/文件/名字.rs", 12, 8), "目…/名字.rs");
    }

    proptest! {
        #[test]
        fn shortened_lines_fit(line in "\\PC{0,40}", columns in 0_usize..30, end in 0_usize..40) {
            prop_assert!(width(&without_middle(&line, columns, end)) <= columns);
            prop_assert!(width(&without_end(&line, columns)) <= columns);
        }
    }
}
