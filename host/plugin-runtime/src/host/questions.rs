//! `questions`: several questions of a call at once, each under the grant that it would need alone.

use crate::bindings::pinion::plugin::questions::{self, Answer, Directory, NamedQuestion, Question, QuestionError};
use crate::calls::state::State;
use crate::capability::model::import::{Reserved, request_bytes};
use crate::capability::ui::import::{form_schema, unanswered};
use pinion_plugin_offers::names::is_name;
use pinion_protocol::text::{one_line, without_controls};
use pinion_protocol::{BatchAnswer, BatchQuestion, FormSchema};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

/// Questions that can be asked at once; the contract names it.
const MAX_QUESTIONS: usize = 8;
/// Directories of an answer, and bytes of the URI of each; the contract names them.
const MAX_DIRECTORIES: usize = 64;
const MAX_URI: usize = 4 * 1024;
/// Characters of the name of a directory.
const MAX_DIRECTORY_NAME: usize = 200;

type AnswerResult = Result<Answer, QuestionError>;

/// A question that may be asked.
enum PermittedQuestion {
    Form { question: String, form: FormSchema, hint: String },
    Completion(Reserved),
    Directories,
}

impl questions::Host for State {
    async fn ask(
        &mut self,
        questions: Vec<NamedQuestion>,
    ) -> wasmtime::Result<Result<Vec<AnswerResult>, QuestionError>> {
        self.spend_output(questions.iter().map(bytes).sum())?;
        if let Err(problem) = check(&questions) {
            return Ok(Err(QuestionError::Invalid(problem)));
        }
        let mut answers: Vec<Option<AnswerResult>> = questions.iter().map(|_| None).collect();
        let mut open = Vec::new();
        for (at, NamedQuestion { name, question }) in questions.into_iter().enumerate() {
            match self.checked(question) {
                Ok(asked) => open.push((at, name, asked)),
                Err(error) => answers[at] = Some(Err(error)),
            }
        }
        while !open.is_empty() {
            open = self.ask_open(open, &mut answers).await;
        }
        let unanswered = || Err(QuestionError::Failed("there is no answer".to_owned()));
        Ok(Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()))
    }
}

impl State {
    /// Checks whether a question may be asked, and reserves the resources it takes.
    fn checked(&mut self, question: Question) -> Result<PermittedQuestion, QuestionError> {
        Ok(match question {
            Question::Form(questions::Form { question, schema }) => {
                PermittedQuestion::Form { question, form: form_schema(&schema)?, hint: String::new() }
            }
            Question::Completion(request) => PermittedQuestion::Completion(self.reserve_completion(request)?),
            Question::Directories => PermittedQuestion::Directories,
            Question::Other(_) => {
                return Err(QuestionError::Invalid("the host does not know this question".to_owned()));
            }
        })
    }

    /// Asks all open questions, and returns those that have to be asked again.
    async fn ask_open(
        &mut self,
        open: Vec<(usize, String, PermittedQuestion)>,
        answers: &mut [Option<AnswerResult>],
    ) -> Vec<(usize, String, PermittedQuestion)> {
        let (mut batch, mut asked) = (Vec::new(), Vec::new());
        for (at, name, question) in open {
            match self.batched(&question) {
                Ok(shown) => {
                    batch.push((name.clone(), shown));
                    asked.push((at, name, question));
                }
                Err(error) => answers[at] = Some(Err(error)),
            }
        }
        let services = self.call.services.clone().filter(|_| !batch.is_empty());
        let together = match services {
            Some(services) => self.call.deadline.wait_for_person(async move { services.ask_all(batch).await }).await,
            None => None,
        };
        let Some(together) = together else {
            for (at, _, question) in asked {
                answers[at] = Some(self.ask_alone(question).await);
            }
            return Vec::new();
        };
        let mut again = Vec::new();
        for ((at, name, question), answer) in asked.into_iter().zip(together) {
            match settled(question, answer) {
                Ok(answer) => answers[at] = Some(answer),
                Err(question) => again.push((at, name, question)),
            }
        }
        again
    }

    /// Returns a question as the conversation gets it. A form counts as a dialog.
    fn batched(&mut self, question: &PermittedQuestion) -> Result<BatchQuestion, QuestionError> {
        Ok(match question {
            PermittedQuestion::Form { question, form, hint } => {
                let (_, question) = self.open_dialog(&format!("{question}{hint}"))?;
                let (plugin, schema) = (self.plugin.to_string(), form.shown().clone());
                BatchQuestion::Form(pinion_protocol::DialogForm { plugin, question, schema })
            }
            PermittedQuestion::Completion(reserved) => BatchQuestion::Completion(reserved.task.clone()),
            PermittedQuestion::Directories => BatchQuestion::Directories,
        })
    }

    /// Asks a question by itself, in a conversation that does not take several at once.
    async fn ask_alone(&mut self, question: PermittedQuestion) -> AnswerResult {
        match question {
            PermittedQuestion::Form { question, form, .. } => {
                // Counted already.
                self.account.capabilities.ui.give_back();
                Ok(Answer::Form(self.fill(&question, form).await?))
            }
            PermittedQuestion::Completion(reserved) => Ok(Answer::Completion(self.complete_reserved(reserved).await?)),
            PermittedQuestion::Directories => {
                Ok(Answer::Directories(vec![Directory { uri: file_uri(self.call.authority.workspace()), name: None }]))
            }
        }
    }
}

