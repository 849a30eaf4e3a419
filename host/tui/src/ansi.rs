//! Colours in the output of programs.
//!
//! Of all that programs send to a terminal, only the attributes of text (SGR) have an effect here, with the colours of the
//! theme: a background becomes a reversed foreground, and nothing can be concealed or blink. An end of line that is cleared is
//! dropped, because programs such as grep clear it with each colour. Everything else remains text, and is neutralized.

use crate::rows::StyledPiece;
use crate::theme::Theme;
use ratatui_core::style::{Modifier, Style};
use std::borrow::Cow;

/// Maximum bytes between `ESC [` and the letter.
const MAX_PARAMETERS: usize = 100;

/// Splits a text into pieces in the colours that it asks for, on top of a style.
pub(crate) fn pieces(text: &str, base: Style, theme: &Theme) -> Vec<StyledPiece> {
    let mut pen = Pen::default();
    let mut pieces = Vec::new();
    for part in parts(text) {
        match part {
            AnsiPart::Text("") => {}
            AnsiPart::Text(text) => {
                pieces.extend(StyledPiece::new(text, pen.style(base, theme)).with_links(Style::new()))
            }
            AnsiPart::Attributes(parameters) => pen.apply(parameters),
        }
    }
    pieces
}

/// Returns a text without the sequences that `pieces` obeys.
pub fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains("\x1b[") {
        return text.into();
    }
    let text = parts(text).filter_map(|part| if let AnsiPart::Text(text) = part { Some(text) } else { None });
    text.collect::<String>().into()
}

enum AnsiPart<'a> {
    Text(&'a str),
    Attributes(&'a str),
}

fn parts(text: &str) -> impl Iterator<Item = AnsiPart<'_>> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        if let Some((parameters, after)) = sequence(text) {
            rest = Some(after);
            return Some(AnsiPart::Attributes(parameters));
        }
        let next = text.match_indices("\x1b[").map(|(at, _)| at).find(|at| *at > 0 && sequence(&text[*at..]).is_some());
        rest = next.map(|at| &text[at..]);
        Some(AnsiPart::Text(&text[..next.unwrap_or(text.len())]))
    })
}

/// Splits a sequence that is obeyed from the beginning of a text. One that clears the end of the line has no parameters.
fn sequence(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix("\x1b[")?;
    let end = body.bytes().take(MAX_PARAMETERS).position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':'))?;
    match (&body[..end], body.as_bytes()[end]) {
        (parameters, b'm') => Some((parameters, &body[end + 1..])),
        ("" | "0", b'K') => Some(("none", &body[end + 1..])),
        _ => None,
    }
}

/// The eight colours of terminals, as a program numbers them.
type Colour = u8;

/// The attributes in effect.
#[derive(Default)]
struct Pen {
    foreground: Option<Colour>,
    background: Option<Colour>,
    modifier: Modifier,
}

impl Pen {
    fn apply(&mut self, parameters: &str) {
        if parameters == "none" {
            return;
        }
        // `4:3` is a kind of underline, `38:5:1` and `38;5;1` are the same colour.
        let mut numbers = parameters.split([';', ':']).map(|number| match number {
            "" => Some(0),
            number => number.parse::<u16>().ok(),
        });
        while let Some(number) = numbers.next() {
            let Some(number) = number else { continue };
            match number {
                0 => *self = Self::default(),
                1 => self.modifier |= Modifier::BOLD,
                2 => self.modifier |= Modifier::DIM,
                3 => self.modifier |= Modifier::ITALIC,
                4 => self.modifier |= Modifier::UNDERLINED,
                7 => self.modifier |= Modifier::REVERSED,
                9 => self.modifier |= Modifier::CROSSED_OUT,
                22 => self.modifier -= Modifier::BOLD | Modifier::DIM,
                23 => self.modifier -= Modifier::ITALIC,
                24 => self.modifier -= Modifier::UNDERLINED,
                27 => self.modifier -= Modifier::REVERSED,
                29 => self.modifier -= Modifier::CROSSED_OUT,
                30..38 | 90..98 => self.foreground = Some((number % 10) as Colour),
                40..48 | 100..108 => self.background = Some((number % 10) as Colour),
                39 => self.foreground = None,
                49 => self.background = None,
                38 => self.foreground = extended(&mut numbers),
                48 => self.background = extended(&mut numbers),
                58 => drop(extended(&mut numbers)),
                _ => {}
            }
        }
    }

