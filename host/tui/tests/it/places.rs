//! Every place of the UI that shows text of others.

use crate::ui::{Ui, agent_below, agent_start, assistant, done, end_of, ended, of_past, tool_result};
use crossterm::event::Event as TerminalEvent;
use pinion_protocol::dialog::{Dialog, DialogKind};
use pinion_protocol::step::StepStatus;
use pinion_protocol::{
    Authority, CompactionReason, Content, ContentDelta, Display, DrawingBlock, DrawnPart, EventKind, HookAnswer,
    HookCall, HookPoint, Message, Role, RunEnd, Severity, Span, SpanStyle, Spend, StopReason, Thinking, ToolCall,
    TurnTrigger, Usage,
};
use pinion_tui::{Facts, Input, Pick, PickChoice, SlashCommand, Theme, Tone};
use serde_json::json;
use std::collections::BTreeSet;

/// Names every input, so that a new one needs a place here before the tests build.
macro_rules! input_names {
    ($($input:ident)*) => {
        const INPUTS: &[&str] = &[$(stringify!($input)),*];

        fn name_of(input: &Input) -> &'static str {
            match input {
                $(Input::$input { .. } => stringify!($input),)*
            }
        }
    };
}

input_names! {
    Terminal Event Session Note Page OwnCall OwnEvent Facts Question Dialog Segment Withdrawn Plan OpenedPlan PlanUnsaved Paste SideAnswer
    Insert Offer Returned Finished Commands Completions Files Choices Relisted Remark Preview Edited History Highlighted Theme Tick
}

/// Returns an event of each kind, with this text wherever it has any.
pub(crate) fn events(text: &str) -> Vec<EventKind> {
    let id = text.len().to_string();
    let content = || vec![Content::text(text)];
    let usage = Usage::default;
    let arguments = json!({ text: text, "edits": [{ "old_text": text, "new_text": text }] });
    let step = json!({ "title": text, "description": text });
    let plan = json!({ "title": text, "summary": text, "steps": [step] });
    let reply = assistant(vec![
        Content::Thinking(Thinking { text: text.into(), ..Thinking::default() }),
        Content::text(text),
        Content::ToolCall(ToolCall::new(id.clone(), text, arguments)),
        Content::ToolCall(ToolCall::new("report", "final_answer", json!({ "report": text }))),
        Content::ToolCall(ToolCall::new("plan", "final_answer", plan)),
    ]);
    let end = |end| EventKind::AgentEnd { end, messages: Vec::new(), usage: usage(), cost: None, turns: 1 };
    let delta = |delta| EventKind::MessageUpdate { index: 0, delta };
    let drawing = |part| EventKind::Drawing { call_id: id.clone(), plugin: text.into(), part, blocks: blocks(text) };
    let displayed = [Display::Code("rs".into()), Display::Markdown, Display::Diff, Display::Plain];
    let steps = StepStatus::ALL.map(|status| EventKind::PlanStep { step: 1, steps: 2, title: text.into(), status });
    let hook = |answer| {
        let hook =
            HookCall { point: HookPoint::BeforePrompt, plugin: text.into(), answer, text: text.into(), ledger: None };
        EventKind::Hook { call_id: Some(id.clone()), hook }
    };
    let mut events = vec![
        EventKind::PlanMade { title: text.into(), steps: 2 },
        agent_start(text),
        agent_below(text, Some("a")),
        end(done()),
        end(RunEnd::Rejected { reason: text.into() }),
        EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User },
        EventKind::TurnEnd {
            turn: 1,
            stop_reason: StopReason::Stop,
            reply: None,
            results: Vec::new(),
            usage: usage(),
            cost: None,
        },
        EventKind::MessageStart { role: Role::Assistant },
        delta(ContentDelta::Text { delta: text.into() }),
        delta(ContentDelta::Thinking { delta: text.into() }),
        delta(ContentDelta::ToolCallStart { call_id: id.clone(), tool: text.into() }),
        delta(ContentDelta::ToolCallArguments { delta: text.into() }),
        delta(ContentDelta::ToolCallStart { call_id: id.clone(), tool: text.into() }),
        delta(ContentDelta::ToolCallArguments { delta: json!({ "path": text }).to_string() }),
        end_of(reply),
        end_of(Message::user(text)),
        end_of(Message::labelled(text, text)),
        end_of(tool_result(&id, "bash", text)),
        EventKind::ToolExecutionStart { call_id: id.clone(), tool: text.into(), arguments: json!({ "path": text }) },
        EventKind::ToolExecutionUpdate { call_id: id.clone(), partial: content() },
        EventKind::Progress { call_id: id.clone(), text: text.into() },
        EventKind::PluginNotice { plugin: text.into(), severity: Severity::Info, text: text.into() },
        drawing(DrawnPart::Call),
        drawing(DrawnPart::Result),
        EventKind::ApprovalRequested { call_id: id.clone(), tool: text.into(), authority: Authority::ALL },
        EventKind::ApprovalResolved { call_id: id.clone(), allowed: false, unanswered: Some(text.into()) },
        hook(HookAnswer::Warned),
        hook(HookAnswer::Failed),
        hook(HookAnswer::Added),
        EventKind::Retry { attempt: 1, max_attempts: 2, delay_ms: 100, cause: text.into() },
        EventKind::Compaction {
            reason: CompactionReason::Asked,
            dropped: 2,
            summary: text.into(),
            failure: None,
            before: 2,
            after: 1,
            spend: Spend::default(),
        },
        EventKind::ParallelStart { group_id: text.into(), run_ids: vec!["a".into(), "b".into()] },
        EventKind::ParallelEnd {
            group_id: text.into(),
            chosen: Some("a".into()),
            note: Some(text.into()),
            usage: usage(),
        },
        EventKind::InputRejected { reason: text.into() },
    ];
    events.extend(displayed.map(|display| ended(&id, text, display, vec![text.into()])));
    events.extend(steps);
    events
}

