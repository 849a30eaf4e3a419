//! Plan mode.

use crate::mouse::mouse;
use crate::ui::{Ui, done};
use crossterm::event::{KeyCode, KeyModifiers, MouseEventKind};
use pinion_protocol::EventKind;
use pinion_protocol::step::StepStatus;
use pinion_tui::{Input, UiRequest};
use serde_json::json;

const FILE: &str = ".pinion/plans/fix.md";

fn planning() -> Ui {
    let mut ui = Ui::new(80, 24);
    ui.press(KeyCode::BackTab, KeyModifiers::SHIFT);
    ui
}

fn with_plan() -> Ui {
    let mut ui = planning();
    ui.send("fix the test");
    ui.input(Input::Plan { file: FILE.into(), text: "# Fix\n\n## Read the test\n\n## Change the sign\n".into() });
    ui.end(done());
    ui.wait(300);
    ui
}

/// Shows a plan of this many steps, and waits until keys count.
fn with_steps(ui: &mut Ui, count: usize) {
    ui.send("fix the test");
    let steps: String = (1..=count).map(|n| format!("## Part {n}\n\n")).collect();
    ui.input(Input::Plan { file: FILE.into(), text: format!("# Fix\n\n{steps}") });
    ui.end(done());
    ui.wait(300);
}

/// Returns the numbers of the steps on the screen.
fn steps(ui: &mut Ui) -> Vec<usize> {
    let screen = ui.screen();
    screen.lines().filter_map(|row| row.trim().strip_prefix("┃ Part ")?.parse().ok()).collect()
}

fn last(requests: Vec<UiRequest>) -> Option<UiRequest> {
    requests.into_iter().next_back()
}

#[test]
fn message_in_plan_mode_asks_for_a_plan() {
    let mut ui = planning();
    ui.wait(5_000);
    assert!(ui.screen().contains("anthropic/claude · plan mode · "), "{}", ui.screen());
    assert_eq!(last(ui.send("/cost")), Some(UiRequest::Submit("/cost".into())));
    ui.input(Input::Finished);
    assert_eq!(last(ui.send("fix it")), Some(UiRequest::Plan { text: "fix it".into(), file: None }));
    ui.end(done());
    ui.press(KeyCode::BackTab, KeyModifiers::SHIFT);
    assert_eq!(last(ui.send("fix it")), Some(UiRequest::Submit("fix it".into())));
}

#[test]
fn plan_is_shown_and_executed() {
    let mut ui = with_plan();
    let screen = ui.screen();
    assert!(screen.contains("┃ Change the sign") && screen.contains("❯ execute the plan"), "{screen}");
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
    let title = "Read the test".to_owned();
    ui.event(EventKind::PlanStep { step: 1, steps: 2, title, status: StepStatus::Running });
    assert!(ui.screen().contains("step 1 of 2 · waiting for the model"), "{}", ui.screen());
}

#[test]
fn plan_longer_than_the_screen_is_read_before_the_decision() {
    for size in [(80, 24), (40, 14)] {
        let mut ui = planning();
        ui.size = size;
        with_steps(&mut ui, 60);
        let first = steps(&mut ui);
        assert!(ui.screen().contains("┃ Fix\n") && first[0] == 1, "{}", ui.screen());
        let mut seen: Vec<usize> = first.clone();
        while seen.last() != Some(&60) {
            ui.key(KeyCode::PageDown);
            let shown = steps(&mut ui);
            assert!(shown[0] <= seen.last().unwrap() + 1 && shown.last() > seen.last(), "{}", ui.screen());
            seen.extend(shown);
        }
        // The list is as it was.
        assert!(ui.screen().contains("❯ execute the plan"), "{}", ui.screen());
        ui.press(KeyCode::Home, KeyModifiers::CONTROL);
        assert_eq!(steps(&mut ui), first);
        (0..2).for_each(|_| drop(mouse(&mut ui, MouseEventKind::ScrollDown, 2)));
        assert!(!ui.screen().contains("┃ Fix\n") && steps(&mut ui)[0] > 1, "{}", ui.screen());
        (0..2).for_each(|_| drop(mouse(&mut ui, MouseEventKind::ScrollUp, 2)));
        ui.key(KeyCode::Down);
        assert_eq!(steps(&mut ui), first);
        ui.key(KeyCode::Up);
        assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
    }
}

