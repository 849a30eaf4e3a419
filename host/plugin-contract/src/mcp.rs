//! Bounds on the data that servers and guests send through the import `mcp`.

use crate::bindings::pinion::plugin::mcp::{
    self as wit, Failure, McpError, ServerError, ServerPrompt, ServerState, ServerTool,
};
use crate::convert::clip;
use pinion_protocol::mcp::{McpFailure, McpRequest, McpServer, McpState, McpTask};
use serde::Deserialize;
use serde_json::{Value, json};

/// Bytes of a result, which the contract names.
pub const MAX_RESULT: u32 = 4 << 20;
/// Bytes of the arguments of a request.
const MAX_ARGUMENTS: usize = 4 << 20;
/// Nesting of the arguments of a request; parsers of servers may be recursive.
const MAX_NESTING: usize = 128;
/// Bytes of a name, a cursor or an address.
const MAX_NAME: usize = 16 * 1024;
/// Servers in a list.
const MAX_SERVERS: usize = 1024;
/// Tools and prompts of a server in a list, which the contract names.
const MAX_TOOLS: usize = 4096;
const MAX_PROMPTS: usize = 1024;
/// Tasks of a server in a list.
const MAX_TASKS: usize = 64;
/// Bytes of all definitions in a list, which the contract names.
const MAX_DEFINITIONS: usize = 16 << 20;
/// Bytes of the instructions of a server, which the contract names.
const MAX_INSTRUCTIONS: usize = 64 * 1024;
/// Bytes of a problem, and of the message of an error.
const MAX_MESSAGE: usize = 8 * 1024;
/// Bytes of the data of an error.
const MAX_DATA: usize = 64 * 1024;

/// Converts the list of servers.
pub fn servers(servers: Vec<McpServer>) -> Vec<wit::Server> {
    let mut left = MAX_DEFINITIONS;
    let mut fits = |bytes: usize| {
        let is_within = bytes <= left;
        left -= if is_within { bytes } else { 0 };
        is_within
    };
    let server = |server: McpServer| {
        let tools = server.tools.into_iter().take(MAX_TOOLS);
        let tools = tools.filter(|tool| fits(tool.name.len() + tool.definition.len())).map(|tool| ServerTool {
            digest: blake3::hash(tool.definition.as_bytes()).to_hex().to_string(),
            name: tool.name,
            definition: tool.definition.to_string(),
            enabled: tool.enabled,
        });
        let tools: Vec<ServerTool> = tools.collect();
        let prompts = server.prompts.into_iter().take(MAX_PROMPTS);
        let prompts = prompts
            .filter(|prompt| fits(prompt.name.len() + prompt.definition.len()))
            .map(|prompt| ServerPrompt { name: prompt.name, definition: prompt.definition.to_string() });
        let prompts = prompts.collect();
        let digest = digest(&server.identity, &tools);
        wit::Server {
            name: server.name,
            identity: server.identity,
            state: state(server.state),
            problem: server.problem.map(|text| clip(&text, MAX_MESSAGE).to_owned()),
            instructions: server.instructions.map(|text| clip(&text, MAX_INSTRUCTIONS).to_owned()),
            protocol: server.protocol.map(|text| clip(&text, MAX_MESSAGE).to_owned()),
            tools,
            prompts,
            has_resources: server.has_resources,
            digest,
            is_known: server.is_known,
            extra: extra(server.tasks),
        }
    };
    servers.into_iter().take(MAX_SERVERS).map(server).collect()
}

/// Returns further facts about a server: its tasks.
fn extra(tasks: Vec<McpTask>) -> Option<String> {
    let task = |McpTask { id, tool, created }: McpTask| json!({ "id": id, "tool": tool, "created": created });
    let tasks: Vec<Value> =
        tasks.into_iter().filter(|task| task.id.len() <= MAX_NAME).take(MAX_TASKS).map(task).collect();
    (!tasks.is_empty()).then(|| json!({ "tasks": tasks }).to_string())
}

