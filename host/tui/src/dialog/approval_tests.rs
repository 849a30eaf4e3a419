//! Questions, and the keys that answer them.

use super::*;
use serde_json::json;

fn question(arguments: Value) -> ApprovalQuestion {
    ApprovalQuestion {
        id: 1,
        tool: "bash".into(),
        plugin: "shell".into(),
        digest: "0123456789abcdef".into(),
        label: "Run".into(),
        can: "runs programs".into(),
        notes: Vec::new(),
        arguments,
        change: None,
        reason: None,
        rule: None,
        reach: None,
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn press(approval: &mut Approval, c: char, at: u64) -> Option<ApprovalAnswer> {
    let answer = approval.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), None, ms(at));
    answer.or_else(|| approval.tick(ms(at + 50)))
}

fn shown(approval: &mut Approval, height: usize, at: u64) -> String {
    let rows = approval.draw(60, height, &Theme::plain(), ms(at)).0;
    rows.iter().map(Row::plain).collect::<Vec<_>>().join("\n")
}

#[test]
fn keys_pressed_before_a_quiet_moment_answer_nothing() {
    let mut approval = Approval::new(question(json!({ "command": "ls" })));
    shown(&mut approval, 20, 1_000);
    assert_eq!(press(&mut approval, 'y', 1_100), None);
    assert_eq!(press(&mut approval, 'y', 1_350), None);
    approval.tick(ms(1_700));
    assert_eq!(press(&mut approval, 'y', 1_800), Some(ApprovalAnswer::Yes));
}

#[test]
fn keys_in_a_burst_answer_nothing() {
    let mut approval = Approval::new(question(json!({ "command": "ls" })));
    shown(&mut approval, 20, 0);
    approval.tick(ms(400));
    for c in "yes".chars() {
        assert_eq!(approval.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), None, ms(500)), None);
    }
    assert_eq!(approval.tick(ms(600)), None);
    assert!(shown(&mut approval, 20, 600).contains("press a single one"));
}

#[test]
fn yes_counts_only_after_everything_was_on_the_screen() {
    let command = format!("{}rm -rf /", "echo\n".repeat(40));
    let mut approval = Approval::new(question(json!({ "command": command })));
    assert!(shown(&mut approval, 12, 0).contains("of 42 rows"));
    approval.tick(ms(400));
    assert_eq!(press(&mut approval, 'y', 500), None);
    for page in 0..8 {
        shown(&mut approval, 12, 600);
        press(&mut approval, ' ', 600 + page * 100);
    }
    assert!(shown(&mut approval, 12, 2_000).contains("rm -rf /"));
    assert_eq!(press(&mut approval, 'y', 2_000), Some(ApprovalAnswer::Yes));
}

#[test]
fn refusal_carries_the_words_of_the_user() {
    let mut approval = Approval::new(question(json!({})));
    shown(&mut approval, 20, 0);
    approval.tick(ms(400));
    press(&mut approval, 'r', 500);
    "no y".chars().for_each(|c| drop(press(&mut approval, c, 600)));
    assert!(shown(&mut approval, 20, 700).contains("› no y"));
    let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(approval.key(enter, None, ms(700)), Some(ApprovalAnswer::No(Some("no y".into()))));
}

#[test]
fn edits_are_shown_as_a_difference_and_nothing_is_hidden() {
    let edits = json!({ "path": "a.rs", "edits": [{ "old_text": "x = 1", "new_text": "x = 2\u{200b}\x1b[2J" }] });
    let mut approval = Approval::new(question(edits));
    let text = shown(&mut approval, 20, 0);
    assert!(text.contains("│ - x = 1\n│ + x = 2\\u{200b}␛[2J"), "{text}");
    assert!(text.starts_with("? allow this call? It runs programs\n  tool: bash   plugin: shell (0123456789ab)"));
}

#[test]
fn rule_is_offered_by_name_and_counts_only_then() {
    let mut approval = Approval::new(question(json!({ "command": "ls" })));
    shown(&mut approval, 20, 0);
    approval.tick(ms(400));
    assert_eq!(press(&mut approval, 'p', 500), None);
    let asked = question(json!({ "command": "cargo test -q" }));
    let mut approval =
        Approval::new(asked.explained(Some("`cargo test -q`: no rule".into()), Some("cargo test …".into())));
    assert!(shown(&mut approval, 20, 0).contains("│ asked because `cargo test -q`: no rule"));
    approval.tick(ms(400));
    assert!(shown(&mut approval, 20, 450).contains("[p] always `cargo test …` in this project"));
    assert_eq!(press(&mut approval, 'p', 500), Some(ApprovalAnswer::Rule));
}

#[test]
fn sentences_wrap_at_words_and_arguments_anywhere() {
    let reason = "programs of this call could not reach `crates.io`: yes allows it for the session".to_owned();
    let asked = question(json!({ "command": format!("curl{}https://crates.io/a/long/path", " ".repeat(9)) }));
    let asked =
        ApprovalQuestion { notes: vec!["plugin `red` thinks that this call is one to look at".into()], ..asked };
    let mut approval = Approval::new(asked.explained(Some(reason), None));
    let rows = approval.draw(40, 20, &Theme::plain(), ms(0)).0;
    let rows: Vec<String> = rows.iter().map(Row::plain).collect();
    let expected = [
        "│ plugin `red` thinks that this call is",
        "┊ one to look at",
        "│ asked because programs of this call",
        "┊ could not reach `crates.io`: yes",
        "┊ allows it for the session",
        "│ \"command\": curl         https://crate",
        "┊ s.io/a/long/path",
        "  a: do not ask again for bash in this",
        "  session, unless it can do more",
    ];
    let from = rows.iter().position(|row| row.starts_with('│')).unwrap();
    assert_eq!(rows[from..from + expected.len()], expected, "{rows:#?}");
}

#[test]
fn line_break_at_the_end_of_an_edit_is_no_line() {
    let edit = |old: &str, new: &str| {
        let edits = json!({ "edits": [{ "old_text": old, "new_text": new }] });
        let text = shown(&mut Approval::new(question(edits)), 30, 0);
        let rows = text.lines().filter(|row| row.starts_with("│ ")).skip(1);
        rows.map(|row| row.trim_start_matches("│ ").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(edit("a\nb\n", "c\n"), ["- a", "- b", "+ c"]);
    assert_eq!(edit("a\n\n", "a\n"), ["- a", "- ", "+ a"]);
    assert_eq!(edit("a", "a\n"), ["- a", "+ a", "(adds the line break at the end)"]);
    assert_eq!(edit("a\n", "b"), ["- a", "+ b", "(removes the line break at the end)"]);
    assert_eq!(edit("a\n", ""), ["- a"]);
    assert_eq!(edit("", "a\n"), ["+ a"]);
}