#[test]
fn plan_that_fits_leaves_the_window_at_the_end() {
    let mut ui = planning();
    with_steps(&mut ui, 5);
    assert_eq!(steps(&mut ui), [1, 2, 3, 4, 5], "{}", ui.screen());
    ui.key(KeyCode::Esc);
    assert!(!ui.screen().contains("scrolled up"), "{}", ui.screen());
}

#[test]
fn inline_form_shows_the_whole_plan_until_it_is_executed() {
    let mut ui = Ui::inline(80, 24);
    ui.press(KeyCode::BackTab, KeyModifiers::SHIFT);
    with_steps(&mut ui, 60);
    assert!(ui.screen().contains("execute the plan") && !ui.app.is_viewing());
    ui.key(KeyCode::PageUp);
    assert!(ui.app.is_viewing() && steps(&mut ui).last() < Some(&60), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
    assert!(!ui.app.is_viewing());
}

#[test]
fn keys_that_were_meant_for_the_editor_decide_on_no_plan() {
    let mut ui = planning();
    ui.send("fix the test");
    ui.types("and exe");
    ui.input(Input::Plan { file: FILE.into(), text: "# Fix\n\n## Read the test\n".into() });
    ui.end(done());
    assert!(ui.screen().contains("plan: keys count in a moment"), "{}", ui.screen());
    for _ in 0..5 {
        assert_eq!(ui.send("c"), []);
        assert_eq!(ui.paste("execute\n"), []);
        ui.wait(200);
    }
    ui.wait(100);
    assert!(ui.screen().contains("plan 4 of 4"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
}

#[test]
fn messages_wait_for_the_decision_on_a_plan() {
    let mut ui = planning();
    ui.send("fix the test");
    ui.send("and format it");
    ui.input(Input::Plan { file: FILE.into(), text: "# Fix\n\n## Read the test\n".into() });
    assert_eq!(ui.input(Input::Finished), []);
    ui.wait(300);
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
    let next = ui.input(Input::Finished);
    assert_eq!(last(next), Some(UiRequest::Submit("and format it".into())));
}

/// Chooses to edit the plan, and returns its text.
fn edit(ui: &mut Ui) -> String {
    ui.types("edit");
    let Some(UiRequest::Edit(text)) = last(ui.key(KeyCode::Enter)) else { panic!("no editor") };
    text
}

/// Ends the editor, and refuses to save its result.
fn refuse(ui: &mut Ui, text: &str, reason: &str) {
    let saved = UiRequest::SavePlan { file: FILE.into(), text: text.into() };
    assert_eq!(ui.input(Input::Edited(Ok(text.into()))), [saved]);
    assert_eq!(ui.input(Input::PlanUnsaved(reason.into())), []);
    ui.wait(300);
}

#[test]
fn plan_is_edited_and_shown_again() {
    let mut ui = with_plan();
    let text = edit(&mut ui).replace("sign", "operator");
    let saved = UiRequest::SavePlan { file: FILE.into(), text: text.clone() };
    assert_eq!(ui.input(Input::Edited(Ok(text))), [saved]);
    assert!(ui.screen().contains("\n›"), "{}", ui.screen());
}

#[test]
fn invalid_edit_is_continued_and_not_executed() {
    let (mut ui, reason) = (with_plan(), "line 7: unclosed code fence");
    let text = edit(&mut ui) + "```\n";
    refuse(&mut ui, &text, reason);
    let screen = ui.screen();
    assert!(
        screen.contains(reason) && screen.contains("❯ edit the plan      not saved yet · in your editor"),
        "{screen}"
    );
    ui.key(KeyCode::Up);
    assert!(!ui.screen().contains(reason) && ui.screen().contains("❯ execute the plan"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Enter), []);
    assert!(ui.screen().contains(reason) && ui.screen().contains("❯ edit the plan"), "{}", ui.screen());
    // The list takes keys at once, because it answers one.
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Edit(text)]);
    let text = "## Look\n";
    ui.input(Input::Edited(Ok(text.into())));
    ui.input(Input::Plan { file: FILE.into(), text: text.into() });
    ui.wait(300);
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
}

#[test]
fn failed_editor_leaves_the_plan_and_its_list() {
    let mut ui = with_plan();
    let text = edit(&mut ui);
    assert_eq!(ui.input(Input::Edited(Err("could not run the editor `none`".into()))), []);
    ui.wait(300);
    let screen = ui.screen();
    assert!(screen.contains("could not run the editor `none`") && screen.contains("❯ edit the plan"), "{screen}");
    assert_eq!(edit(&mut ui), text);
    ui.input(Input::Edited(Err("again".into())));
    ui.wait(300);
    ui.key(KeyCode::Up);
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
}

#[test]
fn editor_that_fails_later_keeps_the_edit_of_before() {
    let mut ui = with_plan();
    edit(&mut ui);
    refuse(&mut ui, "no steps", "the plan has no steps");
    assert_eq!(edit(&mut ui), "no steps");
    ui.input(Input::Edited(Err("exit status: 1".into())));
    ui.wait(300);
    ui.key(KeyCode::Up);
    assert_eq!(ui.key(KeyCode::Enter), []);
    assert!(ui.screen().contains("the plan has no steps"), "{}", ui.screen());
    assert_eq!(edit(&mut ui), "no steps");
}

#[test]
fn invalid_edit_of_a_plan_that_is_left_can_be_brought_back() {
    for choice in ["later", "changes"] {
        let mut ui = with_plan();
        edit(&mut ui);
        refuse(&mut ui, "## Look\nStatus: maybe\n", "line 2: unknown status `maybe`");
        ui.types(choice);
        assert_eq!(ui.key(KeyCode::Enter), []);
        assert!(ui.screen().contains("your edit is not saved; ctrl+y brings it back"), "{}", ui.screen());
        ui.ctrl('y');
        assert_eq!(last(ui.ctrl('g')), Some(UiRequest::Edit("## Look\nStatus: maybe\n".into())));
    }
}

#[test]
fn changes_that_the_user_asks_for_replace_the_plan() {
    let mut ui = with_plan();
    ui.types("changes");
    ui.key(KeyCode::Enter);
    let expected = UiRequest::Plan { text: "add a test".into(), file: Some(FILE.into()) };
    assert_eq!(last(ui.send("add a test")), Some(expected));
}

#[test]
fn plan_that_is_kept_can_be_executed_later() {
    let mut ui = with_plan();
    ui.types("later");
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("`/execute .pinion/plans/fix.md` executes the plan"), "{}", ui.screen());
    assert_eq!(last(ui.send("/execute .pinion/plans/fix.md")), Some(UiRequest::Execute(FILE.into())));
}

