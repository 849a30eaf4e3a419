//! Comparison of screens with reviewed ones.

use std::path::Path;

/// Compares a screen with the one in `screens/NAME.txt`. `PINION_UPDATE_SCREENS=1` writes it instead.
pub(crate) fn assert_screen(name: &str, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/screens").join(format!("{name}.txt"));
    if std::env::var_os("PINION_UPDATE_SCREENS").is_some() {
        std::fs::write(&path, format!("{screen}\n")).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        expected.trim_end_matches('\n'),
        screen.trim_end_matches('\n'),
        "the screen `{name}` changed:\n{screen}"
    );
}

#[test]
fn screens_in_the_documents_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/user/conversation.md")).unwrap();
    for (name, from) in [("finished", ""), ("approval", "⠼ waiting")] {
        let screen = std::fs::read_to_string(root.join(format!("tests/it/screens/{name}-80x24.txt"))).unwrap();
        let shown = &screen[screen.find(from).unwrap()..];
        assert!(page.contains(shown.trim_end()), "`docs/user/conversation.md` shows another screen `{name}`");
    }
}
