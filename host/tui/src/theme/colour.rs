//! Colours: their names, and their replacements on terminals with few.

use ratatui_core::style::{Color, Modifier, Style};

/// The colours that a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The sixteen of the terminal's theme.
    Sixteen,
    /// The 256 of xterm.
    Indexed,
    /// All of 24 bits.
    True,
}

/// The sixteen colours with their names and usual values.
const NAMED: [(&str, Color, [u8; 3]); 16] = [
    ("black", Color::Black, [0, 0, 0]),
    ("red", Color::Red, [205, 0, 0]),
    ("green", Color::Green, [0, 205, 0]),
    ("yellow", Color::Yellow, [205, 205, 0]),
    ("blue", Color::Blue, [0, 0, 238]),
    ("magenta", Color::Magenta, [205, 0, 205]),
    ("cyan", Color::Cyan, [0, 205, 205]),
    ("gray", Color::Gray, [229, 229, 229]),
    ("dark-gray", Color::DarkGray, [127, 127, 127]),
    ("light-red", Color::LightRed, [255, 92, 92]),
    ("light-green", Color::LightGreen, [92, 255, 92]),
    ("light-yellow", Color::LightYellow, [255, 255, 92]),
    ("light-blue", Color::LightBlue, [92, 92, 255]),
    ("light-magenta", Color::LightMagenta, [255, 92, 255]),
    ("light-cyan", Color::LightCyan, [92, 255, 255]),
    ("white", Color::White, [255, 255, 255]),
];

/// The steps of the colour cube of xterm.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

impl Depth {
    /// Reduces the colours of a style to those that the terminal can show.
    pub(super) fn reduce(self, style: Style) -> Style {
        Style {
            fg: style.fg.map(|colour| self.nearest(colour)),
            bg: style.bg.map(|colour| self.nearest(colour)),
            ..style
        }
    }

    fn nearest(self, colour: Color) -> Color {
        match (self, colour) {
            (Self::Indexed, Color::Rgb(r, g, b)) => Color::Indexed(indexed([r, g, b])),
            (Self::Sixteen, Color::Rgb(r, g, b)) => basic([r, g, b]),
            (Self::Sixteen, Color::Indexed(number)) => basic(value(number)),
            _ => colour,
        }
    }
}

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
}

/// Returns the nearest colour of the cube or of the greys.
fn indexed(colour: [u8; 3]) -> u8 {
    (16..=255).min_by_key(|number| distance(value(*number), colour)).unwrap_or(16)
}

fn basic(colour: [u8; 3]) -> Color {
    let nearest = NAMED.iter().min_by_key(|(.., value)| distance(*value, colour));
    nearest.map_or(Color::Reset, |(_, named, _)| *named)
}

/// Returns the usual value of one of the 256 colours.
fn value(number: u8) -> [u8; 3] {
    match number {
        0..16 => NAMED[usize::from(number)].2,
        16..232 => {
            let number = usize::from(number - 16);
            [CUBE[number / 36], CUBE[number / 6 % 6], CUBE[number % 6]]
        }
        232.. => [8 + 10 * (number - 232); 3],
    }
}

/// Parses a style such as `bold #88aaff on #202020`, `red`, `dim` or `underlined 33`.
///
/// # Errors
/// Returns the word that is not understood.
pub(super) fn style(text: &str) -> Result<Style, String> {
    let mut style = Style::new();
    let mut is_background = false;
    for word in text.split_whitespace() {
        let modifier = match word {
            "on" => {
                is_background = true;
                continue;
            }
            "bold" => Modifier::BOLD,
            "dim" => Modifier::DIM,
            "italic" => Modifier::ITALIC,
            "underlined" => Modifier::UNDERLINED,
            "reversed" => Modifier::REVERSED,
            _ => {
                let colour = colour(word).ok_or_else(|| word.to_owned())?;
                style = if is_background { style.bg(colour) } else { style.fg(colour) };
                continue;
            }
        };
        style = style.add_modifier(modifier);
    }
    Ok(style)
}

fn colour(word: &str) -> Option<Color> {
    if let Some(digits) = word.strip_prefix('#').filter(|digits| digits.len() == 6) {
        let number = u32::from_str_radix(digits, 16).ok()?;
        let [_, r, g, b] = number.to_be_bytes();
        return Some(Color::Rgb(r, g, b));
    }
    let named = NAMED.iter().find(|(name, ..)| *name == word).map(|(_, colour, _)| *colour);
    named.or_else(|| word.parse().ok().map(Color::Indexed)).or_else(|| (word == "default").then_some(Color::Reset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_parsed() {
        let expected =
            Style::new().fg(Color::Rgb(0x88, 0xaa, 0xff)).bg(Color::Indexed(33)).add_modifier(Modifier::BOLD);
        assert_eq!(style("bold #88aaff on 33"), Ok(expected));
        assert_eq!(style("dim default"), Ok(Style::new().fg(Color::Reset).add_modifier(Modifier::DIM)));
        for wrong in ["blod", "#12345", "256", "#gggggg"] {
            assert_eq!(style(wrong), Err(wrong.to_owned()));
        }
    }

    #[test]
    fn colours_become_the_nearest_that_the_terminal_has() {
        let red = Color::Rgb(250, 10, 5);
        assert_eq!(Depth::True.nearest(red), red);
        assert_eq!(Depth::Indexed.nearest(red), Color::Indexed(196));
        assert_eq!(Depth::Indexed.nearest(Color::Rgb(128, 128, 128)), Color::Indexed(244));
        assert_eq!(Depth::Sixteen.nearest(Color::Rgb(200, 10, 5)), Color::Red);
        assert_eq!(Depth::Sixteen.nearest(Color::Indexed(231)), Color::White);
        assert_eq!(Depth::Sixteen.nearest(Color::Cyan), Color::Cyan);
    }
}
