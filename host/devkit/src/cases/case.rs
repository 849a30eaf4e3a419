//! The cases in the `tests` directory of a project.

use super::script::{ModelAnswer, OneOrMore, ScriptAnswer, ScriptedMessage, Secret, ServerAnswer, ToolAnswer};
use super::verdict::ExpectedVerdict;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::open_file;
use pinion_app::names::nearest;
use pinion_plugin_test::PartialLimits;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Keys of a case that hold from its beginning to its end.
const CASE_KEYS: &[&str] = &["name", "grant", "limits", "secret", "server", "tools", "session", "then"];
/// Keys of a case and of each step after it.
const STEP_KEYS: &[&str] = &[
    "tool",
    "command",
    "complete",
    "hook",
    "input",
    "files",
    "settings",
    "reload",
    "answer",
    "completion",
    "output",
    "contains",
    "error",
    "fails",
    "details",
    "submit",
    "print",
    "insert",
    "completes",
    "verdict",
    "offers",
    "written",
    "asked",
    "requests",
    "called",
    "prompts",
    "notices",
];

/// A test: the plugin's surroundings, and one step or several.
#[derive(Debug)]
pub struct Case {
    /// The name of the case.
    pub name: String,
    pub(super) grant: Vec<String>,
    pub(super) limits: PartialLimits,
    /// The secrets of the user, by name.
    pub(super) secret: BTreeMap<String, Secret>,
    /// The answers of servers, by origin.
    pub(super) server: BTreeMap<String, OneOrMore<ServerAnswer>>,
    /// The results of other plugins' tools, by name.
    pub(super) tools: BTreeMap<String, OneOrMore<ToolAnswer>>,
    /// The messages of the conversation.
    pub(super) session: Vec<ScriptedMessage>,
    pub(super) steps: Vec<TestStep>,
}

/// The code that a step runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepAction {
    Tool(String),
    Command(String),
    /// Completes the argument of a command.
    Complete(String),
    Hook(String),
    /// Only compares.
    Nothing,
}

/// One call, with the expected outcome.
#[derive(Debug)]
pub(super) struct TestStep {
    pub(super) action: StepAction,
    /// The arguments of a tool, the text after a command's name, or the input of a hook.
    pub(super) input: Value,
    /// Files to write before the call, by path.
    pub(super) files: BTreeMap<String, String>,
    /// The plugin's section of the config. In a later step, the plugin is reloaded with it.
    pub(super) settings: Option<Value>,
    /// Reloads the plugin before the call.
    pub(super) reload: bool,
    pub(super) answer: Vec<ScriptAnswer>,
    pub(super) completion: Vec<ModelAnswer>,
    pub(super) expected: StepExpectations,
}

/// Expectations of a step. Absent keys are not compared.
#[derive(Debug, Default)]
pub(super) struct StepExpectations {
    /// The whole text of the result, without line breaks at its end.
    pub(super) output: Option<String>,
    /// Parts of the text of the result.
    pub(super) contains: Vec<String>,
    /// A part of the message of the error.
    pub(super) error: Option<String>,
    /// The call is expected to fail, with any message.
    pub(super) fails: bool,
    pub(super) details: Option<Value>,
    /// The message that a command sends to the model.
    pub(super) submit: Option<String>,
    /// The text that a command shows.
    pub(super) print: Option<String>,
    /// The text that a command inserts into the composer.
    pub(super) insert: Option<String>,
    /// The values of a completed argument.
    pub(super) completes: Option<Vec<String>>,
    pub(super) verdict: Option<ExpectedVerdict>,
    /// All tools that the plugin offers.
    pub(super) offers: Option<Vec<String>>,
    /// The content of files, by path.
    pub(super) written: BTreeMap<String, String>,
    /// Parts of the questions to the user, in order.
    pub(super) asked: Option<Vec<String>>,
    /// The requests to servers, such as `GET https://api.example.com/v1`, in order.
    pub(super) requests: Option<Vec<String>>,
    /// The names of the tools that the plugin called, in order.
    pub(super) called: Option<Vec<String>>,
    /// Parts of the prompts to models, in order.
    pub(super) prompts: Option<Vec<String>>,
    /// Parts of the notices to the user, in order.
    pub(super) notices: Option<Vec<String>>,
}

/// A mistake in a case, with its remedy.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    what: String,
    hint: Option<String>,
}

impl Mistake {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    fn within(self, place: &str) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }
}

