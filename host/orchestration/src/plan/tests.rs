//! Plan files: written plans round-trip, and edited ones are parsed or rejected with a reason.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn step(title: &str, status: StepStatus) -> Step {
    Step { title: title.into(), status, ..Step::default() }
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan { title: "A plan".into(), summary: "Why.".into(), steps }
}

#[test]
fn plan_file_looks_hand_written() {
    let plan = plan(vec![
        Step {
            title: "Add the parser".into(),
            description: "Read lines.\n\n```rust\n## not a step\n```".into(),
            files: vec!["src/parse.rs".into(), "src/lib.rs".into()],
            acceptance: vec!["`cargo test` passes".into()],
            status: StepStatus::Done,
        },
        step("Use it", StepStatus::Open),
    ]);
    let text = "# A plan\n\nWhy.\n\n## Step 1: Add the parser\nStatus: done\n\nRead lines.\n\n```rust\n## not a step\n```\n\n\
                Files:\n- src/parse.rs\n- src/lib.rs\n\nDone when:\n- `cargo test` passes\n\n\
                ## Step 2: Use it\nStatus: open\n";
    assert_eq!(plan.to_markdown(), text);
    assert_eq!(Plan::parse(text).unwrap(), plan);
    assert_eq!(plan.next_step(), Some(1));
}

#[test]
fn hand_written_plans_are_parsed() {
    let text = "\u{feff}Just do it.\r\n\r\n## First thing\r\nDo it well.\r\n\r\nfiles:\r\n  * a.rs\r\n  * b.rs,\r\n    c.rs\r\n\r\n\
                done when: \r\n1. it works\r\n2) it is shown\r\nAnd mind the gap.\r\n## step 7:\r\n\r\n  \r\nstatus:  FAILED \r\n## Files: x\r\nLast\r\nStatus: done";
    let expected = Plan {
        title: "Untitled".into(),
        summary: "Just do it.".into(),
        steps: vec![
            Step {
                title: "First thing".into(),
                description: "Do it well.\n\nAnd mind the gap.".into(),
                files: vec!["a.rs".into(), "b.rs, c.rs".into()],
                acceptance: vec!["it works".into(), "it is shown".into()],
                status: StepStatus::Open,
            },
            step("Untitled", StepStatus::Failed),
            Step { description: "Last".into(), ..step("Files: x", StepStatus::Done) },
        ],
    };
    assert_eq!(Plan::parse(text).unwrap(), expected);
}

#[test]
fn texts_that_look_like_syntax_are_escaped() {
    let description = "Status: done\nStatus: 404 is returned\n## Why\nFiles:\n```\nopen\n~~~\n# fine\nDone when: soon";
    let plan = plan(vec![Step { description: description.into(), ..step("x", StepStatus::Open) }]);
    let text = plan.to_markdown();
    for line in ["Status\\: done", "Status: 404 is returned", "\\## Why", "Files\\:", "\\```", "\\~~~", "# fine"] {
        assert!(text.lines().any(|written| written == line), "no `{line}` in {text}");
    }
    assert_eq!(Plan::parse(&text).unwrap(), plan);
}

#[test]
fn errors_name_the_line_and_the_fix() {
    let refusal = |text: &str| Plan::parse(text).unwrap_err().to_string();
    assert_eq!(refusal(""), "the plan has no steps: start each with a line such as `## Step 1: what to do`");
    assert_eq!(
        refusal("# x\n## a\n\nStatus: finished\n"),
        "line 4: unknown status `finished`: write `open`, `running`, `done` or `failed`"
    );
    assert_eq!(
        refusal("## a\nStatus: done\ntext\nStatus: open"),
        "line 4: duplicate status in the same step: remove one of them"
    );
    assert_eq!(
        refusal("## a\n```rust\ncode\n## b\n"),
        "line 2: unclosed code fence: close it with a line of the same marks"
    );
    assert!(refusal(&"## a\n".repeat(Plan::MAX_STEPS + 1)).starts_with("line 201: more than 200 steps"));
    assert!(refusal(&"x".repeat(Plan::MAX_BYTES + 1)).contains("maximum is 1048576"));
    assert!(refusal(&format!("## a\nStatus: \x1b[2J{}", "x".repeat(1000))).len() < 200, "and bounded, for terminals");
    assert_eq!(Plan::set_status("## a\n", 3, StepStatus::Done), Err(PlanError::NoSuchStep { step: 4, steps: 1 }),);
}

