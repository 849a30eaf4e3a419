use super::*;
use crate::models::ModelTable;
use jiff::Timestamp;
use pinion_protocol::{Authority, Execution, RequestOptions, StopReason, ToolChoice, Usage};
use serde_json::json;

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "m".to_owned(),
        system: "".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![Arc::new(ToolDefinition {
            name: "functions_read".to_owned(),
            label: String::new(),
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            guidelines: Vec::new(),
            authority: Authority::READ_ONLY,
            execution: Execution::Parallel,
            source: Default::default(),
        })],
        tool_choice: ToolChoice::Auto,
        options: RequestOptions::default(),
    }
}

fn reply(content: Vec<Content>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        stop_reason: StopReason::Stop,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: Timestamp::UNIX_EPOCH,
    })
}

fn call(id: &str, name: &str) -> Content {
    Content::ToolCall(ToolCall::new(id, name, json!({})))
}

fn result(id: &str, text: &str) -> Message {
    let result = ToolResultMessage::error(&ToolCall::new(id, "read", json!({})), text);
    Message::ToolResult(result)
}

/// Formats one line per message.
fn repaired(messages: Vec<Message>) -> Vec<String> {
    let request = request(messages);
    let model = ModelTable::builtin().find("p", "m");
    let line = |message: &Arc<Message>| match &**message {
        Message::User(user) => format!("user {}", pinion_protocol::content::text_of(&user.content)),
        Message::Assistant(reply) => {
            let calls: Vec<String> = reply.tool_calls().map(|call| format!(" {}={}", call.id, call.name)).collect();
            format!("reply {}{}", reply.text(), calls.concat())
        }
        Message::ToolResult(result) => {
            format!(
                "result {}={} {}",
                result.call_id,
                result.tool_name,
                pinion_protocol::content::text_of(&result.content)
            )
        }
        Message::Extension(_) => "extension".to_owned(),
    };
    acceptable(&request, &model, "p", IdRule::AtMost(40)).messages.iter().map(line).collect()
}

#[test]
fn sound_conversation_is_passed_on_as_it_is() {
    let messages =
        vec![Message::user("a"), reply(vec![call("c0", "read")]), result("c0", "r"), reply(vec![Content::text("b")])];
    let request = request([messages, vec![Message::user("c")]].concat());
    let model = ModelTable::builtin().find("p", "m");
    let out = acceptable(&request, &model, "p", IdRule::AtMost(40));
    let is_same = |(a, b): (&Arc<Message>, &Arc<Message>)| a == b;
    assert_eq!(out.messages.len(), request.messages.len());
    // The name of the result follows the call's.
    assert!(out.messages.iter().zip(&request.messages).all(is_same));
}

#[test]
fn repeated_ids_are_told_apart_with_their_results() {
    let turn = |text: &str| [Message::user(text), reply(vec![call("c0", "read")]), result("c0", text)];
    let both = reply(vec![call("c0", "read"), call("c0", "write")]);
    let last = [both, result("c0", "first"), result("c0", "second")];
    let lines = repaired([turn("a").to_vec(), turn("b").to_vec(), last.to_vec()].concat());
    let expected = [
        "user a",
        "reply  c0=read",
        "result c0=read a",
        "user b",
        "reply  c0_2=read",
        "result c0_2=read b",
        "reply  c0_3=read c0_4=write",
        "result c0_3=read first",
        "result c0_4=write second",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn calls_and_results_pair() {
    let lines = repaired(vec![
        result("lost", "old"),
        reply(vec![call("a", "read"), call("b", "read")]),
        Message::user("meanwhile"),
        result("b", "of b"),
        result("b", "again"),
        reply(vec![Content::text("done")]),
    ]);
    let expected = [
        format!("user {LOST_CALL}old"),
        "reply  a=read b=read".to_owned(),
        "result b=read of b".to_owned(),
        format!("result a=read {NO_RESULT}"),
        "user meanwhile".to_owned(),
        format!("user {LOST_CALL}again"),
        "reply done".to_owned(),
        format!("user {CONTINUE}"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn empty_messages_are_dropped_and_the_user_speaks_first_and_last() {
    assert_eq!(repaired(vec![]), [format!("user {OPENING}")]);
    assert_eq!(repaired(vec![Message::user(" \n"), reply(vec![])]), [format!("user {OPENING}")]);
    let two = [reply(vec![Content::text("a")]), reply(vec![Content::text("b\0")])];
    let expected = [
        format!("user {OPENING}"),
        "reply a".to_owned(),
        format!("user {CONTINUE}"),
        "reply b\u{fffd}".to_owned(),
        format!("user {CONTINUE}"),
    ];
    assert_eq!(repaired(two.to_vec()), expected);
}

#[test]
fn invented_names_become_acceptable_and_hit_no_tool() {
    let tools = request(Vec::new()).tools;
    let names = ToolNames::from_tools(&tools);
    let expected = [
        ("read", "read"),
        ("functions_read", "functions_read"),
        ("$READFILE", "_READFILE"),
        ("read<|channel|>commentary", "read_channel_commentary"),
        ("read file", "read_file"),
        ("2nd", "_2nd"),
        ("-x", "_-x"),
        ("", "unnamed"),
        ("…", "unnamed"),
        ("größe", "gr_e"),
    ];
    for (name, wanted) in expected {
        assert_eq!(names.get(name), wanted);
    }
    let odd = ["functions.read", &"x".repeat(80), &"é".repeat(400), &format!("{}.{}", "9".repeat(64), "y")];
    for name in odd {
        let got = names.get(name);
        assert!(is_name(&got) && !names.offered.contains(&*got) && got == names.get(name), "{got}");
    }
    assert_ne!(names.get(&"x".repeat(80)), names.get(&"x".repeat(81)));
}

#[test]
fn images_have_the_type_of_their_bytes() {
    let image = |media_type: &str, data: &[u8]| {
        Content::Image(Image { media_type: media_type.to_owned(), data: data.to_vec() })
    };
    let jpeg = [0xff, 0xd8, 0xff, 0xe0];
    assert_eq!(repaired_part(&image("image/png", &jpeg)), Some(image("image/jpeg", &jpeg)));
    assert_eq!(repaired_part(&image("image/jpeg", &jpeg)), None);
    assert_eq!(repaired_part(&image("image/png", b"")), Some(Content::text(EMPTY_IMAGE)));
}
