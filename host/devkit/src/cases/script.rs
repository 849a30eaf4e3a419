//! The scripted world of a case: servers, secrets, answers of the user and of models, tools of other plugins.
//!
//! Each value has a short form, such as a text, and a table with everything that can be set.

use pinion_plugin_test::{Authority, Received, Response, ScriptedAnswer, ToolOutput, response};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// One value or a list of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OneOrMore<T>(pub(super) Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = match Value::deserialize(deserializer)? {
            Value::Array(values) => values,
            value => vec![value],
        };
        let values = values.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        values.map(Self).map_err(D::Error::custom)
    }
}

/// Reads the table of a value.
fn table<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(members)).map_err(|error| error.to_string())
}

/// A secret of the user: its value, or a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Secret {
    pub(super) value: String,
    /// The URLs that may receive it; all scripted servers if absent.
    pub(super) hosts: Option<Vec<String>>,
    pub(super) header: String,
    pub(super) scheme: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretTable {
    value: String,
    hosts: Option<Vec<String>>,
    header: Option<String>,
    scheme: Option<String>,
}

impl TryFrom<Value> for Secret {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let bearer = |header: Option<&String>| header.is_none().then(|| "Bearer".to_owned());
        let given = match value {
            Value::String(value) => SecretTable { value, hosts: None, header: None, scheme: None },
            Value::Object(members) => table(members)?,
            _ => return Err("a secret is its value, or a table with `value`, `hosts`, `header`, `scheme`".to_owned()),
        };
        let scheme = given.scheme.or_else(|| bearer(given.header.as_ref())).filter(|scheme| !scheme.is_empty());
        let header = given.header.unwrap_or_else(|| "authorization".to_owned());
        Ok(Self { value: given.value, hosts: given.hosts, header, scheme })
    }
}

/// An answer of a server: its body, or a table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct ServerAnswer(AnswerTable);

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AnswerTable {
    /// The requests that it answers; all if it names no method and no path.
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    request_headers: BTreeMap<String, String>,
    request_body: Option<String>,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Value,
}

impl TryFrom<Value> for ServerAnswer {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(_) => Ok(Self(AnswerTable { body: value, ..AnswerTable::default() })),
            Value::Object(members) => table(members).map(Self),
            _ => Err("an answer of a server is its body, or a table".to_owned()),
        }
    }
}

impl ServerAnswer {
    fn answers(&self, request: &Received) -> bool {
        let Self(table) = self;
        let is_path = |path: &String| {
            let full = request.uri().path_and_query().map_or("/", |path| path.as_str());
            *path == full || *path == request.uri().path()
        };
        let has_header = |(name, value): (&String, &String)| {
            request.headers().get(name).and_then(|found| found.to_str().ok()) == Some(value.as_str())
        };
        let has_part = |part: &String| String::from_utf8_lossy(request.body()).contains(part.as_str());
        table.method.as_ref().is_none_or(|method| request.method().as_str().eq_ignore_ascii_case(method))
            && table.path.as_ref().is_none_or(is_path)
            && table.request_headers.iter().all(has_header)
            && table.request_body.as_ref().is_none_or(has_part)
    }

    fn response(&self) -> Response {
        let Self(table) = self;
        let mut headers: Vec<(&str, &str)> = table.headers.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let body = match &table.body {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            json => {
                if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                    headers.push(("content-type", "application/json"));
                }
                json.to_string()
            }
        };
        response(table.status.unwrap_or(200), &headers, body)
    }
}

/// The answers of one server. Each is given once, in order; the last one that answers a request stays.
pub(super) struct ScriptedServer {
    answers: Mutex<Vec<ServerAnswer>>,
}

impl ScriptedServer {
    pub(super) fn new(answers: Vec<ServerAnswer>) -> Self {
        Self { answers: Mutex::new(answers) }
    }

    pub(super) fn answer(&self, request: &Received) -> Response {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fitting = answers.iter().enumerate().filter(|(_, answer)| answer.answers(request)).map(|(at, _)| at);
        let (first, is_last) = (fitting.next(), fitting.next().is_none());
        match first {
            None => response(404, &[], format!("the case scripts no answer to {} {}", request.method(), request.uri())),
            Some(at) if is_last => answers[at].response(),
            Some(at) => answers.remove(at).response(),
        }
    }
}

/// An answer to a dialog: `true` or `false`, an option or its index, a line of text, or `{ dismiss = true }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct ScriptAnswer(pub(super) ScriptedAnswer);

impl TryFrom<Value> for ScriptAnswer {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
        match value {
            Value::Bool(answer) => Ok(Self(answer.into())),
            Value::String(text) => Ok(Self(text.into())),
            Value::Object(members) if members.len() == 1 && members.get("dismiss") == Some(&Value::Bool(true)) => {
                Ok(Self(ScriptedAnswer::Dismissed))
            }
            _ => index.map(|index| Self(index.into())).ok_or_else(|| {
                "an answer is `true`, `false`, an option or its index from 0, a line of text, or `{ dismiss = true }`"
                    .to_owned()
            }),
        }
    }
}

/// An answer of a model: a text, a value that becomes JSON, or `{ error = "…" }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub(super) struct ModelAnswer(pub(super) Result<String, String>);

impl From<Value> for ModelAnswer {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self(Ok(text)),
            Value::Object(members) if members.len() == 1 && members.get("error").is_some_and(Value::is_string) => {
                Self(Err(members["error"].as_str().unwrap_or_default().to_owned()))
            }
            json => Self(Ok(json.to_string())),
        }
    }
}

