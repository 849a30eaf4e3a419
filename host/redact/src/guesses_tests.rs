//! Parties that choose a text and see it again learn nothing about a secret from it: each of them tries 10,000 guesses.

use super::matcher::{Matcher, SecretForm};
use super::{RedactedProvider, RedactedTools, Secrets, forms};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use pinion_protocol::authority::Authority;
use pinion_protocol::content::Content;
use pinion_protocol::definition::{Execution, ToolDefinition, ToolSource};
use pinion_protocol::output::{ToolError, ToolOutput};
use pinion_protocol::provider::{EventStream, PartKind, Provider, ProviderError, Request, StreamEvent};
use pinion_protocol::tool::{ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use secrecy::SecretString;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-ant-api03-Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";
/// A password that a dictionary has.
const SHORT: &str = "correct-horse1";
const GUESSES: usize = 10_000;

fn secrets() -> Secrets {
    let secrets = Secrets::of_process();
    [KEY, SHORT].iter().for_each(|value| secrets.add(&SecretString::from(*value)));
    secrets
}

/// Returns true guesses of all parts of the key in all encodings, and random ones.
fn guesses() -> Vec<String> {
    let secret = &KEY["sk-ant-api03-".len()..];
    let texts = forms::forms(KEY, 0).into_iter().map(|form| String::from_utf8(form).unwrap());
    let mut all = BTreeSet::from([SHORT.to_owned(), STANDARD.encode(SHORT)]);
    for text in texts.chain([KEY.to_owned(), secret.replace('q', "%71").replace('X', "\\u0058")]) {
        let parts = (0..text.len()).flat_map(|from| (from + 1..=text.len()).map(move |to| (from, to)));
        all.extend(parts.map(|(from, to)| text[from..to].to_owned()));
    }
    let whole = secrets();
    let mut all: Vec<String> = all.into_iter().filter(|guess| !whole.are_in(guess.as_bytes())).collect();
    let mut random = fastrand::Rng::with_seed(7);
    all.truncate(GUESSES / 2);
    all.resize_with(GUESSES, || (0..random.usize(4..40)).map(|_| random.alphanumeric()).collect());
    all
}

/// Answers every request with these texts, and every call with its argument.
struct Echo(Vec<String>);

impl Provider for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn stream(&self, _: Request, _: CancellationToken) -> EventStream {
        let start = StreamEvent::PartStart { index: 0, part: PartKind::Text };
        let deltas = self.0.iter().map(|text| StreamEvent::Delta { index: 0, delta: text.clone() });
        let events: Vec<_> = std::iter::once(start).chain(deltas).map(Ok).collect();
        stream::iter(events).chain(stream::iter([Err(ProviderError::Cancelled)])).boxed()
    }
}

impl ToolExecutor for Echo {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        Vec::new()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let text = call.arguments["text"].as_str().unwrap().to_owned();
        progress.report(text.clone());
        let result = match call.arguments["fails"] == true {
            true => Err(ToolError::Failed { tool: "echo".to_owned(), message: text, retryable: false }),
            false => Ok(ToolOutput { details: Some(json!({ text.clone(): text })), ..ToolOutput::text(text) }),
        };
        futures_util::future::ready(ToolReply { result, ledger: None }).boxed()
    }
}

struct Nobody;

impl ToolProgress for Nobody {
    fn report(&self, _: String) {}
    fn update(&self, _: Vec<Content>) {}
}

fn call(arguments: Value) -> ToolInvocation {
    let tool = ToolDefinition {
        name: "echo".to_owned(),
        label: String::new(),
        description: String::new(),
        input_schema: json!({}),
        guidelines: Vec::new(),
        authority: Authority::default(),
        execution: Execution::Parallel,
        source: ToolSource::default(),
    };
    ToolInvocation {
        call_id: "1".to_owned(),
        session_id: "s".into(),
        run_id: "l".into(),
        tool: Arc::new(tool),
        arguments,
        at_most: Authority::default(),
        agents: None,
        services: None,
        token: CancellationToken::new(),
    }
}

/// Returns the text that the caller of a tool sees.
async fn seen(secrets: &Secrets, arguments: Value) -> String {
    let tools = RedactedTools::new(Arc::new(Echo(Vec::new())), secrets.clone());
    match tools.call(call(arguments), &Nobody).await.result {
        Ok(output) => format!("{} {}", output.content[0].as_text().unwrap(), output.details.unwrap()),
        Err(ToolError::Failed { message, .. }) => message,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn model_gets_the_pieces_that_it_said_for_every_guess() {
    let said = guesses();
    let request = Request {
        model: "m".to_owned(),
        system: "".into(),
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: Default::default(),
        options: Default::default(),
    };
    // A word between guesses, which together could be the secret.
    let said: Vec<String> = said.iter().flat_map(|guess| [guess.clone(), "!".to_owned()]).collect();
    let provider = RedactedProvider::new(Arc::new(Echo(said.clone())), secrets());
    let events: Vec<_> = provider.stream(request, CancellationToken::new()).collect().await;
    let deltas = events.into_iter().filter_map(|event| match event {
        Ok(StreamEvent::Delta { delta, .. }) => Some(delta),
        _ => None,
    });
    assert_eq!(deltas.collect::<Vec<_>>(), said);
}

#[tokio::test]
async fn caller_of_a_tool_gets_back_what_it_wrote_for_every_guess() {
    let secrets = secrets();
    let whole = [KEY, &STANDARD.encode(KEY), &KEY.to_lowercase()].map(str::to_owned);
    for guess in guesses().into_iter().chain(whole) {
        assert_eq!(seen(&secrets, json!({ "text": guess, "fails": true })).await, guess);
        let expected = format!("{guess} {}", json!({ guess.clone(): guess }));
        assert_eq!(seen(&secrets, json!({ "text": guess })).await, expected);
    }
}

#[test]
fn program_and_server_see_the_same_pieces_for_every_guess() {
    let secrets = Secrets::default();
    secrets.add_with_placeholder(&SecretString::from(KEY), "<key>");
    let mut redactor = secrets.line_redactor();
    for guess in guesses() {
        // The guess is the end of the text sent so far; it arrives with its line.
        assert!(redactor.push(guess.as_bytes()).is_empty(), "{guess}");
        assert_eq!(String::from_utf8(redactor.push(b"!\nmore ")).unwrap(), format!("{guess}!\n"));
        assert_eq!(redactor.push(b"\n"), b"more \n");
    }
}

/// The automaton looks up one entry for each byte. Only a comparison is more work, and no part of a form causes one until an
/// anchor is complete.
#[test]
fn guesses_cause_the_same_work() {
    let forms: Vec<SecretForm> = forms::forms(KEY, 0).iter().map(|form| SecretForm::new(form, 0)).collect();
    let matcher = Matcher::new(&forms);
    let is_short = |guess: &String| guess.len() < 12;
    let all = guesses();
    assert!(all.iter().filter(|guess| is_short(guess)).count() > 1_000);
    for guess in all.iter().filter(|guess| is_short(guess)) {
        assert_eq!(matcher.scan(guess.repeat(20).as_bytes()).comparisons, 0, "{guess}");
    }
    assert!(matcher.scan(KEY.as_bytes()).comparisons > 0);
}
