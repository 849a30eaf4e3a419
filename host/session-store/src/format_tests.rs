use super::*;
use crate::header::{FirstLine, SessionHeader, SessionOrigin, Spawn, first_line, is_beginning_of_header};
use crate::record::{
    CallLedger, CalledHook, Compacted, GroupChoice, GroupEnd, GroupStart, PlanMade, PlanStep, Rejected, Retry,
    RunEnded, RunStarted, Spawned,
};
use crate::testing::{assistant, time, user};
use pinion_protocol::{
    Continuation, Cost, Display, ExtensionMessage, HookAnswer, HookCall, HookPoint, Image, Ledger, Limit, RunEnd,
    Spend, StepStatus, StopReason, Thinking, ToolCall, ToolResultMessage, TurnTrigger, Usage, UserMessage,
};
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

fn id(text: &str) -> EntryId {
    text.parse().unwrap()
}

fn link(name: &str, parent: Option<&str>) -> Link<'static> {
    Link { id: id(name), parent: parent.map(id), time: time(), side: None }
}

fn encoded(message: &Message) -> String {
    let line = encode_message(link("b", Some("a")), message).unwrap();
    String::from_utf8(line).unwrap()
}

fn decoded(line: &str) -> Message {
    match decode_entry(line.as_bytes(), EntryKind::Message).unwrap().payload {
        Payload::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

fn head(line: &[u8], ended: bool) -> Result<EntryHead<'_>, String> {
    EntryHead::read(&FileLine { number: 2, offset: 0, length: line.len() as u64, bytes: line, ended, too_long: false })
}

/// One message of every kind, with every field that a message can have.
fn one_of_each() -> [Message; 4] {
    let signed = ToolCall { signature: Some("sig".into()), ..ToolCall::new("c1", "read", json!({ "path": "a" })) };
    let partial = ToolCall { partial: Some("{\"pa".into()), ..ToolCall::new("c2", "read", Value::Null) };
    let Message::Assistant(reply) = assistant(vec![
        Content::Thinking(Thinking { text: "hm".into(), signature: Some("sig".into()), redacted: true }),
        Content::text("I read it."),
        Content::ToolCall(signed),
        Content::ToolCall(partial),
    ]) else {
        panic!()
    };
    [
        Message::User(UserMessage {
            content: vec![
                Content::text("look:\n\"\u{1b}\""),
                Content::Image(Image { media_type: "image/png".into(), data: vec![0, 255] }),
            ],
            label: Some("a label".into()),
            timestamp: time(),
        }),
        Message::Assistant(AssistantMessage {
            stop_reason: StopReason::Length,
            usage: Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 },
            cost: Some(Cost { input: 0.1, output: 0.2, cache_read: 0.0, cache_write: 1e-7 }),
            error: Some("cut".into()),
            ..reply
        }),
        Message::ToolResult(ToolResultMessage {
            call_id: "c1".into(),
            tool_name: "read".into(),
            content: vec![Content::text("text")],
            details: Some(json!({ "lines": 1 })),
            is_error: true,
            child_run_id: Some("s.c.1".into()),
            timestamp: time(),
        }),
        Message::Extension(ExtensionMessage { kind: "note".into(), data: json!([1, null]), timestamp: time() }),
    ]
}