fn blocks(text: &str) -> Vec<DrawingBlock> {
    let text = || text.to_owned();
    vec![
        DrawingBlock::Lines { lines: vec![vec![Span::new(text(), SpanStyle::Plain)]] },
        DrawingBlock::Table { header: vec![text()], rows: vec![vec![text(); 2]] },
        DrawingBlock::Diff { text: text() },
        DrawingBlock::Markdown { text: text() },
        DrawingBlock::Bar { label: text(), done: 1, total: None },
    ]
}

/// Returns each input, with this text wherever it has any. The parts of highlighted code come from [`Ui::buffer`], and events
/// from [`events`].
pub(crate) fn inputs(text: &str) -> Vec<Input> {
    use Pick::{AllSessions, History, Model, Palette, Plan, Provider, Queue, Session, Settings, Theme as Themes};
    let own = || text.to_owned();
    let choice = || PickChoice { value: own(), label: own(), detail: own() };
    let dialog = |kind| Input::Dialog(7, Dialog { plugin: own(), question: own(), kind });
    let asker = Ui::new(80, 24);
    let arguments =
        json!({ text: text, "path": text, "content": text, "edits": [{ "old_text": text, "new_text": "" }] });
    let plain = asker.question(text, arguments.clone());
    let mut full = plain.clone();
    [full.label, full.plugin, full.can] = [(); 3].map(|()| own());
    (full.change, full.reason, full.rule) = (Some(own()), Some(own()), Some(own()));
    let facts = Facts {
        model: own(),
        approval: own(),
        thinking: Some(own()),
        directory: own(),
        session: own(),
        network: Some(own()),
        branch: Some(own()),
        ..Facts::default()
    };
    let call = ToolCall::new("own", text, arguments.clone());
    let start = EventKind::ToolExecutionStart { call_id: "own".into(), tool: own(), arguments };
    let mut inputs = vec![
        Input::Terminal(TerminalEvent::Paste(own())),
        Input::Event(of_past(Message::user(text))),
        Input::Session(vec![of_past(Message::labelled(text, text))]),
        Input::Note(Tone::Plain, own()),
        Input::Note(Tone::Warning, own()),
        Input::Note(Tone::Error, own()),
        Input::Page(own()),
        Input::OwnCall(call),
        Input::OwnEvent(start),
        Input::OwnEvent(ended("own", text, Display::Plain, Vec::new())),
        Input::Facts(facts),
        Input::Question(plain),
        Input::Question(full),
        dialog(DialogKind::Confirm),
        dialog(DialogKind::Select(vec![own(); 3])),
        dialog(DialogKind::Input(own())),
        Input::Segment { plugin: own(), text: Some(own()) },
        Input::Withdrawn(7),
        Input::Plan { file: own(), text: own() },
        Input::OpenedPlan { file: own(), text: own() },
        Input::PlanUnsaved(own()),
        Input::Paste(own()),
        Input::SideAnswer(own()),
        Input::Insert(own()),
        Input::Offer(own()),
        Input::Returned(vec![own(); 2]),
        Input::Finished,
        Input::Commands(vec![SlashCommand { name: own(), hint: own(), description: own(), ..SlashCommand::default() }]),
        Input::Completions(1, vec![choice()]),
        Input::Files { paths: vec![own()].into(), is_cut: true },
        Input::Relisted(Session, vec![choice(); 2]),
        Input::Remark(own()),
        Input::Preview { id: own(), text: own() },
        Input::Edited(Ok(own())),
        Input::Edited(Err(own())),
        Input::History(vec![own()]),
        Input::Theme(Theme::colours()),
        Input::Tick,
    ];
    let lists = [Model, Session, AllSessions, Palette, History, Plan, Themes, Provider, Queue, Settings];
    inputs.extend(lists.map(|list| Input::Choices(list, vec![choice(); 3])));
    inputs
}

#[test]
fn hostile_text_reaches_every_input_and_every_event() {
    let covered: BTreeSet<&str> = inputs("text").iter().map(name_of).chain(["Highlighted"]).collect();
    assert_eq!(covered, INPUTS.iter().copied().collect());
    // The error for an unknown type names all others.
    let error = serde_json::from_value::<EventKind>(json!({ "type": "none" })).unwrap_err().to_string();
    let known: BTreeSet<String> = error.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    let type_of = |event: &EventKind| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
    assert_eq!(events("text").iter().map(type_of).collect::<BTreeSet<_>>(), known);
    assert!(known.contains("agent_start"), "{error}");
}
