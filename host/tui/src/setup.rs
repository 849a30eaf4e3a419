//! The setup of a first conversation: a provider, its key, and a model.
//!
//! It is a separate UI, because a conversation needs a model to begin. Like [`App`](crate::App) it takes events and
//! draws into a buffer; the application stores the key and lists the models.

use crate::dialog::picker::{Pick, PickChoice, Picked, Picker, ends};
use crate::keys::KeyMap;
use crate::links::Links;
use crate::rows::{Lead, Row, StyledPiece, width, wrap};
use crate::theme::Theme;
use crate::view::draw_row;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui_core::buffer::Buffer;
use std::fmt;
use std::time::Duration;

/// Maximum bytes of a key.
const MAX_KEY: usize = 64 << 10;
/// Maximum rows of a list.
const MAX_LIST: usize = 18;

/// A key as the user entered it, which debug output does not show.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnteredKey(String);

impl EnteredKey {
    /// Returns the text of the key.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl fmt::Debug for EnteredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnteredKey(…)")
    }
}

/// Something that the setup wants to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetupRequest {
    /// Store the key of a provider. Answered by [`Setup::models`] or [`Setup::failed`].
    Store {
        /// Name of the provider.
        provider: String,
        /// Its key.
        key: EnteredKey,
    },
    /// Store the key without another test: the provider refused it, and the user insists. Answered like `Store`.
    Keep {
        /// Name of the provider.
        provider: String,
        /// Its key.
        key: EnteredKey,
    },
    /// Store the key without waiting for the test.
    SkipTest,
    /// Log in to a provider with a browser. Answered by [`Setup::opened`], and then like `Store`.
    LogIn {
        /// Name of the provider.
        provider: String,
    },
    /// The user pasted this, the redirect address of a browser elsewhere.
    Redirected(EnteredKey),
    /// Stop the login.
    StopLogin,
    /// Begin the conversation with this model; with the default one for `None`.
    Begin(Option<String>),
    /// Leave without a conversation.
    Leave,
}

#[derive(Debug)]
enum SetupStep {
    Provider(Picker),
    Key { provider: String, key: EnteredKey, state: KeyState },
    Login { provider: String, page: Option<String> },
    Model(Picker),
}

/// The key on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Entered,
    /// As the provider refused it.
    Refused,
    Testing,
    Storing,
}

/// The setup on the screen.
#[derive(Debug)]
pub struct Setup {
    theme: Theme,
    keys: KeyMap,
    providers: Vec<PickChoice>,
    /// Providers that offer a login with a browser.
    with_login: Vec<String>,
    step: SetupStep,
    /// Place where keys are stored, and the reason to ask for one.
    place: String,
    why: String,
    /// A problem with the last key, or where it was stored.
    note: Option<String>,
}

impl Setup {
    /// Begins with the choice of a provider. `place` names the place where keys are stored.
    pub fn new(theme: Theme, providers: Vec<PickChoice>, place: impl Into<String>) -> Self {
        let step = SetupStep::Provider(Picker::new(Pick::Provider, providers.clone()));
        let why = "No provider has a key yet. Choose one that you have a key for. A server of your own may need none: `pinion -m ollama/MODEL`, or `--base-url URL -m openai-chat/MODEL`."
            .to_owned();
        Self {
            theme,
            keys: KeyMap::default(),
            providers,
            with_login: Vec::new(),
            step,
            place: place.into(),
            why,
            note: None,
        }
    }

    /// Offers a login with a browser for these providers.
    #[must_use]
    pub fn with_login(self, providers: Vec<String>) -> Self {
        Self { with_login: providers, ..self }
    }

    /// Offers models that need no key before the providers.
    pub fn found_models(&mut self, models: Vec<PickChoice>) {
        if models.is_empty() {
            return;
        }
        self.providers.splice(0..0, models);
        self.why = "No provider has a key yet. Choose a model on this machine, which needs no key, or a provider that you have a key for."
            .to_owned();
        if let SetupStep::Provider(picker) = &mut self.step {
            picker.replace(self.providers.clone());
        }
    }