/// A result of a tool of another plugin: its text, or a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct ToolAnswer {
    pub(super) effects: Vec<Effect>,
    pub(super) result: Result<ToolOutput, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ToolTable {
    #[serde(default)]
    effects: Vec<Effect>,
    #[serde(default)]
    output: String,
    details: Option<Value>,
    error: Option<String>,
}

impl TryFrom<Value> for ToolAnswer {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let given = match value {
            Value::String(output) => ToolTable { effects: Vec::new(), output, details: None, error: None },
            Value::Object(members) => table(members)?,
            _ => return Err("a result of a tool is its text, or a table".to_owned()),
        };
        let output = ToolOutput { details: given.details, ..ToolOutput::text(given.output) };
        Ok(Self { effects: given.effects, result: given.error.map_or(Ok(output), Err) })
    }
}

/// The results of one tool. Each is given once, in order; the last one stays.
pub(super) struct Results {
    results: Mutex<Vec<Result<ToolOutput, String>>>,
}

impl Results {
    pub(super) fn new(answers: &[ToolAnswer]) -> Self {
        let results = answers.iter().rev().map(|answer| answer.result.clone()).collect();
        Self { results: Mutex::new(results) }
    }

    pub(super) fn next(&self) -> Result<ToolOutput, String> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        match results.len() {
            0 | 1 => results.first().cloned().unwrap_or_else(|| Ok(ToolOutput::text(""))),
            _ => results.pop().unwrap_or_else(|| Ok(ToolOutput::text(""))),
        }
    }
}

/// An effect that a tool declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Effect {
    Reads,
    Writes,
    Executes,
    Network,
    Destructive,
    Delegates,
}

pub(super) fn authority(effects: &[Effect]) -> Authority {
    let has = |effect| effects.contains(&effect);
    Authority {
        reads: has(Effect::Reads),
        writes: has(Effect::Writes),
        executes: has(Effect::Executes),
        network: has(Effect::Network),
        destructive: has(Effect::Destructive),
        delegates: has(Effect::Delegates),
    }
}

/// A message of the conversation: a text of the user, `{ user = "…" }` or `{ assistant = "…" }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) enum ScriptedMessage {
    User(String),
    Assistant(String),
}

impl TryFrom<Value> for ScriptedMessage {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let member = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_alone = value.as_object().is_some_and(|members| members.len() == 1);
        match (&value, member("user"), member("assistant")) {
            (Value::String(text), ..) => Ok(Self::User(text.clone())),
            (_, Some(text), None) if is_alone => Ok(Self::User(text)),
            (_, None, Some(text)) if is_alone => Ok(Self::Assistant(text)),
            _ => Err("a message is a text of the user, `{ user = \"…\" }` or `{ assistant = \"…\" }`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn short_and_long_forms_are_read() {
        let secret: Secret = read(json!("tok"));
        assert_eq!((secret.header.as_str(), secret.scheme.as_deref()), ("authorization", Some("Bearer")));
        let secret: Secret = read(json!({ "value": "tok", "header": "x-key", "hosts": [] }));
        assert_eq!((secret.scheme, secret.hosts), (None, Some(Vec::new())));
        assert_eq!(read::<OneOrMore<ScriptedMessage>>(json!("hi")).0, [ScriptedMessage::User("hi".to_owned())]);
        assert_eq!(
            read::<ScriptedMessage>(json!({ "assistant": "yes" })),
            ScriptedMessage::Assistant("yes".to_owned())
        );
        assert_eq!(read::<ModelAnswer>(json!({ "error": "busy" })).0, Err("busy".to_owned()));
        assert_eq!(read::<ModelAnswer>(json!({ "a": 1 })).0, Ok("{\"a\":1}".to_owned()));
        assert_eq!(read::<ScriptAnswer>(json!(2)).0, 2_usize.into());
        assert_eq!(read::<ScriptAnswer>(json!({ "dismiss": true })).0, ScriptedAnswer::Dismissed);
        for wrong in [json!(-1), json!({ "dismis": true }), json!(1.5)] {
            assert!(
                serde_json::from_value::<ScriptAnswer>(wrong).unwrap_err().to_string().contains("`{ dismiss = true }`")
            );
        }
        let unknown = serde_json::from_value::<ServerAnswer>(json!({ "code": 200 })).unwrap_err().to_string();
        assert!(unknown.contains("`code`") && unknown.contains("`status`"), "{unknown}");
    }

    #[test]
    fn results_of_a_tool_come_in_order_and_the_last_one_stays() {
        let answers: OneOrMore<ToolAnswer> =
            read(json!(["a", { "error": "b" }, { "output": "c", "effects": ["reads"] }]));
        assert_eq!(authority(&answers.0[2].effects), Authority::READ_ONLY);
        let results = Results::new(&answers.0);
        let texts: Vec<_> = (0..4).map(|_| results.next().map(|output| output.to_text())).collect();
        assert_eq!(texts[1], Err("b".to_owned()));
        assert!(texts[0] == Ok("a\n".to_owned()) || texts[0] == Ok("a".to_owned()), "{texts:?}");
        assert!(texts[2] == texts[3] && texts[2].as_ref().is_ok_and(|text| text.starts_with('c')), "{texts:?}");
    }
}
