//! Messages of servers: bounded, repaired and parsed, for any transport.

use std::borrow::Cow;

use rmcp::model::{CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::scan::prepare;
use crate::error::quoted;
use crate::limits::MAX_VALUES;

/// Reason that a text is not used.
#[derive(Debug, PartialEq)]
pub(super) enum Unreadable {
    /// Some other output.
    Stray,
    /// A message that breaks the protocol.
    Broken(String),
}

/// The members of a message that show its kind.
#[derive(Deserialize)]
struct Frame<'a> {
    id: Option<RequestId>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Parses a message. A reply that has the wrong form becomes an error for its request.
pub(super) fn parse(text: &[u8]) -> Result<ServerJsonRpcMessage, Unreadable> {
    if text.first() != Some(&b'{') {
        return Err(Unreadable::Stray);
    }
    let Ok(text) = prepare(text) else {
        let id = serde_json::from_slice::<Frame<'_>>(text).ok().and_then(|frame| frame.id);
        return Ok(wrong(id, format!("the message has more than {MAX_VALUES} values")));
    };
    let frame = serde_json::from_slice::<Frame<'_>>(&text).ok();
    let error = match &frame {
        // Parsing the result alone takes less memory than parsing the message, which is buffered twice.
        Some(Frame { id: Some(id), method: None, result: Some(result), error: None }) => {
            match serde_json::from_str(result.get()) {
                Ok(result) => return Ok(JsonRpcMessage::response(completed(result), id.clone())),
                Err(error) => error,
            }
        }
        _ => match serde_json::from_slice(&text) {
            Ok(message) => return Ok(message),
            Err(error) => error,
        },
    };
    if error.to_string().starts_with("recursion limit exceeded") {
        return Err(Unreadable::Broken("sent a message that is nested too deeply".to_owned()));
    }
    match frame {
        Some(Frame { id, method: None, error: Some(error), .. }) => Ok(JsonRpcMessage::error(failure(error), id)),
        Some(Frame { id: Some(id), method: None, .. }) => {
            Ok(wrong(Some(id), format!("the reply has the wrong form: {}", quoted(&error.to_string()))))
        }
        _ => Err(Unreadable::Stray),
    }
}

/// Returns the data of an event for a parser that drops messages that it cannot read, so that no request waits forever.
pub(super) fn event(data: String) -> String {
    let text = data.trim_start().as_bytes();
    if let Ok(Cow::Borrowed(_)) = prepare(text)
        && !data.contains("\"protocolVersion\"")
    {
        return data;
    }
    let readable = parse(text).ok().and_then(|message| serde_json::to_string(&message).ok());
    readable.unwrap_or(data)
}

fn wrong(id: Option<RequestId>, problem: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::INVALID_REQUEST, problem, None), id)
}

/// Reads an error in another form than JSON-RPC's, such as a text.
fn failure(error: &RawValue) -> ErrorData {
    let value: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let code = match value.get("code") {
        Some(Value::String(code)) => code.parse().ok(),
        code => code.and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()),
    };
    let text = value.as_str().or_else(|| value.get("message").and_then(Value::as_str));
    let text = text.map_or_else(|| error.get().to_owned(), str::to_owned);
    ErrorData::new(ErrorCode(code.unwrap_or(ErrorCode::INTERNAL_ERROR.0)), text, None)
}

/// Adds the members that some servers leave out of their first answer.
fn completed(result: ServerResult) -> ServerResult {
    let ServerResult::CustomResult(CustomResult(mut value)) = result else { return result };
    if let Some(members) = value.as_object_mut().filter(|members| members.contains_key("protocolVersion")) {
        if !members.get("capabilities").is_some_and(Value::is_object) {
            // Nothing is said about tools, so that the list of them is worth a request.
            members.insert("capabilities".to_owned(), json!({ "tools": {} }));
        }
        let software = members.remove("serverInfo").unwrap_or_default();
        let text = |name: &str| software.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        members.insert("serverInfo".to_owned(), json!({ "name": text("name"), "version": text("version") }));
        if !members.get("instructions").is_some_and(Value::is_string) {
            members.remove("instructions");
        }
        if let Ok(initialized) = serde_json::from_value(value.clone()) {
            return ServerResult::InitializeResult(initialized);
        }
    }
    ServerResult::CustomResult(CustomResult(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Value {
        serde_json::to_value(parse(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn replies_of_the_wrong_form_become_errors_of_their_request() {
        let error = message(r#"{"jsonrpc":"2.0","id":7,"reply":1}"#);
        assert_eq!(error["id"], 7);
        assert!(error["error"]["message"].as_str().unwrap().contains("wrong form"));
        let text = message(r#"{"jsonrpc":"2.0","id":7,"error":"no such tool"}"#);
        assert_eq!(text["error"], json!({ "code": -32603, "message": "no such tool" }));
        let code = message(r#"{"jsonrpc":"2.0","id":"a","error":{"code":"-32601","message":"no"}}"#);
        assert_eq!((&code["id"], &code["error"]["code"]), (&json!("a"), &json!(-32601)));
    }

    #[test]
    fn log_lines_are_stray_and_deep_messages_break_the_protocol() {
        for stray in ["Server listening", "{not json}", "[1,2]", "{}", ""] {
            assert_eq!(parse(stray.as_bytes()).unwrap_err(), Unreadable::Stray, "{stray}");
        }
        let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        assert!(matches!(parse(deep.as_bytes()), Err(Unreadable::Broken(_))));
    }

    #[test]
    fn half_a_surrogate_pair_does_not_lose_the_result() {
        let text = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"cut \ud83d"}]}}"#;
        assert_eq!(message(text)["result"]["content"][0]["text"], "cut \u{fffd}");
        assert_eq!(serde_json::from_str::<Value>(&event(text.to_owned())).unwrap()["id"], 1);
    }

    #[test]
    fn message_with_too_many_values_becomes_an_error_of_its_request() {
        let rows = vec!["[]"; MAX_VALUES].join(",");
        let text = format!(r#"{{"jsonrpc":"2.0","result":{{"structuredContent":[{rows}]}},"id":"x"}}"#);
        let error = message(&text);
        assert_eq!(error["id"], "x");
        assert!(error["error"]["message"].as_str().unwrap().contains("values"));
        let seen: Value = serde_json::from_str(&event(text)).unwrap();
        assert_eq!(seen, error);
    }

    #[test]
    fn first_answer_needs_only_a_version() {
        for rest in ["", r#","capabilities":null,"serverInfo":"x""#, r#","serverInfo":{"name":"x"},"instructions":7"#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-06-18"{rest}}}}}"#);
            let Ok(JsonRpcMessage::Response(response)) = parse(text.as_bytes()) else { panic!("{text}") };
            assert!(matches!(response.result, ServerResult::InitializeResult(_)), "{text}");
        }
    }
}