    /// Begins with the key of a provider, the only one that matters.
    #[must_use]
    pub fn for_provider(self, provider: &str) -> Self {
        let why = format!("The model that you chose needs a key for {provider}.");
        Self { providers: Vec::new(), why, ..self }.with_key_of(provider.to_owned())
    }

    fn with_key_of(self, provider: String) -> Self {
        Self { step: key_of(&provider), ..self }
    }

    /// Offers models, after the key was stored in `place`.
    pub fn models(&mut self, models: Vec<PickChoice>, place: &str) {
        self.note = Some(format!("The key is in {place}."));
        self.step = SetupStep::Model(Picker::new(Pick::Model, models));
    }

    /// Shows the address of the user's login page.
    pub fn opened(&mut self, page: impl Into<String>) {
        if let SetupStep::Login { page: shown, .. } = &mut self.step {
            *shown = Some(page.into());
        }
    }

    /// Shows that the key is tested by a request.
    pub fn testing(&mut self) {
        if let SetupStep::Key { state, .. } = &mut self.step {
            *state = KeyState::Testing;
        }
    }

    /// Reports that the provider refuses the key, which the user can change, or store all the same.
    pub fn refused(&mut self, problem: impl Into<String>, refused: EnteredKey) {
        self.note = Some(problem.into());
        if let SetupStep::Key { key, state, .. } = &mut self.step {
            (*key, *state) = (refused, KeyState::Refused);
        }
    }

    /// Reports that the key could not be stored, or the login failed.
    pub fn failed(&mut self, problem: impl Into<String>) {
        self.note = Some(problem.into());
        match &mut self.step {
            SetupStep::Key { state, .. } => *state = KeyState::Entered,
            SetupStep::Login { provider, .. } => self.step = key_of(provider),
            SetupStep::Provider(_) | SetupStep::Model(_) => {}
        }
    }

