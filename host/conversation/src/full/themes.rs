//! Themes of the UI, and files `themes/NAME.toml` next to the config.
//!
//! A file sets the styles of roles, `heading = "bold #88aaff"`. Styles that it leaves out come from the theme that
//! `base` names.

use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::read_settings;
use pinion_app::names::nearest;
use pinion_app::workspace_base::Base;
use pinion_console::output::terminal::Style;
use pinion_tui::{ASK_FOR_BACKGROUND, Background, Depth, PickChoice, Theme};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// The theme that a file changes by default.
const BASE: &str = "terminal";
/// The theme that follows the background of the terminal.
const AUTOMATIC: &str = "auto";

/// Time within which terminals answer, also over SSH.
const ANSWERED: Duration = Duration::from_millis(200);

/// The choice of a theme.
pub(super) struct ThemeChoice {
    is_automatic: bool,
    /// The theme that the user has chosen in this conversation.
    chosen: Option<String>,
    background: Option<Background>,
    /// Time of a question to the terminal that it has not answered. There is one at a time.
    asked: Option<Instant>,
}

impl ThemeChoice {
    /// Returns the choice of the config.
    pub(super) fn configured(base: &Base) -> Self {
        let is_automatic = Style::of_stdout() == Style::Colour && name(base) == AUTOMATIC;
        Self { is_automatic, chosen: None, background: background(), asked: None }
    }

    /// Returns the question for the background, if the theme follows it, to be written to the terminal. The Linux console does
    /// not know it, and few colours make no palette.
    pub(super) fn question(&mut self) -> &'static str {
        let has_answer = depth() > Depth::Sixteen && std::env::var("TERM").is_ok_and(|term| term != "linux");
        if !self.is_automatic || !has_answer || self.asked.is_some() {
            return "";
        }
        self.asked = Some(Instant::now());
        ASK_FOR_BACKGROUND
    }

    /// Returns the time until which an answer is likely to arrive, if one is missing.
    pub(super) fn answer_until(&self) -> Option<Instant> {
        self.asked.map(|asked| asked + ANSWERED).filter(|until| *until > Instant::now())
    }

    /// Loads the theme that the user has chosen.
    ///
    /// # Errors
    /// There is no such theme, or its file is invalid.
    pub(super) fn choose(&mut self, base: &Base, name: &str) -> Result<Theme> {
        let theme = named(base, name, self.background)?;
        self.is_automatic = name == AUTOMATIC;
        self.chosen = Some(name.to_owned());
        Ok(theme)
    }

    /// Returns the theme that the user has chosen in this conversation.
    pub(super) fn chosen(&self) -> Option<&str> {
        self.chosen.as_deref()
    }

    /// Notes the background of the terminal. Returns the theme for it, if that is another one.
    pub(super) fn learn(&mut self, background: Background) -> Option<Theme> {
        self.asked = None;
        let is_new = self.background.replace(background) != Some(background);
        (is_new && self.is_automatic).then(|| automatic(Some(background)))
    }
}

/// Returns the theme that the config names. On a terminal without colours, returns a theme without colours.
///
/// # Errors
/// There is no such theme, or its file is invalid.
pub(crate) fn configured(base: &Base) -> Result<Theme> {
    match Style::of_stdout() {
        Style::Plain => Ok(Theme::plain()),
        Style::Colour => named(base, name(base), background()),
    }
}

fn name(base: &Base) -> &str {
    base.config.tui.theme.as_deref().unwrap_or(AUTOMATIC)
}

/// Says how long a theme that the user has chosen lasts, and how it would stay.
pub(super) fn chosen(base: &Base, chosen: &str) -> String {
    match chosen == name(base) {
        true => format!("theme `{chosen}`, as in every conversation"),
        false => format!("theme `{chosen}` in this conversation; `/keep theme` keeps it for all"),
    }
}

/// Returns the background that the environment names, until the terminal answers.
fn background() -> Option<Background> {
    Background::of_variable(&std::env::var("COLORFGBG").ok()?)
}

fn automatic(background: Option<Background>) -> Theme {
    Theme::automatic(background.filter(|_| depth() > Depth::Sixteen)).reduced(depth())
}

/// Loads a theme, in the colours that the terminal can show.
fn named(base: &Base, name: &str, background: Option<Background>) -> Result<Theme> {
    if name == AUTOMATIC {
        return Ok(automatic(background));
    }
    let theme = match Theme::named(name) {
        Some(theme) => theme,
        None => file(base, name)?,
    };
    Ok(theme.reduced(depth()))
}

fn directory(base: &Base) -> PathBuf {
    base.paths.config.join("themes")
}

fn file(base: &Base, name: &str) -> Result<Theme> {
    let unknown = || {
        let failure = Failure::usage(format!("no theme `{name}`"));
        let names: Vec<String> = list(base).into_iter().map(|choice| choice.value).collect();
        match nearest(name, names.iter().map(String::as_str)) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint(format!("the themes are {}", names.join(", "))),
        }
    };
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
        return Err(unknown());
    }
    let path = directory(base).join(format!("{name}.toml"));
    let failed = |problem: String| Failure::usage(format!("invalid theme `{}`: {problem}", path.display()));
    let text = read_settings(&path).map_err(|error| failed(error.to_string()))?.ok_or_else(unknown)?;
    let roles: toml::Table = toml::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let value = |role: &str| roles.get(role).map(|value| value.as_str().unwrap_or_default());
    let base_name = value("base").unwrap_or(BASE);
    let mut theme = Theme::named(base_name).ok_or_else(|| failed(format!("no theme `{base_name}` as `base`")))?;
    for role in roles.keys().filter(|role| *role != "base") {
        theme.set(role, value(role).unwrap_or_default()).map_err(|problem| {
            let failure = failed(problem);
            match nearest(role, Theme::ROLES.iter().copied()) {
                Some(meant) if meant != role => failure.hint(format!("did you mean `{meant}`?")),
                _ => failure,
            }
        })?;
    }
    Ok(theme)
}

/// Lists all themes.
pub(crate) fn list(base: &Base) -> Vec<PickChoice> {
    let about = ["the terminal's own colours", "for a dark background", "for a light background", "no colours"];
    let automatic = std::iter::once((AUTOMATIC.to_owned(), "dark or light, as the terminal".to_owned()));
    let own = Theme::NAMES.iter().zip(about).map(|(name, about)| ((*name).to_owned(), about.to_owned()));
    let files = std::fs::read_dir(directory(base)).into_iter().flatten().filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "toml").then(|| (name, path.display().to_string()))
    });
    let mut files: Vec<(String, String)> = files.collect();
    files.sort();
    automatic
        .chain(own)
        .chain(files)
        .map(|(name, detail)| PickChoice { value: name.clone(), label: name, detail })
        .collect()
}

/// Returns the colours that the terminal says it can show.
fn depth() -> Depth {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let colours = variable("COLORTERM");
    match variable("TERM") {
        _ if colours == "truecolor" || colours == "24bit" => Depth::True,
        term if term.ends_with("-direct") => Depth::True,
        term if term.contains("256color") => Depth::Indexed,
        _ => Depth::Sixteen,
    }
}