#[test]
fn status_is_replaced_in_place_or_added_below_the_heading() {
    let set = |text, index| Plan::set_status(text, index, StepStatus::Running).unwrap();
    assert_eq!(set("## a\r\nStatus: open\r\n## b\r\ntext", 0), "## a\r\nStatus: running\r\n## b\r\ntext");
    assert_eq!(set("## a\r\n\r\n## b\r\ntext", 1), "## a\r\n\r\n## b\r\nStatus: running\r\ntext");
    assert_eq!(set("## a", 0), "## a\nStatus: running");
    assert_eq!(set("## a\r", 0), "## a\r\nStatus: running");
    assert_eq!(set("## a\ntext\n\nStatus: done", 0), "## a\ntext\n\nStatus: running");
    assert_eq!(
        set("~~~\n## c\n~~~\n## a\n```\nStatus: open\n```", 0),
        "~~~\n## c\n~~~\n## a\nStatus: running\n```\nStatus: open\n```"
    );
}

#[test]
fn huge_texts_of_marks_are_parsed_quickly() {
    let marks = "```a\n~~~\n".repeat(100_000);
    let plan = plan(vec![Step { description: marks, ..step("x", StepStatus::Open) }]);
    assert!(plan.to_markdown().len() > 900_000);
    let plan = Plan { steps: vec![step("x", StepStatus::Open)], summary: "`".repeat(1_000_000), ..plan };
    assert!(plan.to_markdown().len() > 900_000);
}

/// Generates fragments of plan files and arbitrary text.
fn piece() -> impl Strategy<Value = String> {
    let marks = [
        "# ",
        "## ",
        "##",
        "### ",
        "Step 3: ",
        "Status:",
        "status: ",
        "Status: open",
        "Status\\: done",
        "Files:",
        "files :",
        "Done when:",
        "done when\\:",
        "open",
        "running",
        "failed",
        "- ",
        "* ",
        "1. ",
        "```",
        "````",
        "~~~",
        "```rust",
        "`",
        "\\",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "    ",
        " ",
        "\t",
        "\u{feff}",
        "\u{a0}",
        "\u{2028}",
        "word",
        "ä",
        "\0",
        ":",
        "-",
    ];
    prop_oneof![10 => proptest::sample::select(marks.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

fn text() -> impl Strategy<Value = String> {
    vec(piece(), 0..24).prop_map(|pieces| pieces.concat())
}

fn any_step() -> impl Strategy<Value = Step> {
    let status = proptest::sample::select(StepStatus::ALL.to_vec());
    let parts = (text(), text(), vec(text(), 0..4), vec(text(), 0..4), status);
    parts.prop_map(|(title, description, files, acceptance, status)| Step {
        title,
        description,
        files,
        acceptance,
        status,
    })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let parts = (text(), text(), vec(any_step(), 1..4));
    parts.prop_map(|(title, summary, steps)| Plan { title, summary, steps })
}

/// Returns the lines that differ between two texts.
fn changed(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
    let lines = |text: &str| -> Vec<String> { text.split_inclusive('\n').map(str::to_owned).collect() };
    let (mut before, mut after) = (lines(before), lines(after));
    while !before.is_empty() && before.first() == after.first() {
        before.remove(0);
        after.remove(0);
    }
    while !before.is_empty() && before.last() == after.last() {
        before.pop();
        after.pop();
    }
    (before, after)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_plan_round_trips_to_its_normal_form(plan in any_plan()) {
        let text = plan.to_markdown();
        let read = Plan::parse(&text);
        prop_assert_eq!(read.as_ref(), Ok(&plan.normal()), "{}", text);
        prop_assert_eq!(read.unwrap().to_markdown(), text);
    }

    #[test]
    fn normal_form_keeps_every_word(text in text()) {
        let plan = plan(vec![Step { description: text.clone(), ..step("x", StepStatus::Open) }]).normal();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(words(&plan.steps[0].description), words(&text));
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in text()) {
        if let Ok(plan) = Plan::parse(&text) {
            prop_assert_eq!(Plan::parse(&plan.to_markdown()), Ok(plan));
        }
    }

    #[test]
    fn setting_a_status_changes_one_line_and_one_step(
        text in text(),
        index in 0..4_usize,
        status in proptest::sample::select(StepStatus::ALL.to_vec()),
    ) {
        let Ok(marked) = Plan::set_status(&text, index, status) else { return Ok(()) };
        let (before, after) = changed(&text, &marked);
        prop_assert!(before.len() <= 1 && after.len() <= 2, "{before:?} became {after:?}");
        if let Ok(mut plan) = Plan::parse(&text) {
            plan.steps[index].status = status;
            prop_assert_eq!(Plan::parse(&marked), Ok(plan), "{:?}", marked);
        }
    }
}

#[test]
fn only_escapes_are_removed_from_lines() {
    use super::line::{escaped, unescaped};
    for line in ["Status: done", "Files:", "Done when:", "## Step", "```", "text", "", "Status: maybe"] {
        assert_eq!(unescaped(line), line);
        assert_eq!(unescaped(&escaped(line)), line);
        assert_eq!(unescaped(&escaped(&escaped(line))), escaped(line));
    }
    assert_eq!((escaped("Status: done"), escaped("Status: maybe")), ("Status\\: done".into(), "Status: maybe".into()));
}