    /// Applies an event of the terminal and returns the action to take.
    pub fn handle(&mut self, event: &Event) -> Option<SetupRequest> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            Event::Paste(text) => match &mut self.step {
                SetupStep::Provider(picker) | SetupStep::Model(picker) => {
                    picker.paste(text, Duration::ZERO);
                    None
                }
                SetupStep::Key { key, state, .. } => {
                    edited(key, state);
                    append(key, text.trim());
                    None
                }
                SetupStep::Login { .. } => {
                    let mut address = EnteredKey::default();
                    append(&mut address, text.trim());
                    Some(SetupRequest::Redirected(address))
                }
            },
            _ => None,
        }
    }

    fn key(&mut self, pressed: KeyEvent) -> Option<SetupRequest> {
        let action = self.keys.action(pressed);
        let is_control = pressed.modifiers.contains(KeyModifiers::CONTROL);
        let is_command = pressed.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
        match &mut self.step {
            SetupStep::Key { state: KeyState::Testing, .. } if pressed.code == KeyCode::Esc => {
                Some(SetupRequest::SkipTest)
            }
            SetupStep::Key { state: KeyState::Testing, .. } if !is_control => None,
            SetupStep::Key { state: KeyState::Storing, .. } => None,
            _ if is_control && matches!(pressed.code, KeyCode::Char('c' | 'd')) => Some(SetupRequest::Leave),
            SetupStep::Provider(picker) => {
                match picker.key(pressed, action, Duration::ZERO) {
                    Picked::Choice(choice) if choice.value.contains('/') => {
                        return Some(SetupRequest::Begin(Some(choice.value)));
                    }
                    Picked::Choice(choice) => self.choose(choice.value),
                    Picked::Closed => return Some(SetupRequest::Leave),
                    _ => {}
                }
                None
            }
            SetupStep::Model(picker) => match picker.key(pressed, action, Duration::ZERO) {
                Picked::Choice(choice) => Some(SetupRequest::Begin(Some(choice.value))),
                Picked::Closed => Some(SetupRequest::Begin(None)),
                _ => None,
            },
            SetupStep::Login { provider, .. } if pressed.code == KeyCode::Esc => {
                self.step = key_of(provider);
                Some(SetupRequest::StopLogin)
            }
            SetupStep::Login { .. } => None,
            SetupStep::Key { state: KeyState::Testing, .. } => None,
            SetupStep::Key { key, provider, state } => {
                match pressed.code {
                    KeyCode::Esc if self.providers.is_empty() => return Some(SetupRequest::Leave),
                    KeyCode::Esc => {
                        self.note = None;
                        self.step = SetupStep::Provider(Picker::new(Pick::Provider, self.providers.clone()));
                    }
                    KeyCode::Enter if key.0.trim().is_empty() && self.with_login.contains(provider) => {
                        let provider = provider.clone();
                        self.note = None;
                        self.step = SetupStep::Login { provider: provider.clone(), page: None };
                        return Some(SetupRequest::LogIn { provider });
                    }
                    KeyCode::Enter if key.0.trim().is_empty() => self.note = Some("Paste the key first.".to_owned()),
                    KeyCode::Enter => {
                        let is_kept = std::mem::replace(state, KeyState::Storing) == KeyState::Refused;
                        self.note = None;
                        let (provider, key) = (provider.clone(), std::mem::take(key));
                        return Some(match is_kept {
                            true => SetupRequest::Keep { provider, key },
                            false => SetupRequest::Store { provider, key },
                        });
                    }
                    KeyCode::Backspace => {
                        edited(key, state);
                        key.0.pop();
                    }
                    KeyCode::Char('u') if is_control => {
                        *state = KeyState::Entered;
                        key.0.clear();
                    }
                    KeyCode::Char(c) if !is_command => {
                        edited(key, state);
                        append(key, c.encode_utf8(&mut [0; 4]));
                    }
                    _ => {}
                }
                None
            }
        }
    }

    fn choose(&mut self, provider: String) {
        self.note = None;
        self.step = key_of(&provider);
    }

    /// Draws into a buffer and returns the place of the cursor; `None` hides it.
    pub fn draw(&self, buffer: &mut Buffer) -> Option<(u16, u16)> {
        let area = *buffer.area();
        buffer.reset();
        let (columns, height) = (usize::from(area.width), usize::from(area.height));
        if columns == 0 || height == 0 {
            return None;
        }
        let theme = &self.theme;
        let mut rows = vec![Row::from_pieces([StyledPiece::line("Welcome to Pinion", columns, theme.heading)])];
        let (about, keys) = self.describe_step();
        let text = |text: &str, style, rows: &mut Vec<Row>| {
            wrap(&[StyledPiece::new(text, style)], columns, &Lead::same(Vec::new()), rows);
        };
        text(&about, theme.text, &mut rows);
        if let Some(note) = &self.note {
            text(note, theme.warning, &mut rows);
        }
        rows.push(Row::from_pieces([StyledPiece::new(&"─".repeat(columns), theme.dim)]));
        let first = rows.len();
        let room = height.saturating_sub(first + 1).clamp(1, MAX_LIST);
        let (body, cursor) = match &self.step {
            SetupStep::Provider(picker) | SetupStep::Model(picker) => {
                picker.draw_with(Vec::new(), columns, room, theme)
            }
            SetupStep::Key { key, state, .. } => masked(key, *state, columns, theme),
            SetupStep::Login { page, .. } => (opened_page(page.as_deref(), columns, theme), None),
        };
        rows.extend(body);
        let shown = if width(keys) > columns { ends(keys) } else { keys.to_owned() };
        rows.push(Row::from_pieces([StyledPiece::line(&shown, columns, theme.dim)]));
        // A screen that is too low shows the end.
        let skipped = rows.len().saturating_sub(height);
        let mut links = Links::default();
        for (at, row) in rows.iter().skip(skipped).enumerate() {
            draw_row(buffer, at, row, area, &mut links);
        }
        let (row, column) = cursor?;
        let row = (first + row).checked_sub(skipped).filter(|row| *row < height)?;
        Some((u16::try_from(column.min(columns - 1)).ok()?, u16::try_from(row).ok()?))
    }

    /// Returns the text above the input, and the keys.
    fn describe_step(&self) -> (String, &'static str) {
        match &self.step {
            SetupStep::Provider(_) => (self.why.clone(), "type to filter · enter chooses · esc leaves"),
            SetupStep::Key { provider, state: KeyState::Testing, .. } => {
                let about = format!("Asking {provider} whether it accepts the key.");
                (about, "esc stores the key without the test")
            }
            SetupStep::Key { provider, .. } => {
                let place = &self.place;
                let mut about = match self.providers.is_empty() {
                    true => format!("{} Paste it here: it goes to {place}, and is not shown.", self.why),
                    false => format!("Paste your key for {provider}: it goes to {place}, and is not shown."),
                };
                if self.with_login.contains(provider) {
                    about.push_str(" Or press enter without a key to log in with your browser.");
                }
                match self.providers.is_empty() {
                    true => (about, "enter stores the key · esc leaves"),
                    false => (about, "enter stores the key · esc returns"),
                }
            }
            SetupStep::Login { provider, .. } => {
                let about = format!("Log in to {provider} in your browser, which then gives Pinion a key.");
                (about, "waiting for the login · esc stops")
            }
            SetupStep::Model(_) => {
                let about = "Choose the model of your conversations; `/model` changes it at any time.".to_owned();
                (about, "type to filter · enter chooses · esc takes the default")
            }
        }
    }
}