/// Presses the key of the modes and returns the mode that is requested, with the status line of later.
fn next_mode(ui: &mut Ui) -> (Vec<UiRequest>, String) {
    let requests = ui.press(KeyCode::BackTab, KeyModifiers::SHIFT);
    ui.wait(10_000);
    (requests, ui.screen())
}

#[test]
fn key_switches_through_the_modes_and_the_status_line_names_them() {
    let mut ui = Ui::new(80, 24);
    ui.approval("ask");
    for name in ["smart", "edits"] {
        let (requests, screen) = next_mode(&mut ui);
        assert_eq!(requests, [UiRequest::Mode(name.into())]);
        assert!(screen.contains(&format!("anthropic/claude · {name} · ")), "{screen}");
    }
    let (requests, screen) = next_mode(&mut ui);
    // Plan mode is left for the mode of before, not for one that the key has passed.
    assert!(requests == [mode("ask")] && screen.contains("· plan mode ·"), "{requests:?} {screen}");
    let (requests, screen) = next_mode(&mut ui);
    assert_eq!(requests, [UiRequest::Mode("ask".into())]);
    assert!(screen.contains("anthropic/claude · ask · "), "{screen}");
}

#[test]
fn plan_mode_is_left_for_the_mode_before_the_first_press() {
    let mut ui = Ui::new(80, 24);
    ui.approval("smart");
    assert_eq!(next_mode(&mut ui).0, [mode("edits")]);
    assert_eq!(next_mode(&mut ui).0, [mode("smart")]);
    assert_eq!(next_mode(&mut ui).0, [mode("smart")]);
    // The modes behind plan mode are reached, too.
    assert_eq!(next_mode(&mut ui).0, [mode("ask")]);
    assert_eq!(next_mode(&mut ui).0, [mode("smart")]);
    // A mode that stays while something else is typed is one of before.
    assert_eq!(next_mode(&mut ui).0, [mode("edits")]);
    ui.types("x");
    ui.key(KeyCode::Backspace);
    assert_eq!(next_mode(&mut ui).0, []);
    assert_eq!(next_mode(&mut ui).0, [mode("edits")]);
}

