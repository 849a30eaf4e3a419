//! The first-run setup: events in, screens and requests out.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use pinion_tui::{Buffer, PickChoice, Rect, Setup, SetupRequest, Theme, text_of};

const KEY: &str = "sk-Zq7Xw3Vb9Nm2";

fn choice(name: &str, detail: &str) -> PickChoice {
    PickChoice { value: name.into(), label: name.into(), detail: detail.into() }
}

fn setup() -> Setup {
    let providers = vec![choice("anthropic", "Anthropic Messages"), choice("groq", "Groq")];
    Setup::new(Theme::named("plain").unwrap(), providers, "`~/.config/pinion/auth.toml`")
}

fn screen(setup: &Setup, columns: u16, rows: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    setup.draw(&mut buffer);
    text_of(&buffer)
}

fn press(setup: &mut Setup, code: KeyCode) -> Option<SetupRequest> {
    setup.handle(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn type_text(setup: &mut Setup, text: &str) {
    text.chars().for_each(|c| assert_eq!(press(setup, KeyCode::Char(c)), None));
}

#[test]
fn provider_key_and_model_are_chosen_one_after_another() {
    let mut setup = setup();
    let seen = screen(&setup, 60, 12);
    assert!(seen.contains("No provider has a key yet") && seen.contains("❯ anthropic"), "{seen}");
    type_text(&mut setup, "gro");
    assert_eq!(press(&mut setup, KeyCode::Enter), None);
    assert_eq!(press(&mut setup, KeyCode::Enter), None);
    assert!(screen(&setup, 60, 12).contains("Paste the key first."));
    setup.handle(&Event::Paste(format!(" {KEY}\n")));
    let seen = screen(&setup, 60, 12);
    assert!(seen.contains("your key for groq") && seen.contains("auth.toml"), "{seen}");
    assert!(seen.contains(&"•".repeat(KEY.len())) && !seen.contains("sk-") && seen.contains("15 characters"), "{seen}");
    let stored = press(&mut setup, KeyCode::Enter);
    assert!(!format!("{stored:?} {setup:?}").contains("Zq7"), "{stored:?}");
    let Some(SetupRequest::Store { provider, key }) = stored else { panic!("{stored:?}") };
    assert_eq!((provider.as_str(), key.into_text().as_str()), ("groq", KEY));
    // Nothing counts until the key is stored.
    assert_eq!((press(&mut setup, KeyCode::Enter), press(&mut setup, KeyCode::Esc)), (None, None));
    setup.models(vec![choice("groq/a", "default"), choice("groq/b", "")], "the keyring");
    let seen = screen(&setup, 60, 12);
    assert!(seen.contains("The key is in the keyring.") && seen.contains("❯ groq/a  default"), "{seen}");
    assert_eq!(press(&mut setup, KeyCode::Down), None);
    assert_eq!(press(&mut setup, KeyCode::Enter), Some(SetupRequest::Begin(Some("groq/b".into()))));
    assert_eq!(press(&mut setup, KeyCode::Esc), Some(SetupRequest::Begin(None)));
}

#[test]
fn model_on_this_machine_needs_no_key() {
    let mut setup = setup();
    press(&mut setup, KeyCode::Down);
    setup.found_models(Vec::new());
    assert!(screen(&setup, 60, 12).contains("No provider has a key yet. Choose one"));
    setup.found_models(vec![choice("ollama/qwen3:8b", "on this machine, loaded")]);
    let seen = screen(&setup, 60, 12);
    assert!(seen.contains("Choose a model on this") && seen.contains("ollama/qwen3:8b  on this machine"), "{seen}");
    // The selection stays.
    assert!(seen.contains("❯ groq"), "{seen}");
    type_text(&mut setup, "qwen");
    assert_eq!(press(&mut setup, KeyCode::Enter), Some(SetupRequest::Begin(Some("ollama/qwen3:8b".into()))));
}

#[test]
fn narrow_setup_names_its_first_and_last_key() {
    let mut setup = setup();
    let seen = screen(&setup, 40, 10);
    assert!(seen.contains("\ntype to filter · esc leaves"), "{seen}");
    press(&mut setup, KeyCode::Enter);
    let seen = screen(&setup, 40, 10);
    assert!(seen.contains("\nenter stores the key · esc returns"), "{seen}");
}

#[test]
fn escape_returns_to_the_providers_and_then_leaves() {
    let mut setup = setup();
    assert_eq!(press(&mut setup, KeyCode::Enter), None);
    type_text(&mut setup, KEY);
    assert_eq!(press(&mut setup, KeyCode::Esc), None);
    assert!(screen(&setup, 60, 12).contains("❯ anthropic"));
    assert_eq!(press(&mut setup, KeyCode::Esc), Some(SetupRequest::Leave));
    let mut setup = setup.for_provider("groq");
    assert!(screen(&setup, 60, 12).contains("needs a key for groq"));
    assert_eq!(press(&mut setup, KeyCode::Esc), Some(SetupRequest::Leave));
}

#[test]
fn key_that_could_not_be_stored_is_asked_for_again() {
    let mut setup = setup().for_provider("groq");
    type_text(&mut setup, "short");
    assert!(press(&mut setup, KeyCode::Enter).is_some());
    setup.failed("could not write `auth.toml`");
    let seen = screen(&setup, 60, 12);
    assert!(seen.contains("could not write `auth.toml`") && !seen.contains('•'), "{seen}");
    type_text(&mut setup, "again");
    assert!(press(&mut setup, KeyCode::Enter).is_some());
}

#[test]
fn test_of_a_key_can_be_skipped_and_a_refused_key_kept_or_replaced() {
    let mut setup = setup().for_provider("groq");
    setup.handle(&Event::Paste(KEY.to_owned()));
    let Some(SetupRequest::Store { key, .. }) = press(&mut setup, KeyCode::Enter) else { panic!("not stored") };
    setup.testing();
    let seen = screen(&setup, 60, 12);
    assert!(seen.contains("testing the key…") && seen.contains("esc stores the key without the test"), "{seen}");
    assert_eq!(press(&mut setup, KeyCode::Enter), None);
    let leave = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert_eq!(setup.handle(&leave), Some(SetupRequest::Leave));
    assert_eq!(press(&mut setup, KeyCode::Esc), Some(SetupRequest::SkipTest));
    setup.refused("groq refuses this key: no such key", key.clone());
    let seen = screen(&setup, 60, 12);
    assert!(seen.contains("no such key") && seen.contains("15 characters"), "{seen}");
    let kept = press(&mut setup, KeyCode::Enter);
    assert_eq!(kept, Some(SetupRequest::Keep { provider: "groq".into(), key: key.clone() }));
    // Another key replaces the refused one, and is tested again.
    setup.testing();
    setup.refused("no", key);
    setup.handle(&Event::Paste("another".to_owned()));
    assert!(screen(&setup, 60, 12).contains("7 characters"));
    assert!(matches!(press(&mut setup, KeyCode::Enter), Some(SetupRequest::Store { .. })));
}

#[test]
fn login_with_a_browser_is_offered_shown_stopped_and_completed() {
    let mut setup = setup().with_login(vec!["groq".into()]).for_provider("groq");
    assert!(screen(&setup, 80, 12).contains("log in with your browser"));
    let log_in = Some(SetupRequest::LogIn { provider: "groq".into() });
    assert_eq!(press(&mut setup, KeyCode::Enter), log_in);
    setup.opened("https://groq.example/auth?callback_url=http%3A%2F%2Flocalhost");
    let seen = screen(&setup, 80, 12);
    assert!(seen.contains("https://groq.example/auth?callback_url=http%3A%2F%2Flocalhost"), "{seen}");
    assert!(seen.contains("waiting for the login"), "{seen}");
    assert_eq!(press(&mut setup, KeyCode::Enter), None);
    let pasted = setup.handle(&Event::Paste(" http://localhost:1/callback?code=c0de\n".into()));
    assert!(!format!("{pasted:?}").contains("c0de"), "{pasted:?}");
    let Some(SetupRequest::Redirected(address)) = pasted else { panic!("{pasted:?}") };
    assert_eq!(address.into_text(), "http://localhost:1/callback?code=c0de");
    assert_eq!(press(&mut setup, KeyCode::Esc), Some(SetupRequest::StopLogin));
    assert!(screen(&setup, 80, 12).contains("enter stores the key"));
    assert_eq!(press(&mut setup, KeyCode::Enter), log_in);
    setup.failed("the login was refused");
    let seen = screen(&setup, 80, 12);
    assert!(seen.contains("the login was refused") && seen.contains("enter stores the key"), "{seen}");
}

#[test]
fn setup_is_drawn_on_any_screen() {
    let draw = |setup: &Setup| {
        for (columns, rows) in [(0, 0), (1, 1), (3, 2), (8, 4), (40, 10), (200, 50)] {
            screen(setup, columns, rows);
        }
    };
    let mut setup = setup().with_login(vec!["anthropic".into()]);
    draw(&setup);
    press(&mut setup, KeyCode::Enter);
    setup.handle(&Event::Paste("\x1b[2J\u{202e}key".repeat(50)));
    draw(&setup);
    assert!(screen(&setup, 40, 10).contains("enter stores the key"));
    setup.handle(&Event::Key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL)));
    press(&mut setup, KeyCode::Enter);
    setup.opened("\x1b[2J\u{202e}page".repeat(50));
    draw(&setup);
    assert!(screen(&setup, 40, 10).contains("waiting for the login"));
}