fn key_of(provider: &str) -> SetupStep {
    SetupStep::Key { provider: provider.to_owned(), key: EnteredKey::default(), state: KeyState::Entered }
}

/// Takes note that the key changes. A refused one is replaced as a whole.
fn edited(key: &mut EnteredKey, state: &mut KeyState) {
    if std::mem::replace(state, KeyState::Entered) == KeyState::Refused {
        key.0.clear();
    }
}

/// Draws the address of the user's login page.
fn opened_page(page: Option<&str>, columns: usize, theme: &Theme) -> Vec<Row> {
    let mut rows = Vec::new();
    let Some(page) = page else { return rows };
    let elsewhere = "If your browser is on another machine, paste here the address to which it was redirected.";
    for (text, style) in
        [("If no page opens, use this address:", theme.text), (page, theme.accent), (elsewhere, theme.dim)]
    {
        wrap(&[StyledPiece::new(text, style)], columns, &Lead::same(Vec::new()), &mut rows);
    }
    rows
}

/// Appends typed or pasted text to a key, without its control characters.
fn append(key: &mut EnteredKey, text: &str) {
    let room = MAX_KEY.saturating_sub(key.0.len());
    key.0.extend(text.chars().filter(|c| !c.is_control()).take(room));
}

/// Draws a key without showing it.
fn masked(key: &EnteredKey, state: KeyState, columns: usize, theme: &Theme) -> (Vec<Row>, Option<(usize, usize)>) {
    let work = match state {
        KeyState::Entered | KeyState::Refused => "",
        KeyState::Testing => "testing the key…",
        KeyState::Storing => "storing the key…",
    };
    if !work.is_empty() {
        return (vec![Row::from_pieces([StyledPiece::line(work, columns, theme.accent)])], None);
    }
    let length = key.0.chars().count();
    let count = if length == 0 { String::new() } else { format!("  {length} characters") };
    let room = columns.saturating_sub(3 + count.chars().count());
    let mut row = Row::from_pieces([
        StyledPiece::new("› ", theme.user),
        StyledPiece::new(&"•".repeat(length.min(room)), theme.text),
    ]);
    let cursor = row.width();
    row.push(StyledPiece::line(&count, columns.saturating_sub(cursor), theme.dim));
    (vec![row], Some((0, cursor)))
}