#[test]
fn mode_without_a_key_is_reached_after_it_was_chosen() {
    let mut ui = Ui::new(80, 24);
    ui.approval("confirm");
    let names = ["ask", "smart", "edits"].map(mode);
    assert_eq!([next_mode(&mut ui).0, next_mode(&mut ui).0, next_mode(&mut ui).0].concat(), names);
}

#[test]
fn plan_and_its_execution_look_different() {
    let mut ui = with_plan();
    let screen = ui.screen();
    assert!(screen.contains(&format!("┃ plan · {FILE}\n┃ Fix\n")), "{screen}");
    ui.key(KeyCode::Enter);
    for (step, title) in [(1, "Read the test"), (2, "Change the sign")] {
        ui.event(EventKind::PlanStep { step, steps: 2, title: title.to_owned(), status: StepStatus::Running });
        assert!(ui.screen().contains(&format!("\nexecuting {step}/2 · anthropic/claude")), "{}", ui.screen());
    }
    ui.end(done());
    ui.input(Input::Finished);
    assert!(!ui.screen().contains("executing"), "{}", ui.screen());
}

#[test]
fn status_says_that_a_plan_is_written() {
    let mut ui = Ui::new(80, 24);
    ui.approval("smart");
    ui.send("/plan fix the test");
    ui.wait(5_000);
    assert!(ui.screen().contains("· planning ·"), "{}", ui.screen());
    ui.end(done());
    ui.input(Input::Finished);
    assert!(ui.screen().contains("· smart ·"), "{}", ui.screen());
}

#[test]
fn answers_of_planners_and_steps_are_shown_in_words() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    let step = json!({ "title": "Look", "description": "Read it.", "files": [], "acceptance": ["seen"] });
    let answers = [
        json!({ "title": "Fix it", "summary": "So.", "steps": [step] }),
        json!({ "done": true, "report": "The sign is changed.\n\nAll tests pass." }),
    ];
    for (id, answer) in ["1", "2"].into_iter().zip(answers) {
        ui.call(id, "final_answer", answer);
        ui.result(id, "final_answer", false, "Answer received.");
    }
    let screen = ui.screen();
    assert!(screen.contains("wrote a plan: Fix it, 1 step"), "{screen}");
    assert!(screen.contains("done: The sign is changed.") && !screen.contains("All tests pass"), "{screen}");
    assert!(!screen.contains("final_answer") && !screen.contains('{'), "{screen}");
    ui.ctrl('o');
    let screen = ui.screen();
    assert!(screen.contains("All tests pass.") && screen.contains("Read it."), "{screen}");
}

