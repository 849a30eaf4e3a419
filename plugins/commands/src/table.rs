//! Markdown tables that are readable as plain text in a terminal of 80 columns.

/// Width of a table in columns, which the host indents by two.
const WIDTH: usize = 78;
/// Minimum width of a column.
const NARROWEST: usize = 6;

/// Formats a table; shortens cells that are too long, in the widest column first.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.clone().map(|cell| one_line(&cell))).collect();
    let widths = widths(&header, &rows);
    let mut lines = vec![line(&header, &widths), rule(&widths)];
    lines.extend(rows.iter().map(|row| line(row, &widths)));
    lines.join("\n")
}

fn widths<const N: usize>(header: &[String; N], rows: &[[String; N]]) -> [usize; N] {
    let longest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or_default()
    };
    let mut widths: [usize; N] = std::array::from_fn(longest);
    // Each column costs a bar and two spaces; the last one costs another bar.
    let room = WIDTH.saturating_sub(3 * N + 1);
    while widths.iter().sum::<usize>() > room
        && let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST)
    {
        *widest -= 1;
    }
    widths
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, &width)| format!("{:width$}", cut(cell, width)));
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

fn rule(widths: &[usize]) -> String {
    format!("|{}|", widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|"))
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    kept.trim_end().trim_end_matches('\\').to_owned() + "\u{2026}"
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
    fn columns_are_aligned() {
        let rows = [["a".into(), "one".into()], ["long name".into(), "two\nlines".into()]];
        let expected = "\
| name      | what      |
|-----------|-----------|
| a         | one       |
| long name | two lines |";
        assert_eq!(table(["name", "what"], &rows), expected);
    }

    #[test]
    fn only_long_cells_are_shortened() {
        let table = table(["a", "b"], &[["short".into(), "word ".repeat(40)]]);
        let last = table.lines().last().unwrap();
        assert!(last.starts_with("| short | word word") && last.contains('\u{2026}'), "{last}");
        assert_eq!(last.chars().count(), WIDTH);
    }

    #[test]
    fn bar_in_a_cell_is_escaped() {
        assert!(table(["a"], &[["x|y".into()]]).ends_with("| x\\|y |"));
    }

    proptest! {
        #[test]
        fn every_row_fits_and_has_all_columns(cells in proptest::collection::vec("[a-z |\n\\PC]{0,60}", 9)) {
            let rows: Vec<[String; 3]> =
                cells.chunks(3).map(|row| [row[0].clone(), row[1].clone(), row[2].clone()]).collect();
            let table = table(["one", "two", "three"], &rows);
            prop_assert_eq!(table.lines().count(), 5);
            for line in table.lines() {
                prop_assert!(line.chars().count() <= WIDTH);
                prop_assert_eq!(line.replace("\\|", "").matches('|').count(), 4);
            }
        }
    }
}