/// Reads the settings of a call: its tool, or a task of an earlier one.
///
/// # Errors
/// They are not a JSON object, or name a task in another form.
pub fn called(name: String, arguments: String, extra: Option<&str>) -> Result<McpRequest, McpError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct TaskExtra {
        task: Option<String>,
        cancel: bool,
    }
    let extra: TaskExtra = match extra {
        Some(text) if text.len() > MAX_NAME => {
            return Err(McpError::Invalid("settings of a call that are too long".to_owned()));
        }
        Some(text) => serde_json::from_str(text)
            .map_err(|problem| McpError::Invalid(format!("settings of a call that cannot be read: {problem}")))?,
        None => TaskExtra::default(),
    };
    Ok(match extra {
        TaskExtra { task: Some(id), cancel: true } => McpRequest::CancelTask { id },
        TaskExtra { task: Some(id), cancel: false } => McpRequest::FollowTask { id },
        TaskExtra { task: None, .. } => McpRequest::CallTool { name, arguments },
    })
}

/// Hashes a server and the tools that are switched on.
fn digest(identity: &str, tools: &[ServerTool]) -> String {
    let mut hasher = blake3::Hasher::new();
    let texts = tools.iter().filter(|tool| tool.enabled).flat_map(|tool| [tool.name.as_str(), tool.digest.as_str()]);
    for text in std::iter::once(identity).chain(texts) {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn state(state: McpState) -> ServerState {
    match state {
        McpState::Disabled => ServerState::Disabled,
        McpState::Idle => ServerState::Idle,
        McpState::Starting => ServerState::Starting,
        McpState::Ready => ServerState::Ready,
        McpState::Failed => ServerState::Failed,
        McpState::LoginRequired => ServerState::LoginRequired,
    }
}

/// Converts a failure. A plugin knows which server it asked.
pub fn error(failure: McpFailure) -> McpError {
    let text = match &failure {
        McpFailure::NotFound(server) => format!("no MCP server `{server}`"),
        McpFailure::LoginRequired { server } => format!(
            "the MCP server `{server}` requires a login\nhint: the user can log in with `pinion mcp login {server}`"
        ),
        McpFailure::Server { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let text = clip(&text, MAX_MESSAGE).to_owned();
    match failure {
        McpFailure::NotFound(_) => McpError::NotFound(text),
        McpFailure::Disabled { .. } => McpError::Disabled(text),
        McpFailure::LoginRequired { .. } => McpError::LoginRequired(text),
        McpFailure::TooLarge(limit) => McpError::TooLarge(limit),
        McpFailure::TimedOut { request_sent, .. } => McpError::TimedOut(Failure { message: text, request_sent }),
        McpFailure::Cancelled { request_sent } => McpError::Cancelled(Failure { message: text, request_sent }),
        McpFailure::Server { code, data, .. } => {
            let code = i32::try_from(code).unwrap_or(if code < 0 { i32::MIN } else { i32::MAX });
            McpError::Server(ServerError { code, message: text, data: data.filter(|data| data.len() <= MAX_DATA) })
        }
        McpFailure::Failed { request_sent, .. } => McpError::Failed(Failure { message: text, request_sent }),
    }
}

/// Checks names, cursors and addresses of a request.
///
/// # Errors
/// One of them is too long.
pub fn names(names: &[&str]) -> Result<(), McpError> {
    match names.iter().find(|name| name.len() > MAX_NAME) {
        Some(name) => Err(McpError::Invalid(format!("a name of {} bytes, of at most {MAX_NAME}", name.len()))),
        None => Ok(()),
    }
}

/// Checks that arguments are a JSON object, small and flat enough for any server.
///
/// # Errors
/// They are not.
pub fn arguments(json: &str) -> Result<(), McpError> {
    if json.len() > MAX_ARGUMENTS {
        let text = format!("arguments of {} bytes, of at most {MAX_ARGUMENTS}", json.len());
        return Err(McpError::Invalid(text));
    }
    // Most have fewer brackets than levels that are allowed, and counting them is quick.
    let brackets = json.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if brackets > MAX_NESTING && nesting(json) > MAX_NESTING {
        return Err(McpError::Invalid(format!("arguments that nest deeper than {MAX_NESTING} levels")));
    }
    // Read without building values: the port reads them again, in its own form.
    match serde_json::from_str::<serde::de::IgnoredAny>(json) {
        Ok(_) if json.trim_start().starts_with('{') => Ok(()),
        Ok(_) => Err(McpError::Invalid("arguments that are not a JSON object".to_owned())),
        Err(problem) => Err(McpError::Invalid(format!("arguments that are not a JSON object: {problem}"))),
    }
}

/// Returns the nesting of brackets in a JSON text.
fn nesting(json: &str) -> usize {
    let (mut depth, mut most, mut in_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                most = most.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::mcp::{McpPrompt, McpTool};

    fn server(tools: Vec<McpTool>) -> McpServer {
        McpServer {
            name: "s".into(),
            identity: "i".into(),
            state: McpState::Ready,
            problem: Some("é".repeat(MAX_MESSAGE)),
            dropped: Vec::new(),
            instructions: Some("x".repeat(100_000)),
            protocol: None,
            software: None,
            tools,
            prompts: vec![McpPrompt { name: "p".into(), definition: "{}".into() }; 2_000],
            tasks: vec![McpTask { id: "t".into(), tool: "build".into(), created: 7 }; 100],
            has_resources: false,
            is_known: true,
        }
    }

    #[test]
    fn call_may_be_about_a_task_of_an_earlier_one() {
        let read = |extra: Option<&str>| called("build".into(), "{}".into(), extra).ok();
        let call = || Some(McpRequest::CallTool { name: "build".into(), arguments: "{}".into() });
        assert_eq!((read(None), read(Some("{\"later\":1}"))), (call(), call()));
        assert_eq!(read(Some(r#"{"task":"t"}"#)), Some(McpRequest::FollowTask { id: "t".into() }));
        assert_eq!(read(Some(r#"{"task":"t","cancel":true}"#)), Some(McpRequest::CancelTask { id: "t".into() }));
        for bad in ["", "[1]", r#"{"task":1}"#, &format!(r#"{{"task":"{}"}}"#, "x".repeat(20_000))] {
            assert_eq!(read(Some(bad)), None, "{bad}");
        }
    }

    #[test]
    fn list_of_servers_is_bounded() {
        let small = McpTool { name: "small".into(), definition: "{}".into(), enabled: true };
        let big = McpTool { name: "big".into(), definition: "x".repeat(9 << 20).into(), enabled: true };
        let listed = servers(vec![server(vec![big.clone(), big.clone(), small.clone()]), server(vec![big, small])]);
        let names = |at: usize| listed[at].tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>();
        assert_eq!((names(0), names(1)), (vec!["big", "small"], vec!["small"]));
        assert_eq!(listed[0].prompts.len(), MAX_PROMPTS);
        assert_eq!(listed[0].instructions.as_ref().unwrap().len(), MAX_INSTRUCTIONS);
        assert!(listed[0].problem.as_ref().unwrap().len() <= MAX_MESSAGE);
        let extra: Value = serde_json::from_str(listed[0].extra.as_deref().unwrap()).unwrap();
        assert_eq!(extra["tasks"].as_array().unwrap().len(), MAX_TASKS);
        assert_eq!(extra["tasks"][0], json!({ "id": "t", "tool": "build", "created": 7 }));
        assert_eq!(listed[0].tools[1].digest, blake3::hash(b"{}").to_hex().to_string());
    }

    #[test]
    fn arguments_are_bounded_objects() {
        assert!(arguments(r#"{"a": "]]]]{{\"{"}"#).is_ok());
        assert!(arguments(&format!("{{\"a\":[{}[]]}}", "[],".repeat(200))).is_ok());
        for bad in ["", "[]", "1", "{", "{\"a\":NaN}"] {
            assert!(matches!(arguments(bad), Err(McpError::Invalid(_))), "{bad}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(arguments(&deep), Err(McpError::Invalid(text)) if text.contains("nest")));
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_ARGUMENTS));
        assert!(matches!(arguments(&long), Err(McpError::Invalid(text)) if text.contains("bytes")));
        assert!(names(&["a", &"x".repeat(20_000)]).is_err() && names(&["a"]).is_ok());
    }
}