/// Reads the cases in the TOML and JSON files of a directory, by name of file.
pub fn read(directory: &Path) -> Result<Vec<Case>> {
    let entries = fs::read_dir(directory).map_err(|error| {
        Failure::usage(format!("could not read `{}`", directory.display()))
            .because(error)
            .hint("describe calls in tests/cases.toml")
    })?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let is_toml = match file.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => true,
            Some("json") => false,
            _ => continue,
        };
        let read = open_file(&file).and_then(std::io::read_to_string).map_err(|error| Mistake::new(error.to_string()));
        let parsed = read.and_then(|text| parse(&text, is_toml));
        cases.extend(parsed.map_err(|mistake| {
            let failure = Failure::usage(format!("invalid cases in `{}`", file.display())).because(mistake.what);
            mistake.hint.into_iter().fold(failure, Failure::hint)
        })?);
    }
    Ok(cases)
}

fn parse(text: &str, is_toml: bool) -> Result<Vec<Case>, Mistake> {
    let file: Map<String, Value> = match is_toml {
        true => toml::from_str(text).map_err(|error| Mistake::new(error.to_string()))?,
        false => serde_json::from_str(text).map_err(|error| Mistake::new(error.to_string()))?,
    };
    refuse_unknown(&file, &[&["case"]])?;
    let cases = match file.get("case") {
        None => Vec::new(),
        Some(Value::Array(cases)) => cases.clone(),
        Some(_) => {
            return Err(Mistake {
                hint: Some("begin each with [[case]]".to_owned()),
                ..Mistake::new("`case` is a list")
            });
        }
    };
    cases.into_iter().enumerate().map(|(at, case)| Case::parse(case, at + 1)).collect()
}

/// Refuses keys that are in neither list, and names the known keys.
fn refuse_unknown(members: &Map<String, Value>, known: &[&[&str]]) -> Result<(), Mistake> {
    let known: Vec<&str> = known.iter().flat_map(|keys| keys.iter().copied()).collect();
    let Some(unknown) = members.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let meant = nearest(unknown, known.iter().copied()).map(|near| format!("did you mean `{near}`? "));
    let hint = format!("{}the keys are {}", meant.unwrap_or_default(), known.join(", "));
    Err(Mistake { what: format!("unknown key `{unknown}`"), hint: Some(hint) })
}

/// Takes the value of a key; the default if it is absent.
fn take_member<T: DeserializeOwned + Default>(members: &mut Map<String, Value>, key: &str) -> Result<T, Mistake> {
    match members.remove(key) {
        None => Ok(T::default()),
        Some(value) => serde_json::from_value(value).map_err(|error| Mistake::new(format!("`{key}`: {error}"))),
    }
}

impl Case {
    fn parse(case: Value, number: usize) -> Result<Self, Mistake> {
        let name = case.get("name").and_then(Value::as_str).map(str::to_owned);
        let place = name.as_ref().map_or_else(|| format!("case {number}"), |name| format!("case `{name}`"));
        let Value::Object(members) = case else { return Err(Mistake::new("it is no table").within(&place)) };
        let Some(name) = name else { return Err(Mistake::new("no `name`").within(&place)) };
        Self::members(name, members).map_err(|mistake| mistake.within(&place))
    }

    fn members(name: String, mut members: Map<String, Value>) -> Result<Self, Mistake> {
        refuse_unknown(&members, &[CASE_KEYS, STEP_KEYS])?;
        members.remove("name");
        let then: Vec<Map<String, Value>> = take_member(&mut members, "then")?;
        let mut case = Self {
            name,
            grant: take_member::<OneOrMore<String>>(&mut members, "grant")?.0,
            limits: take_member(&mut members, "limits")?,
            secret: take_member(&mut members, "secret")?,
            server: take_member(&mut members, "server")?,
            tools: take_member(&mut members, "tools")?,
            session: take_member::<OneOrMore<ScriptedMessage>>(&mut members, "session")?.0,
            steps: vec![TestStep::parse(members)?],
        };
        for (at, step) in then.into_iter().enumerate() {
            let within = |mistake: Mistake| mistake.within(&format!("step {} of `then`", at + 1));
            if let Some(key) = CASE_KEYS.iter().find(|key| step.contains_key(**key)) {
                return Err(within(Mistake::new(format!("`{key}` belongs to the case, not to a step"))));
            }
            refuse_unknown(&step, &[STEP_KEYS]).map_err(within)?;
            case.steps.push(TestStep::parse(step).map_err(within)?);
        }
        Ok(case)
    }
}

impl TestStep {
    fn parse(mut members: Map<String, Value>) -> Result<Self, Mistake> {
        type Make = fn(String) -> StepAction;
        let mut actions = Vec::new();
        let make: [(&str, Make); 4] = [
            ("tool", StepAction::Tool),
            ("command", StepAction::Command),
            ("complete", StepAction::Complete),
            ("hook", StepAction::Hook),
        ];
        for (key, make) in make {
            actions.extend(take_member::<Option<String>>(&mut members, key)?.map(make));
        }
        let needs = ["offers", "written", "reload", "settings"];
        let action = match <[StepAction; 1]>::try_from(actions) {
            Ok([action]) => action,
            Err(none) if none.is_empty() && needs.iter().any(|key| members.contains_key(*key)) => StepAction::Nothing,
            Err(_) => return Err(Mistake::new("it needs one of `tool`, `command`, `complete` and `hook`")),
        };
        Ok(Self {
            action,
            input: take_member(&mut members, "input")?,
            files: take_member(&mut members, "files")?,
            settings: take_member(&mut members, "settings")?,
            reload: take_member(&mut members, "reload")?,
            answer: take_member::<OneOrMore<ScriptAnswer>>(&mut members, "answer")?.0,
            completion: take_member::<OneOrMore<ModelAnswer>>(&mut members, "completion")?.0,
            expected: StepExpectations::parse(&mut members)?,
        })
    }
}

