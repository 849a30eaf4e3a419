//! Styles by role.
//!
//! By default they suit the background of the terminal. If the terminal does not report it, the sixteen colours are
//! used, which fit the terminal's own theme.

mod background;
mod colour;

#[cfg(not(unix))]
pub(crate) use self::background::Answers;
pub use self::background::{ASK_FOR_BACKGROUND, Background};
pub use self::colour::Depth;

use crate::highlight::SyntaxKind;
use ratatui_core::style::{Color, Modifier, Style};

macro_rules! roles {
    ($($(#[doc = $doc:literal])* $role:ident;)*) => {
        /// The styles of everything on the screen.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Theme {
            $($(#[doc = $doc])* pub(crate) $role: Style,)*
        }

        impl Theme {
            /// The names of the roles.
            pub const ROLES: &[&str] = &[$(stringify!($role)),*];

            /// Returns the style of a role for a change.
            fn role(&mut self, name: &str) -> Option<&mut Style> {
                match name {
                    $(stringify!($role) => Some(&mut self.$role),)*
                    _ => None,
                }
            }

            /// Reduces the colours to those that the terminal can show.
            #[must_use]
            pub fn reduced(self, depth: Depth) -> Self {
                Self { $($role: depth.reduce(self.$role)),* }
            }
        }
    };
}

roles! {
    /// Text.
    text;
    /// Text that stands out.
    strong;
    /// Text of less weight.
    dim;
    /// The user's mark.
    user;
    /// Headings.
    heading;
    /// Code that is not highlighted.
    code;
    /// Comments in code.
    comment;
    /// Strings in code.
    string;
    /// Numbers and other literals in code.
    literal;
    /// Keywords in code.
    keyword;
    /// Names of functions in code.
    function;
    /// Names of types and the like in code.
    name;
    /// Links.
    link;
    /// Marks of active work.
    accent;
    /// Marks of success.
    good;
    /// Warnings.
    warning;
    /// Failures.
    error;
    /// Added lines of a diff.
    added;
    /// Removed lines of a diff.
    removed;
    /// Parts of a line that changed.
    changed;
    /// The selected block.
    selected;
    /// Matches of a search.
    matched;
}

impl Theme {
    /// The names of the themes that need no file.
    pub const NAMES: &[&str] = &["terminal", "dark", "light", "plain"];

    /// Returns a theme that needs no file: `terminal`, `dark`, `light` or `plain`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "terminal" => Some(Self::colours()),
            "dark" => Some(Self::palette(DARK)),
            "light" => Some(Self::palette(LIGHT)),
            "plain" => Some(Self::plain()),
            _ => None,
        }
    }

    /// Returns the theme for a background; for an unknown one, that with the terminal's own colours.
    pub fn automatic(background: Option<Background>) -> Self {
        match background {
            Some(Background::Dark) => Self::palette(DARK),
            Some(Background::Light) => Self::palette(LIGHT),
            None => Self::colours(),
        }
    }

    /// Changes a role to a style such as `bold #88aaff on #202020`, `red`, `dim` or `underlined 33`.
    ///
    /// # Errors
    /// The role or a word of the style does not exist.
    pub fn set(&mut self, role: &str, text: &str) -> Result<(), String> {
        let style = colour::style(text).map_err(|word| format!("`{role}`: no colour or attribute `{word}`"))?;
        *self.role(role).ok_or_else(|| format!("no role `{role}`"))? = style;
        Ok(())
    }

    fn palette(palette: [(&str, &str); 15]) -> Self {
        let mut theme = Self::plain();
        for (role, style) in palette {
            // A test parses them.
            let _ = theme.set(role, style);
        }
        (theme.added, theme.removed) = (theme.good, theme.error);
        theme
    }

    /// Returns the theme with the terminal's own sixteen colours.
    pub fn colours() -> Self {
        let fg = |colour| Style::new().fg(colour);
        Self {
            user: fg(Color::Cyan).add_modifier(Modifier::BOLD),
            heading: fg(Color::Blue).add_modifier(Modifier::BOLD),
            code: fg(Color::Magenta),
            string: fg(Color::Green),
            literal: fg(Color::Yellow),
            keyword: fg(Color::Magenta),
            function: fg(Color::Blue),
            name: fg(Color::Cyan),
            link: fg(Color::Blue).add_modifier(Modifier::UNDERLINED),
            accent: fg(Color::Cyan),
            good: fg(Color::Green),
            warning: fg(Color::Yellow),
            error: fg(Color::Red),
            added: fg(Color::Green),
            removed: fg(Color::Red),
            ..Self::plain()
        }
    }

    /// Returns the style of a part of code.
    pub(crate) fn syntax_style(&self, part: SyntaxKind) -> Style {
        match part {
            SyntaxKind::Text => self.text,
            SyntaxKind::Comment => self.comment,
            SyntaxKind::String => self.string,
            SyntaxKind::Literal => self.literal,
            SyntaxKind::Keyword => self.keyword,
            SyntaxKind::Function => self.function,
            SyntaxKind::Name => self.name,
        }
    }

    /// Returns the theme without colours, for `NO_COLOR` and terminals that have no colours.
    pub fn plain() -> Self {
        let (none, bold) = (Style::new(), Style::new().add_modifier(Modifier::BOLD));
        Self {
            text: none,
            strong: bold,
            dim: none.add_modifier(Modifier::DIM),
            user: bold,
            heading: bold,
            code: none,
            comment: none.add_modifier(Modifier::DIM),
            string: none,
            literal: none,
            keyword: none,
            function: none,
            name: none,
            link: none.add_modifier(Modifier::UNDERLINED),
            accent: bold,
            good: none,
            warning: bold,
            error: bold,
            added: none,
            removed: none,
            changed: none.add_modifier(Modifier::REVERSED),
            selected: none.add_modifier(Modifier::REVERSED),
            matched: none.add_modifier(Modifier::REVERSED),
        }
    }
}

const DARK: [(&str, &str); 15] = [
    ("user", "bold #7dcfff"),
    ("heading", "bold #82aaff"),
    ("code", "#c3a6ff"),
    ("comment", "#858da3"),
    ("string", "#a5d6a7"),
    ("literal", "#ffb86c"),
    ("keyword", "#c792ea"),
    ("function", "#82aaff"),
    ("name", "#80cbc4"),
    ("link", "underlined #82aaff"),
    ("accent", "#7dcfff"),
    ("good", "#9ece6a"),
    ("warning", "#e0af68"),
    ("error", "#f7768e"),
    ("changed", "bold underlined"),
];

const LIGHT: [(&str, &str); 15] = [
    ("user", "bold #00627a"),
    ("heading", "bold #1f4fa8"),
    ("code", "#6b2fa0"),
    ("comment", "#6e7781"),
    ("string", "#116329"),
    ("literal", "#953800"),
    ("keyword", "#8250df"),
    ("function", "#0550ae"),
    ("name", "#1b7c83"),
    ("link", "underlined #0550ae"),
    ("accent", "#00627a"),
    ("good", "#1a7f37"),
    ("warning", "#9a6700"),
    ("error", "#cf222e"),
    ("changed", "bold underlined"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn palettes_are_sound() {
        for (role, style) in DARK.into_iter().chain(LIGHT) {
            assert_eq!(Theme::plain().set(role, style), Ok(()), "{role}");
        }
        assert!(Theme::NAMES.iter().all(|name| Theme::named(name).is_some()));
    }

    /// Returns the contrast of two colours, as WCAG 2 defines it.
    fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
        let linear = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.04045 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        let luminance = |[r, g, b]: [u8; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn palettes_can_be_read_on_their_backgrounds() {
        assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
        for (palette, background) in [(DARK, [0x1e; 3]), (LIGHT, [0xff; 3])] {
            for (role, text) in palette {
                let Some(Color::Rgb(r, g, b)) = colour::style(text).unwrap().fg else { continue };
                let found = contrast([r, g, b], background);
                assert!(found >= 4.5, "{role} {text}: {found:.2}");
            }
        }
    }

    #[test]
    fn unknown_roles_and_colours_are_named() {
        let mut theme = Theme::plain();
        assert_eq!(theme.set("eror", "red"), Err("no role `eror`".to_owned()));
        assert_eq!(theme.set("error", "rde"), Err("`error`: no colour or attribute `rde`".to_owned()));
    }
}