/// If this fails, existing sessions cannot be read any more, or older programs cannot read new ones: the format needs a
/// new version, and a reader for the old one.
#[test]
fn format_on_disk_is_unchanged() {
    let messages = one_of_each();
    let expected = [
        r#"{"role":"user","content":[{"type":"text","text":"look:\n\"\u001b\""},{"type":"image","media_type":"image/png","data":"AP8="}],"label":"a label","timestamp":"2026-01-02T03:04:05.678Z"}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","text":"hm","signature":"sig","redacted":true},{"type":"text","text":"I read it."},{"type":"tool_call","id":"c1","name":"read","arguments":{"path":"a"},"signature":"sig"},{"type":"tool_call","id":"c2","name":"read","arguments":null,"partial":"{\"pa"}],"stop_reason":"length","provider":"replay","model":"scripted","usage":{"input":1,"output":2,"cache_read":3,"cache_write":4},"cost":{"input":0.1,"output":0.2,"cache_read":0.0,"cache_write":1e-7},"error":"cut","timestamp":"2026-01-02T03:04:05.678Z"}"#,
        r#"{"role":"tool_result","call_id":"c1","tool_name":"read","content":[{"type":"text","text":"text"}],"details":{"lines":1},"is_error":true,"child_run_id":"s.c.1","timestamp":"2026-01-02T03:04:05.678Z"}"#,
        r#"{"role":"extension","kind":"note","data":[1,null],"timestamp":"2026-01-02T03:04:05.678Z"}"#,
    ];
    for (message, data) in messages.iter().zip(expected) {
        let envelope = r#"{"id":"b","parent":"a","time":"2026-01-02T03:04:05.678Z","type":"message","data":"#;
        assert_eq!(encoded(message), format!("{envelope}{data}}}\n"));
        assert_eq!(decoded(&encoded(message)), *message);
    }
    let header = SessionHeader { created: time(), ..SessionHeader::named("x".into(), Path::new("/w")) };
    assert_eq!(
        String::from_utf8(header.encode().unwrap()).unwrap(),
        "{\"type\":\"session\",\"version\":1,\"id\":\"x\",\"workspace\":\"/w\",\"created\":\"2026-01-02T03:04:05.678Z\"}\n"
    );
    assert!(is_beginning_of_header(&header.encode().unwrap()));
}

/// The same, for records.
#[test]
fn format_of_records_on_disk_is_unchanged() {
    let run_id = || "s.c.1".to_owned();
    let usage = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 };
    let records = [
        (
            Record::RunStarted(RunStarted {
                run_id: run_id(),
                agent_id: Some("a".into()),
                parent_run_id: Some("s.c.0".into()),
                continuation: Some(Continuation::Rerun { tag: "t".into() }),
                trigger: TurnTrigger::Continuation,
                provider: Some("p".into()),
                model: Some("m".into()),
                directory: Default::default(),
            }),
            r#"run_start","data":{"run_id":"s.c.1","agent_id":"a","parent_run_id":"s.c.0","continuation":{"kind":"rerun","tag":"t"},"trigger":"continuation","provider":"p","model":"m"}"#,
        ),
        (
            Record::RunEnded(RunEnded {
                run_id: run_id(),
                end: RunEnd::Limit { limit: Limit::Turns(3) },
                usage,
                cost: Some(Cost { input: 0.1, ..Cost::default() }),
                turns: 3,
                messages: 7,
            }),
            r#"run_end","data":{"run_id":"s.c.1","end":{"how":"limit","limit":{"kind":"turns","limit":3}},"usage":{"input":1,"output":2,"cache_read":3,"cache_write":4},"cost":{"input":0.1,"output":0.0,"cache_read":0.0,"cache_write":0.0},"turns":3,"messages":7}"#,
        ),
        (
            Record::Retry(Retry { run_id: run_id(), attempt: 1, max_attempts: 3, delay_ms: 9, cause: "c".into() }),
            r#"retry","data":{"run_id":"s.c.1","attempt":1,"max_attempts":3,"delay_ms":9,"cause":"c"}"#,
        ),
        (
            Record::Compacted(Compacted {
                run_id: run_id(),
                dropped: 4,
                before: 9,
                after: 5,
                asked: Some(Spend { usage, cost: None }),
            }),
            r#"compacted","data":{"run_id":"s.c.1","dropped":4,"before":9,"after":5,"asked":{"usage":{"input":1,"output":2,"cache_read":3,"cache_write":4},"cost":null}}"#,
        ),
        (
            Record::Rejected(Rejected { run_id: run_id(), reason: "r".into() }),
            r#"rejected","data":{"run_id":"s.c.1","reason":"r"}"#,
        ),
        (
            Record::PlanMade(PlanMade { run_id: run_id(), title: "t".into(), steps: 2 }),
            r#"plan_made","data":{"run_id":"s.c.1","title":"t","steps":2}"#,
        ),
        (
            Record::PlanStep(PlanStep {
                run_id: run_id(),
                step: 1,
                steps: 2,
                title: "t".into(),
                status: StepStatus::Done,
            }),
            r#"plan_step","data":{"run_id":"s.c.1","step":1,"steps":2,"title":"t","status":"done"}"#,
        ),
        (
            Record::Spawned(Spawned {
                run_id: run_id(),
                child_run_id: "k.c.1".into(),
                call_id: "c1".into(),
                tool: "task".into(),
            }),
            r#"spawned","data":{"run_id":"s.c.1","child_run_id":"k.c.1","call_id":"c1","tool":"task"}"#,
        ),
        (
            Record::CallLedger(CallLedger {
                run_id: run_id(),
                call_id: "c1".into(),
                tool: "read".into(),
                ledger: Ledger { plugin: "fs".into(), generation: 2, fuel: 3, time_us: 4, ..Ledger::default() },
                display: Display::Code("rust".into()),
            }),
            r#"ledger","data":{"run_id":"s.c.1","call_id":"c1","tool":"read","ledger":{"plugin":"fs","generation":2,"fuel":3,"time_us":4,"memory":0,"host_calls":0,"bytes_read":0,"bytes_written":0,"files":0,"processes":0,"agents":0,"output":0},"display":{"kind":"code","language":"rust"}}"#,
        ),
        (
            Record::CalledHook(CalledHook {
                run_id: run_id(),
                call_id: Some("c1".into()),
                hook: HookCall {
                    point: HookPoint::BeforeToolCall,
                    plugin: "careful".into(),
                    answer: HookAnswer::Denied,
                    text: "no".into(),
                    ledger: None,
                },
            }),
            r#"hook","data":{"run_id":"s.c.1","call_id":"c1","point":"before-tool-call","plugin":"careful","answer":"denied","text":"no"}"#,
        ),
        (
            Record::GroupStart(GroupStart { group_id: "g".into(), run_ids: vec![run_id()] }),
            r#"group_start","data":{"group_id":"g","run_ids":["s.c.1"]}"#,
        ),
        (
            Record::GroupChoice(GroupChoice {
                group_id: "g".into(),
                runs: [("judge".to_owned(), 1)].into_iter().collect(),
            }),
            r#"group_choice","data":{"group_id":"g","runs":{"judge":1}}"#,
        ),
        (
            Record::GroupEnd(GroupEnd { group_id: "g".into(), chosen: Some(run_id()), usage, ..GroupEnd::default() }),
            r#"group_end","data":{"group_id":"g","chosen":"s.c.1","usage":{"input":1,"output":2,"cache_read":3,"cache_write":4}}"#,
        ),
    ];
    for (record, rest) in records {
        let line = String::from_utf8(encode_record(link("b", None), &record).unwrap()).unwrap();
        assert_eq!(
            line,
            format!("{{\"id\":\"b\",\"parent\":null,\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"{rest}}}\n")
        );
        let kind = head(line.as_bytes(), true).unwrap().kind();
        assert!(kind.is_record());
        assert_eq!(decode_entry(line.as_bytes(), kind).unwrap().payload, Payload::Record(record));
    }
}

