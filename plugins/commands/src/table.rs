//! Markdown tables, which the host lays out.

/// Formats a table.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let line = |cells: [String; N]| format!("| {} |", cells.join(" | "));
    let rule = format!("|{}", "---|".repeat(N));
    let mut lines = vec![line(header.map(str::to_owned)), rule];
    lines.extend(rows.iter().map(|row| line(row.clone().map(|cell| one_line(&cell)))));
    lines.join("\n")
}

/// Escapes bars, which would end the cell, and joins lines, which would end the row.
fn one_line(cell: &str) -> String {
    let words: Vec<&str> =
        cell.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cells_are_lines_without_bars() {
        let rows = [["a".into(), "x|y".into()], ["long name".into(), "two\nlines".into()]];
        assert_eq!(
            table(["name", "what"], &rows),
            "| name | what |\n|---|---|\n| a | x\\|y |\n| long name | two lines |"
        );
    }

    proptest! {
        #[test]
        fn every_row_has_all_columns(cells in proptest::collection::vec("[a-z |\n\\PC]{0,60}", 9)) {
            let rows: Vec<[String; 3]> =
                cells.chunks(3).map(|row| [row[0].clone(), row[1].clone(), row[2].clone()]).collect();
            let table = table(["one", "two", "three"], &rows);
            prop_assert_eq!(table.lines().count(), 5);
            for line in table.lines() {
                prop_assert_eq!(line.replace("\\|", "").matches('|').count(), 4);
            }
        }
    }
}
