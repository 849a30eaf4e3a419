//! Plots as inline SVG.

use super::escape_markup;
use std::fmt::Write as _;

/// Pixels: height of a row, start and width of the scale, and width of the plot.
const ROW: usize = 24;
const LEFT: f64 = 260.0;
const SCALE: f64 = 380.0;
const WIDTH: f64 = 760.0;
/// Maximum characters of a label.
const LABEL: usize = 36;

/// A share with its interval of confidence.
pub(super) struct ShareRow {
    pub(super) label: String,
    pub(super) share: f64,
    pub(super) interval: (f64, f64),
    pub(super) note: String,
}

/// An amount of any unit.
pub(super) struct AmountRow {
    pub(super) label: String,
    pub(super) amount: f64,
    pub(super) note: String,
}

/// Draws shares from 0 to 1 as dots, with their intervals as lines.
pub(super) fn share_plot(title: &str, rows: &[ShareRow]) -> String {
    let mut body = String::new();
    for quarter in 0..=4_u32 {
        let x = position(f64::from(quarter) / 4.0);
        // Writing to a string does not fail.
        let _ = write!(body, r#"<line class="grid" x1="{x:.1}" y1="0" x2="{x:.1}" y2="{}"/>"#, rows.len() * ROW);
    }
    for (number, row) in rows.iter().enumerate() {
        let y = number * ROW + ROW / 2;
        let (low, high, dot) = (position(row.interval.0), position(row.interval.1), position(row.share));
        let _ = write!(
            body,
            r#"{}<line class="interval" x1="{low:.1}" y1="{y}" x2="{high:.1}" y2="{y}"/><circle cx="{dot:.1}" cy="{y}" r="5"/>"#,
            labels(&row.label, &row.note, y)
        );
    }
    plot(title, rows.len(), &body)
}

/// Draws amounts as bars; the largest fills the scale.
pub(super) fn amount_plot(title: &str, rows: &[AmountRow]) -> String {
    let most = rows.iter().map(|row| row.amount).fold(0.0, f64::max);
    let mut body = String::new();
    for (number, row) in rows.iter().enumerate() {
        let y = number * ROW;
        let width = if most > 0.0 { SCALE * row.amount / most } else { 0.0 };
        let (labels, top, height) = (labels(&row.label, &row.note, y + ROW / 2), y + 4, ROW - 8);
        let _ = write!(body, r#"{labels}<rect x="{LEFT}" y="{top}" width="{width:.1}" height="{height}"/>"#);
    }
    plot(title, rows.len(), &body)
}

fn position(share: f64) -> f64 {
    LEFT + SCALE * share.clamp(0.0, 1.0)
}

fn labels(label: &str, note: &str, y: usize) -> String {
    let (y, x, end) = (y + 4, LEFT - 10.0, LEFT + SCALE + 10.0);
    let shown: String = match label.chars().count() > LABEL {
        true => label.chars().take(LABEL - 1).chain(['…']).collect(),
        false => label.to_owned(),
    };
    let (shown, whole, note) = (escape_markup(&shown), escape_markup(label), escape_markup(note));
    format!(
        r#"<text x="{x}" y="{y}" text-anchor="end"><title>{whole}</title>{shown}</text><text x="{end}" y="{y}">{note}</text>"#
    )
}

fn plot(title: &str, rows: usize, body: &str) -> String {
    let (title, height) = (escape_markup(title), rows * ROW);
    format!(
        "<figure><figcaption>{title}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">{body}</svg></figure>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_where_the_numbers_say() {
        let row = |share, interval| ShareRow { label: "a<b".to_owned(), share, interval, note: "1/2".to_owned() };
        let plot = share_plot("t", &[row(0.5, (0.25, 0.75)), row(1.0, (0.5, 1.0))]);
        // 260 + 380 × 0.5 = 450; 260 + 380 × 0.25 = 355; 260 + 380 × 0.75 = 545.
        assert!(plot.contains(r#"<line class="interval" x1="355.0" y1="12" x2="545.0" y2="12"/>"#), "{plot}");
        assert!(plot.contains(r#"<circle cx="450.0" cy="12" r="5"/>"#), "{plot}");
        assert!(plot.contains(r#"<circle cx="640.0" cy="36" r="5"/>"#), "{plot}");
        assert!(plot.contains("a&lt;b") && !plot.contains("a<b"), "{plot}");
        let row = |amount| AmountRow { label: "a".repeat(50), amount, note: String::new() };
        let plot = amount_plot("t", &[row(5.0), row(20.0)]);
        assert!(plot.contains(r#"y="4" width="95.0" height="16""#), "{plot}");
        assert!(plot.contains(r#"y="28" width="380.0" height="16""#), "{plot}");
        assert!(plot.contains(&format!("{}…</text>", "a".repeat(35))), "{plot}");
        assert!(amount_plot("t", &[row(0.0)]).contains(r#"width="0.0""#));
    }
}
