//! The bytes of cells: text with styles and links, and only the changed part of a row.

use crate::links::Links;
use crate::rows::cluster_width;
use ratatui_core::buffer::Cell;
use ratatui_core::style::{Color, Modifier};

/// Writes the bytes of a frame, which is one synchronized update (DEC private mode 2026).
#[derive(Debug)]
pub(crate) struct Pen {
    out: Vec<u8>,
    style: (Color, Color, Modifier),
    /// True if the terminal understands links.
    pub(crate) has_links: bool,
    /// The link of the written text.
    link: Option<u32>,
}

/// The style after a reset.
const DEFAULT: (Color, Color, Modifier) = (Color::Reset, Color::Reset, Modifier::empty());

impl Default for Pen {
    fn default() -> Self {
        Self { out: Vec::new(), style: DEFAULT, has_links: true, link: None }
    }
}

impl Pen {
    /// Begins a frame.
    pub(crate) fn begin(&mut self) {
        self.out.clear();
        self.style = DEFAULT;
        self.write_bytes("\x1b[?2026h");
    }

    /// Ends the text of a frame; only the cursor moves after it.
    pub(crate) fn end_text(&mut self) {
        self.set_link(None);
        self.set_style(DEFAULT);
    }

    /// Ends a frame and returns its bytes.
    pub(crate) fn end(&mut self) -> &[u8] {
        self.write_bytes("\x1b[?2026l");
        &self.out
    }

    pub(crate) fn write_bytes(&mut self, bytes: impl AsRef<[u8]>) {
        self.out.extend_from_slice(bytes.as_ref());
    }

    /// Writes the changed part of a row, after `go` has moved to its first column.
    pub(crate) fn row(&mut self, old: &[Cell], new: &[Cell], links: &Links, go: impl FnOnce(&mut Self, usize)) {
        let Some(mut first) = old.iter().zip(new).position(|(a, b)| a != b) else { return };
        let last = old.iter().zip(new).rposition(|(a, b)| a != b).unwrap_or(first);
        // Never begin in the second half of a wide cluster, in either frame.
        let is_wide = |cell: &Cell| cluster_width(cell.symbol()) > 1;
        if first > 0 && (is_wide(&old[first - 1]) || is_wide(&new[first - 1])) {
            first -= 1;
        }
        let length = used(new);
        let end = (last + 2).min(new.len());
        let clears = end > length && used(old) > length;
        go(self, first);
        self.cells(&new[first..end.min(length).max(first)], links, first);
        if clears {
            self.clear_line();
        }
    }

    /// Clears the line from the cursor.
    pub(crate) fn clear_line(&mut self) {
        self.end_text();
        self.write_bytes("\x1b[K");
    }

    /// Writes cells that begin in the column `first`.
    pub(crate) fn cells(&mut self, cells: &[Cell], links: &Links, first: usize) {
        let mut at = 0;
        while let Some(cell) = cells.get(at) {
            self.set_link(links.find_link(cell.underline_color));
            self.set_style((cell.fg, cell.bg, cell.modifier));
            self.write_bytes(cell.symbol().as_bytes());
            let wide = cluster_width(cell.symbol()).max(1);
            at += wide;
            // Terminals disagree about the width of some clusters, so the next cell is addressed.
            let is_plain = wide == 1 && cell.symbol().chars().nth(1).is_none();
            if !is_plain && at < cells.len() {
                self.write_bytes(format!("\x1b[{}G", first + at + 1));
            }
        }
    }

    /// Begins or ends a link. The number joins the parts of one that is wrapped.
    fn set_link(&mut self, link: Option<(u32, &str)>) {
        let number = link.map(|(number, _)| number);
        if self.link == number || !self.has_links {
            return;
        }
        self.link = number;
        let sequence = match link {
            Some((number, target)) => format!("\x1b]8;id={number};{target}\x1b\\"),
            None => "\x1b]8;;\x1b\\".to_owned(),
        };
        self.write_bytes(sequence.as_bytes());
    }

    fn set_style(&mut self, style: (Color, Color, Modifier)) {
        if self.style == style {
            return;
        }
        self.style = style;
        let sgr = sgr(style);
        self.write_bytes(sgr.as_bytes());
    }
}

/// Returns the number of cells before the blanks at the end of a row.
pub(crate) fn used(row: &[Cell]) -> usize {
    let blank = Cell::default();
    row.len() - row.iter().rev().take_while(|cell| **cell == blank).count()
}

/// Returns the sequence that sets a style, regardless of the style before.
pub(crate) fn sgr((fg, bg, modifier): (Color, Color, Modifier)) -> String {
    const MODIFIERS: [(Modifier, &str); 6] = [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::ITALIC, ";3"),
        (Modifier::UNDERLINED, ";4"),
        (Modifier::REVERSED, ";7"),
        (Modifier::CROSSED_OUT, ";9"),
    ];
    let mut sgr = "\x1b[0".to_owned();
    MODIFIERS.iter().filter(|(is, _)| modifier.contains(*is)).for_each(|(_, code)| sgr.push_str(code));
    for (colour, base) in [(fg, 30_u8), (bg, 40)] {
        sgr.push_str(&colour_code(colour, base));
    }
    sgr.push('m');
    // The shortest form of the default style.
    if sgr == "\x1b[0m" { "\x1b[m".to_owned() } else { sgr }
}

fn colour_code(colour: Color, base: u8) -> String {
    let basic = |number: u8| format!(";{}", base + number);
    let bright = |number: u8| format!(";{}", base + 60 + number);
    match colour {
        Color::Reset => String::new(),
        Color::Black => basic(0),
        Color::Red => basic(1),
        Color::Green => basic(2),
        Color::Yellow => basic(3),
        Color::Blue => basic(4),
        Color::Magenta => basic(5),
        Color::Cyan => basic(6),
        Color::Gray => basic(7),
        Color::DarkGray => bright(0),
        Color::LightRed => bright(1),
        Color::LightGreen => bright(2),
        Color::LightYellow => bright(3),
        Color::LightBlue => bright(4),
        Color::LightMagenta => bright(5),
        Color::LightCyan => bright(6),
        Color::White => bright(7),
        Color::Indexed(number) => format!(";{};5;{number}", base + 8),
        Color::Rgb(r, g, b) => format!(";{};2;{r};{g};{b}", base + 8),
    }
}