/// Takes the answer to a question. Gives the question back if the user must be asked again.
fn settled(question: PermittedQuestion, answer: BatchAnswer) -> Result<AnswerResult, PermittedQuestion> {
    match (question, answer) {
        (PermittedQuestion::Form { question, form, .. }, BatchAnswer::Form(Ok(values))) => match form.values(&values) {
            Ok(values) => Ok(Ok(Answer::Form(serde_json::Value::Object(values).to_string()))),
            Err(problem) => Err(PermittedQuestion::Form { question, form, hint: format!("\n{problem}") }),
        },
        (PermittedQuestion::Completion(reserved), BatchAnswer::Completion(answer)) => {
            Ok(reserved.settle(answer).map(Answer::Completion).map_err(Into::into))
        }
        (PermittedQuestion::Directories, BatchAnswer::Directories(Ok(directories))) => {
            let directories = directories.into_iter().filter(|directory| directory.uri.len() <= MAX_URI);
            let shown = |directory: pinion_protocol::Directory| Directory {
                uri: without_controls(&directory.uri).replace('\n', ""),
                name: directory.name.map(|name| one_line(&without_controls(&name), MAX_DIRECTORY_NAME)),
            };
            Ok(Ok(Answer::Directories(directories.take(MAX_DIRECTORIES).map(shown).collect())))
        }
        (_, BatchAnswer::Form(Err(error)) | BatchAnswer::Directories(Err(error))) => Ok(Err(unanswered(error).into())),
        _ => Ok(Err(QuestionError::Failed("the answer is that to another question".to_owned()))),
    }
}

fn check(questions: &[NamedQuestion]) -> Result<(), String> {
    if questions.len() > MAX_QUESTIONS {
        return Err(format!("{} questions, of at most {MAX_QUESTIONS}", questions.len()));
    }
    let mut names = HashSet::new();
    match questions.iter().all(|question| is_name(&question.name) && names.insert(&question.name)) {
        true => Ok(()),
        false => Err("each question needs a name of its own, of 1 to 64 of a-z, A-Z, 0-9, '_' and '-'".to_owned()),
    }
}

fn bytes(question: &NamedQuestion) -> usize {
    let content = match &question.question {
        Question::Form(form) => form.question.len() + form.schema.len(),
        Question::Completion(request) => request_bytes(request),
        Question::Other(json) => json.len(),
        Question::Directories => 0,
    };
    question.name.len() + content
}

/// Returns the `file` URI of an absolute path.
fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(byte.into()),
            // Writing to a string does not fail.
            other => drop(write!(uri, "%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_of_the_workspace_has_no_blanks() {
        assert_eq!(file_uri(Path::new("/home/ada/my project/ä")), "file:///home/ada/my%20project/%C3%A4");
    }

    #[test]
    fn questions_are_few_and_have_names_of_their_own() {
        let named = |name: &str| NamedQuestion { name: name.to_owned(), question: Question::Directories };
        assert_eq!(check(&[named("a"), named("b-1")]), Ok(()));
        for names in [vec!["a", "a"], vec!["a b"], vec![""], (0..9).map(|_| "x").collect()] {
            assert!(check(&names.iter().map(|name| named(name)).collect::<Vec<_>>()).is_err(), "{names:?}");
        }
    }

    #[test]
    fn directories_of_a_client_are_bounded_and_printable() {
        let directory = |uri: String| pinion_protocol::Directory { uri, name: Some("a\u{1b}[2J\nb".to_owned()) };
        let many =
            (0..100).map(|n| directory(format!("file:///{n}\u{1b}"))).chain([directory("x".repeat(MAX_URI + 1))]);
        let many: Vec<_> = std::iter::once(directory("x".repeat(MAX_URI + 1))).chain(many).collect();
        let Ok(Ok(Answer::Directories(found))) =
            settled(PermittedQuestion::Directories, BatchAnswer::Directories(Ok(many)))
        else {
            panic!("no directories")
        };
        assert_eq!((found.len(), found[0].uri.as_str(), found[0].name.as_deref()), (64, "file:///0", Some("a[2J ⏎ b")));
    }

    #[test]
    fn form_that_does_not_match_is_asked_again_with_the_reason() {
        let form = form_schema(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#).unwrap();
        let asked = PermittedQuestion::Form { question: "?".to_owned(), form, hint: String::new() };
        let wrong = BatchAnswer::Form(Ok(serde_json::json!({ "n": "x" })));
        let Err(PermittedQuestion::Form { question, form, hint }) = settled(asked, wrong) else {
            panic!("not asked again")
        };
        assert!(hint.contains("n: "), "{hint}");
        let right = BatchAnswer::Form(Ok(serde_json::json!({ "n": 5 })));
        let Ok(Ok(Answer::Form(values))) = settled(PermittedQuestion::Form { question, form, hint }, right) else {
            panic!("no answer")
        };
        assert_eq!(values, r#"{"n":5}"#);
    }
}