#[test]
fn plan_is_opened_edited_and_executed_later() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(last(ui.send("/edit-plan")), Some(UiRequest::OpenPlan(None)));
    assert_eq!(last(ui.send(&format!("/edit-plan {FILE}"))), Some(UiRequest::OpenPlan(Some(FILE.into()))));
    let opened = Input::OpenedPlan { file: FILE.into(), text: "## Look\n".into() };
    assert_eq!(ui.input(opened), [UiRequest::Edit("## Look\n".into())]);
    let text = "## Look twice\n";
    let saved = UiRequest::SavePlan { file: FILE.into(), text: text.into() };
    assert_eq!(ui.input(Input::Edited(Ok(text.into()))), [saved]);
    ui.input(Input::Plan { file: FILE.into(), text: text.into() });
    ui.wait(300);
    assert_eq!(ui.key(KeyCode::Enter), [UiRequest::Execute(FILE.into())]);
    assert_eq!(last(ui.send("/edit-plan")), Some(UiRequest::Remember("/edit-plan".into())));
    assert!(ui.screen().contains("wait for the agent"), "{}", ui.screen());
}

#[test]
fn key_reaches_the_mode_without_questions_only_if_it_was_chosen_before() {
    let mut ui = Ui::new(80, 24);
    ui.approval("all");
    assert_eq!(next_mode(&mut ui).0, [UiRequest::Mode("ask".into())]);
    ui.approval("edits");
    next_mode(&mut ui);
    assert_eq!(next_mode(&mut ui).0, [UiRequest::Mode("all".into())]);
}

#[test]
fn mode_changes_while_the_agent_works_and_is_explained() {
    let mut ui = Ui::new(80, 24);
    ui.approval("smart");
    ui.send("go");
    assert_eq!(ui.press(KeyCode::BackTab, KeyModifiers::SHIFT), [UiRequest::Mode("edits".into())]);
    assert!(ui.screen().contains("edits: files of the project are edited"), "{}", ui.screen());
}

fn mode(name: &str) -> UiRequest {
    UiRequest::Mode(name.into())
}

#[test]
fn plan_mode_binds_a_run_that_works_until_its_end() {
    let mut ui = Ui::new(80, 24);
    ui.approval("edits");
    ui.start("go");
    assert_eq!(ui.press(KeyCode::BackTab, KeyModifiers::SHIFT), [mode("plan")]);
    assert!(ui.screen().contains("plan mode: from its next call on, the agent only reads"), "{}", ui.screen());
    ui.approval("plan");
    assert_eq!(ui.end(done()), [mode("edits")]);
    ui.wait(5_000);
    assert!(ui.screen().contains("· plan mode ·"), "{}", ui.screen());
    // Nothing is left to return to.
    assert_eq!(last(ui.send("fix it")), Some(UiRequest::Plan { text: "fix it".into(), file: None }));
    assert_eq!(ui.end(done()), []);
}

#[test]
fn plan_mode_that_is_left_in_the_middle_of_a_run_binds_no_more() {
    let mut ui = Ui::new(80, 24);
    ui.approval("smart");
    ui.start("go");
    assert_eq!(last(ui.send("/plan")), Some(mode("plan")));
    assert_eq!(last(ui.send("/plan")), Some(mode("smart")));
    assert_eq!(ui.end(done()), []);
    // Another mode takes its place, also by its name.
    ui.start("go");
    ui.send("/plan");
    assert_eq!(last(ui.send("/mode all")), Some(UiRequest::Own("/mode all".into())));
    assert_eq!(ui.end(done()), []);
    assert_eq!(last(ui.send("fix it")), Some(UiRequest::Submit("fix it".into())));
}

#[test]
fn plan_shown_before_the_end_of_its_run_keeps_the_mode_to_return_to() {
    let mut ui = Ui::new(80, 24);
    ui.approval("smart");
    ui.start("go");
    ui.send("/plan");
    ui.input(Input::Plan { file: FILE.into(), text: "# Fix\n\n## Read the test\n".into() });
    assert_eq!(ui.input(Input::Finished), [mode("smart")]);
}