    fn style(&self, base: Style, theme: &Theme) -> Style {
        let colour = self.background.map(|colour| (colour, Modifier::REVERSED));
        let colour = colour.or(self.foreground.map(|colour| (colour, Modifier::empty())));
        let style = match colour {
            Some((colour, modifier)) => role(colour, theme).unwrap_or(theme.text).add_modifier(modifier),
            None => base,
        };
        style.add_modifier(self.modifier)
    }
}

/// Reads the rest of a colour of 256, or of red, green and blue.
fn extended(numbers: &mut impl Iterator<Item = Option<u16>>) -> Option<Colour> {
    match numbers.next()?? {
        5 => match numbers.next()?? {
            number @ 0..16 => Some((number % 8) as Colour),
            number @ 16..232 => {
                let number = number - 16;
                Some(nearest([number / 36, number / 6 % 6, number % 6].map(|step| step * 51)))
            }
            grey => Some(nearest([grey.saturating_sub(232) * 10; 3])),
        },
        2 => {
            let mut next = || numbers.next().flatten();
            Some(nearest([next()?, next()?, next()?]))
        }
        _ => None,
    }
}

/// Returns the colour that has the brighter of red, green and blue.
fn nearest(rgb: [u16; 3]) -> Colour {
    let most = rgb.into_iter().max().unwrap_or_default();
    let has = |value: u16| u8::from(most >= 64 && value * 3 >= most * 2);
    has(rgb[0]) | has(rgb[1]) << 1 | has(rgb[2]) << 2
}

/// Returns the style of a colour; `None` for black and white, which may be the background.
fn role(colour: Colour, theme: &Theme) -> Option<Style> {
    Some(match colour {
        1 => theme.error,
        2 => theme.good,
        3 => theme.warning,
        4 => theme.function,
        5 => theme.keyword,
        6 => theme.accent,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> Vec<(String, Style)> {
        let theme = Theme::colours();
        let pieces = pieces(text, theme.dim, &theme);
        pieces.iter().map(|piece| (piece.text().to_owned(), piece.style())).collect()
    }

    #[test]
    fn colours_of_programs_are_those_of_the_theme() {
        let theme = Theme::colours();
        let red = (String::from("red"), theme.error);
        assert_eq!(shown("\x1b[31mred\x1b[0m dim"), [red.clone(), (" dim".into(), theme.dim)]);
        for sequence in ["\x1b[91m", "\x1b[38;5;196m", "\x1b[38:5:1m", "\x1b[38;2;250;20;10m", "\x1b[m\x1b[1;22;31m"] {
            assert_eq!(shown(&format!("{sequence}red")), std::slice::from_ref(&red), "{sequence}");
        }
        let reversed = theme.good.add_modifier(Modifier::REVERSED | Modifier::BOLD);
        assert_eq!(shown("\x1b[1;30;42m ok "), [(" ok ".to_owned(), reversed)]);
        // Nothing is invisible.
        let plain = theme.text.add_modifier(Modifier::REVERSED);
        assert_eq!(shown("\x1b[8;37;47mx"), [("x".to_owned(), plain)]);
        assert_eq!(shown("\x1b[30mx")[0].1, theme.text);
    }

    #[test]
    fn everything_else_stays_text() {
        assert_eq!(shown("\x1b[31\x1b[2Jm")[0].0, "␛[31␛[2Jm");
        assert_eq!(shown("\x1b]0;t\x07\x1b[>1m\x1b[1 m")[0].0, "␛]0;t␇␛[>1m␛[1 m");
        assert_eq!(shown(&format!("\x1b[{}m", "1;".repeat(60)))[0].0.chars().next(), Some('␛'));
        assert_eq!(without_colours("\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K: \x1b[2J"), "match: \x1b[2J");
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_letters(text in "(\x1b\\[[0-9;:]{0,12}[mKJ]?|[a-zé世\t]|\x1b|\n){0,40}") {
            let shown: String = shown(&text).into_iter().map(|(text, _)| text).collect();
            prop_assert!(!shown.contains('\x1b'));
            prop_assert_eq!(shown, pinion_protocol::text::printable(&without_colours(&text)).into_owned());
        }
    }
}