impl StepExpectations {
    fn parse(members: &mut Map<String, Value>) -> Result<Self, Mistake> {
        let mut list = |key: &str| -> Result<Option<Vec<String>>, Mistake> {
            Ok(take_member::<Option<OneOrMore<String>>>(members, key)?.map(|texts| texts.0))
        };
        let contains = list("contains")?.unwrap_or_default();
        let (completes, offers, asked) = (list("completes")?, list("offers")?, list("asked")?);
        let (requests, called) = (list("requests")?, list("called")?);
        let (prompts, notices) = (list("prompts")?, list("notices")?);
        Ok(Self {
            output: take_member(members, "output")?,
            contains,
            error: take_member(members, "error")?,
            fails: take_member(members, "fails")?,
            details: take_member(members, "details")?,
            submit: take_member(members, "submit")?,
            print: take_member(members, "print")?,
            insert: take_member(members, "insert")?,
            completes,
            verdict: take_member(members, "verdict")?,
            offers,
            written: take_member(members, "written")?,
            asked,
            requests,
            called,
            prompts,
            notices,
        })
    }
}

#[cfg(test)]
impl StepExpectations {
    /// Reads expectations from TOML.
    pub(super) fn from_toml(text: &str) -> Self {
        Self::parse(&mut toml::from_str(text).unwrap()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> Mistake {
        parse(text, true).unwrap_err()
    }

    #[test]
    fn unknown_keys_are_listed_with_the_known_ones_at_their_place() {
        let unknown = mistake("[[case]]\nname = \"a\"\ntool = \"t\"\nsecrets = {}");
        assert_eq!(unknown.what, "case `a`: unknown key `secrets`");
        assert!(unknown.hint.unwrap().starts_with("did you mean `secret`? the keys are name, grant, "));
        let later = mistake("[[case]]\nname = \"a\"\ntool = \"t\"\n[[case.then]]\ntool = \"t\"\ngrant = []");
        assert_eq!(later.what, "case `a`: step 1 of `then`: `grant` belongs to the case, not to a step");
        let nested = mistake("[[case]]\nname = \"a\"\ntool = \"t\"\nserver = { \"https://a\" = { code = 1 } }");
        assert!(
            nested.what.starts_with("case `a`: `server`: unknown field `code`, expected one of `method`"),
            "{nested:?}"
        );
        assert!(mistake("[[cases]]").hint.unwrap().contains("the keys are case"));
    }

    #[test]
    fn case_needs_a_name_and_one_thing_to_do() {
        assert_eq!(mistake("[[case]]\ntool = \"t\"").what, "case 1: no `name`");
        for text in ["input = 1", "tool = \"t\"\ncommand = \"c\""] {
            let mistake = mistake(&format!("[[case]]\nname = \"a\"\n{text}"));
            assert_eq!(mistake.what, "case `a`: it needs one of `tool`, `command`, `complete` and `hook`");
        }
        assert!(parse("[[case]]\nname = \"a\"\noffers = [\"t\"]", true).is_ok());
    }

    #[test]
    fn guide_describes_every_key_and_its_cases_are_read() {
        let tests = include_str!("../../../../docs/plugins/testing.md");
        for key in CASE_KEYS.iter().chain(STEP_KEYS).filter(|key| **key != "name") {
            assert!(tests.contains(&format!("`{key}`")), "{key}");
        }
        let example = tests.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let cases = parse(example, true).unwrap();
        assert_eq!((cases.len(), cases[1].steps.len()), (2, 3));
    }

    #[test]
    fn every_key_is_read() {
        for key in CASE_KEYS.iter().chain(STEP_KEYS) {
            let text = format!("[[case]]\nname = \"a\"\ntool = \"t\"\n[case.{key}]\nnone = 1979-05-27");
            let is_read = parse(&text, true).is_err();
            assert!(is_read || ["input", "settings", "details", "completion"].contains(key), "{key}");
        }
        let json = r#"{ "case": [{ "name": "a", "tool": "t", "input": {}, "answer": [true, "x"] }] }"#;
        assert_eq!(parse(json, false).unwrap()[0].steps[0].answer.len(), 2);
    }
}
