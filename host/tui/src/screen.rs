//! The bytes that turn what a terminal shows into the next frame.
//!
//! Every frame is one synchronized update (DEC private mode 2026) that contains only what changed. Rows that moved are
//! scrolled by the terminal, so that a growing answer costs little more than its own bytes. Nothing here touches what
//! the terminal has scrolled away.

use crate::links::Links;
use crate::rows::cluster_width;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;

/// Rows by which a scrolled region may move in one frame.
const MAX_SCROLL: usize = 40;

/// The cells that a terminal shows.
#[derive(Debug)]
pub struct Screen {
    front: Buffer,
    cursor: Option<(u16, u16)>,
    /// True while the content of the terminal is unknown.
    is_unknown: bool,
    out: Vec<u8>,
    style: (Color, Color, Modifier),
    /// True if the terminal understands links.
    has_links: bool,
    /// The link to which written text belongs.
    link: Option<u32>,
}

/// The style after a reset.
const DEFAULT: (Color, Color, Modifier) = (Color::Reset, Color::Reset, Modifier::empty());

impl Screen {
    /// Creates a screen of unknown content.
    pub fn new(columns: u16, rows: u16) -> Self {
        Self {
            front: Buffer::empty(Rect::new(0, 0, columns, rows)),
            cursor: None,
            is_unknown: true,
            out: Vec::new(),
            style: DEFAULT,
            has_links: true,
            link: None,
        }
    }

    /// Writes no links, for a terminal that would show their sequences.
    pub fn without_links(self) -> Self {
        Self { has_links: false, ..self }
    }

    /// Makes the next frame draw everything.
    pub fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Returns the bytes that make the terminal show `next` and the cursor; none if it does already.
    pub fn draw(&mut self, next: &Buffer, links: &Links, cursor: Option<(u16, u16)>) -> &[u8] {
        self.out.clear();
        self.is_unknown |= self.front.area() != next.area();
        if !self.is_unknown && self.front == *next && self.cursor == cursor {
            return &self.out;
        }
        self.put(b"\x1b[?2026h");
        self.style = DEFAULT;
        if self.is_unknown {
            self.front = Buffer::empty(*next.area());
            self.put(b"\x1b[?25l\x1b[0m\x1b[2J");
            self.cursor = None;
        }
        self.scroll(next);
        for y in 0..next.area().height {
            self.row(next, links, y);
        }
        self.set_link(None);
        self.set_style(DEFAULT);
        self.place(cursor);
        self.put(b"\x1b[?2026l");
        self.front.clone_from(next);
        self.is_unknown = false;
        &self.out
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Moves to a cell, counted from 0.
    fn go(&mut self, x: u16, y: u16) {
        // Writing to a vector never fails.
        let _ = write!(self.out, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1);
    }

    fn place(&mut self, cursor: Option<(u16, u16)>) {
        let was_shown = self.cursor.is_some();
        match cursor {
            Some((x, y)) => {
                self.go(x, y);
                if !was_shown {
                    self.put(b"\x1b[?25h");
                }
            }
            None if was_shown => self.put(b"\x1b[?25l"),
            None => {}
        }
        self.cursor = cursor;
    }

    /// Lets the terminal move rows that the next frame shows elsewhere.
    fn scroll(&mut self, next: &Buffer) {
        let (old, new) = (hashes(&self.front), hashes(next));
        let first = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
        let last = old.len() - old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
        let Some(height) = last.checked_sub(first).filter(|height| *height > 2) else { return };
        // The end of the region may stay, such as a line that only changes its text.
        let moved = |by: usize| (first..last - by).take_while(|y| new[*y] == old[*y + by]).count();
        let Some((by, count)) = (1..height.min(MAX_SCROLL)).map(|by| (by, moved(by))).max_by_key(|(_, count)| *count)
        else {
            return;
        };
        let stayed = (first..last).filter(|y| old[*y] == new[*y]).count();
        if count < 3 || count <= stayed {
            return;
        }
        let bottom = first + count + by;
        let _ = write!(self.out, "\x1b[{};{bottom}r\x1b[{by}S\x1b[r", first + 1);
        let area = *self.front.area();
        let columns = usize::from(area.width);
        self.front.content[first * columns..bottom * columns].rotate_left(by * columns);
        self.front.content[(bottom - by) * columns..bottom * columns].iter_mut().for_each(Cell::reset);
    }

    /// Writes the changed part of a row.
    fn row(&mut self, next: &Buffer, links: &Links, y: u16) {
        let columns = usize::from(next.area().width);
        let start = usize::from(y) * columns;
        let (old, new) = (&self.front.content[start..start + columns], &next.content[start..start + columns]);
        let Some(mut first) = old.iter().zip(new).position(|(a, b)| a != b) else { return };
        let last = old.iter().zip(new).rposition(|(a, b)| a != b).unwrap_or(first);
        // Never begin in the second half of a wide cluster, in either frame.
        let is_wide = |cell: &Cell| cluster_width(cell.symbol()) > 1;
        if first > 0 && (is_wide(&old[first - 1]) || is_wide(&new[first - 1])) {
            first -= 1;
        }
        let blank = Cell::default();
        let length = columns - new.iter().rev().take_while(|cell| **cell == blank).count();
        let end = (last + 2).min(columns);
        let cells: Vec<Cell> = new[first..end.min(length).max(first)].to_vec();
        let clears = end > length && old[length.max(first)..].iter().any(|cell| *cell != blank);
        self.go(u16::try_from(first).unwrap_or(u16::MAX), y);
        self.cells(&cells, links, first);
        if clears {
            self.set_link(None);
            self.set_style(DEFAULT);
            self.put(b"\x1b[K");
        }
    }

    fn cells(&mut self, cells: &[Cell], links: &Links, first: usize) {
        let mut at = 0;
        while let Some(cell) = cells.get(at) {
            self.set_link(links.of(cell.underline_color));
            self.set_style((cell.fg, cell.bg, cell.modifier));
            self.put(cell.symbol().as_bytes());
            let wide = cluster_width(cell.symbol()).max(1);
            at += wide;
            // Terminals disagree about the width of some clusters, so the next cell is addressed.
            let is_plain = wide == 1 && cell.symbol().chars().nth(1).is_none();
            if !is_plain && at < cells.len() {
                let _ = write!(self.out, "\x1b[{}G", first + at + 1);
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
        self.put(sequence.as_bytes());
    }

    fn set_style(&mut self, style: (Color, Color, Modifier)) {
        if self.style == style {
            return;
        }
        self.style = style;
        let sgr = sgr(style);
        self.put(sgr.as_bytes());
    }
}

/// Returns the sequence that sets a style, whatever was set before.
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

/// Returns a hash of each row.
fn hashes(buffer: &Buffer) -> Vec<u64> {
    let columns = usize::from(buffer.area().width).max(1);
    let hash = |row: &[Cell]| {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        hasher.finish()
    };
    buffer.content.chunks(columns).map(hash).collect()
}