#[test]
fn ledger_without_a_display_is_drawn_plainly() {
    let ledger = r#"{"run_id":"l","call_id":"c","tool":"read","ledger":{"plugin":"fs","generation":2,"fuel":3,"time_us":4,"memory":0,"host_calls":0,"bytes_read":0,"bytes_written":0,"files":0,"processes":0,"agents":0,"output":0}}"#;
    let Record::CallLedger(ledger) = RecordKind::CallLedger.decode(ledger).unwrap() else { panic!() };
    assert_eq!(ledger.display, Display::Plain);
}

#[test]
fn format_of_positions_and_side_entries_is_unchanged() {
    let line = encode_position(link("b", Some("a")), Some(id("9"))).unwrap();
    let text = r#"{"id":"b","parent":"a","time":"2026-01-02T03:04:05.678Z","type":"position","data":{"left":"9"}}"#;
    assert_eq!(String::from_utf8(line.clone()).unwrap(), format!("{text}\n"));
    assert_eq!(decode_entry(&line, EntryKind::Position).unwrap().payload, Payload::Position { left: Some(id("9")) });

    let aside = Link { side: Some("s.c.1"), ..link("b", Some("a")) };
    let compacted = Compacted { run_id: "s.c.1".into(), dropped: 4, before: 0, after: 0, asked: None };
    let line = encode_record(aside, &Record::Compacted(compacted)).unwrap();
    let text = r#"{"id":"b","parent":"a","time":"2026-01-02T03:04:05.678Z","side":"s.c.1","type":"compacted","data":{"run_id":"s.c.1","dropped":4,"before":0,"after":0}}"#;
    assert_eq!(String::from_utf8(line.clone()).unwrap(), format!("{text}\n"));
    assert_eq!(decode_entry(&line, EntryKind::Record(RecordKind::Compacted)).unwrap().side.as_deref(), Some("s.c.1"));
    let moved = String::from_utf8(encode_moved(&line, Some(id("7"))).unwrap()).unwrap();
    assert_eq!(
        moved,
        format!("{text}\n").replace(r#""side":"s.c.1","#, "").replace(r#""parent":"a""#, r#""parent":"7""#)
    );
}

#[test]
fn format_of_header_links_is_unchanged() {
    let header = SessionHeader {
        created: time(),
        agent_id: Some("a".into()),
        forked_from: Some(SessionOrigin { session: "y".into(), entry: id("7") }),
        spawned_by: Some(Spawn {
            session: "z".into(),
            entry: Some(id("8")),
            call_id: "c1".into(),
            tool: "task".into(),
            run_id: Some("z.c.1".into()),
        }),
        ..SessionHeader::named("x".into(), Path::new("/w"))
    };
    let line = String::from_utf8(header.encode().unwrap()).unwrap();
    let links = r#","agent_id":"a","forked_from":{"session":"y","entry":"7"},"spawned_by":{"session":"z","entry":"8","call_id":"c1","tool":"task","run_id":"z.c.1"}}"#;
    assert!(line.ends_with(&format!("{links}\n")), "{line}");
    assert!(matches!(first_line(line.as_bytes()), FirstLine::Header(read) if *read == header));
}

#[test]
fn header_may_have_unknown_fields() {
    let line = br#"{"colour":{"name":"y"},"type":"session","version":1,"id":"x","workspace":"/w","created":"2026-01-02T03:04:05Z"}"#;
    assert!(matches!(first_line(line), FirstLine::Header(header) if header.id == "x"));
}

#[test]
fn header_of_another_version_is_recognized() {
    assert!(matches!(first_line(br#"{"type":"session","version":2,"anything":[]}"#), FirstLine::Foreign(2)));
    for line in ["", "{}", "hello", r#"{"type":"message","version":1}"#, r#"{"type":"session","version":1}"#] {
        assert!(matches!(first_line(line.as_bytes()), FirstLine::Other), "{line}");
    }
}

#[test]
fn head_is_readable_when_data_is_broken() {
    let line = br#"{"id":"2","parent":"1","time":"?","type":"message","data":{"role":"#;
    let head = head(line, true).unwrap();
    assert_eq!((head.id, head.parent, head.kind()), (id("2"), Some(id("1")), EntryKind::Message));
    assert!(decode_entry(line, EntryKind::Message).is_err());
}

#[test]
fn cut_off_line_has_no_head() {
    let line = encoded(&user("hello"));
    let whole = line.trim_end().as_bytes();
    for end in 0..whole.len() {
        assert!(head(&whole[..end], false).is_err(), "{end}");
    }
    assert!(head(whole, false).is_ok());
}

#[test]
fn order_of_fields_does_not_matter() {
    let line = br#"{"data":{"x":",\"data\":"},"type":"label","time":"2026-01-02T03:04:05Z","id":"2"}"#;
    let head = head(line, true).unwrap();
    assert_eq!((head.id, head.parent, head.kind()), (id("2"), None, EntryKind::Unknown));
    let entry = decode_entry(line, EntryKind::Unknown).unwrap();
    assert_eq!(entry.payload, Payload::Unknown { kind: "label".into() });
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

fn call_with(arguments: Value) -> Message {
    assistant(vec![Content::ToolCall(ToolCall::new("c", "t", arguments))])
}

#[test]
fn arguments_at_the_nesting_limit_are_kept() {
    // The deepest value that serde_json reads by default, as it does for arguments from a model.
    let deepest: Value = serde_json::from_str(&nested(127).to_string()).unwrap();
    let message = call_with(deepest);
    assert_eq!(decoded(&encoded(&message)), message);
    let message = call_with(nested(MAX_VALUE_NESTING));
    assert_eq!(decoded(&encoded(&message)), message);
}

#[test]
fn value_nested_too_deep_is_not_written() {
    let message = call_with(nested(MAX_VALUE_NESTING + 1));
    let error = encode_message(link("1", None), &message).unwrap_err();
    assert_eq!(error.to_string(), "a value in the message nests deeper than 128 levels");
}

#[test]
fn endlessly_nested_line_is_an_error() {
    let line = format!(r#"{{"id":"1","type":"message","data":{}"#, "[".repeat(1_000_000));
    assert!(decode_entry(line.as_bytes(), EntryKind::Message).is_err());
}

#[test]
fn message_with_nan_cost_is_readable() {
    let Message::Assistant(reply) = assistant(vec![Content::text("hi")]) else { panic!() };
    let costly = AssistantMessage { cost: Some(Cost { input: f64::NAN, ..Cost::default() }), ..reply.clone() };
    assert_eq!(decoded(&encoded(&Message::Assistant(costly))), Message::Assistant(reply));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    (any::<String>(), any::<String>(), any_value(), any::<Option<String>>(), any::<Option<String>>())
        .prop_map(|(id, name, arguments, partial, signature)| ToolCall { id, name, arguments, partial, signature })
}

fn any_content() -> impl Strategy<Value = Vec<Content>> {
    let part = prop_oneof![
        any::<String>().prop_map(Content::text),
        (any::<String>(), any::<Vec<u8>>()).prop_map(|(media_type, data)| Content::Image(Image { media_type, data })),
        (any::<String>(), any::<Option<String>>(), any::<bool>())
            .prop_map(|(text, signature, redacted)| Content::Thinking(Thinking { text, signature, redacted })),
        any_call().prop_map(Content::ToolCall),
    ];
    prop::collection::vec(part, 0..4)
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    (-62_000_000_000_i64..250_000_000_000, 0..1_000_000_000_i32)
        .prop_map(|(seconds, nanoseconds)| Timestamp::new(seconds, nanoseconds.max(0)).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn any_stop_reason() -> impl Strategy<Value = StopReason> {
    use StopReason::{Aborted, Error, Length, Stop, ToolUse};
    prop::sample::select(vec![Stop, Length, ToolUse, Error, Aborted])
}

fn any_cost() -> impl Strategy<Value = Option<Cost>> {
    let price = || 0.0..1e9_f64;
    let cost = (price(), price(), price(), price());
    prop::option::of(cost.prop_map(|(input, output, cache_read, cache_write)| Cost {
        input,
        output,
        cache_read,
        cache_write,
    }))
}

fn any_reply() -> impl Strategy<Value = AssistantMessage> {
    let usage = any::<(u64, u64, u64, u64)>().prop_map(|(input, output, cache_read, cache_write)| Usage {
        input,
        output,
        cache_read,
        cache_write,
    });
    let names = any::<(String, String, Option<String>, Option<String>)>();
    (any_content(), any_stop_reason(), names, usage, any_cost(), any_time()).prop_map(
        |(content, stop_reason, (provider, model, requested_model, error), usage, cost, timestamp)| AssistantMessage {
            content,
            stop_reason,
            provider,
            model,
            requested_model,
            usage,
            cost,
            error,
            timestamp,
        },
    )
}

fn any_tool_result() -> impl Strategy<Value = ToolResultMessage> {
    let names = any::<(String, String, Option<String>, bool)>();
    // serde reads `null` as an absent detail.
    let details = prop::option::of(any_value().prop_filter("null reads as absent", |value| !value.is_null()));
    (names, any_content(), details, any_time()).prop_map(
        |((call_id, tool_name, child_run_id, is_error), content, details, timestamp)| ToolResultMessage {
            call_id,
            tool_name,
            content,
            details,
            is_error,
            child_run_id,
            timestamp,
        },
    )
}

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any_content(), any_time()).prop_map(|(content, timestamp)| Message::User(UserMessage {
            content,
            label: None,
            timestamp
        })),
        any_reply().prop_map(Message::Assistant),
        any_tool_result().prop_map(Message::ToolResult),
        (any::<String>(), any_value(), any_time())
            .prop_map(|(kind, data, timestamp)| Message::Extension(ExtensionMessage { kind, data, timestamp })),
    ]
}

proptest! {
    #[test]
    fn every_message_round_trips(message in any_message()) {
        let line = encoded(&message);
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(decoded(&line), message);
        let head = head(line.as_bytes(), true).unwrap();
        prop_assert_eq!((head.id, head.parent, head.kind()), (id("b"), Some(id("a")), EntryKind::Message));
    }

    #[test]
    fn no_line_makes_the_reader_panic(line: Vec<u8>, ended: bool) {
        let _ = head(&line, ended);
        let _ = first_line(&line);
        let _ = decode_entry(&line, EntryKind::Message);
    }
}
