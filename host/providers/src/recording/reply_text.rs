//! Replies as they are recorded: without secrets and with placeholders, also where a stream divides these.

use super::format::RecordedStep;
use super::placeholders::{ReplacedValues, visit_texts};
use pinion_redact::Secrets;
use serde_json::Value;
use std::collections::BTreeMap;

/// Held back at most, in bytes; more is recorded as it is.
const MAX_HELD: usize = 256 << 10;

/// The steps of one reply that may end within a value or a secret, and that are therefore held back.
pub(super) struct ReplyText {
    values: ReplacedValues,
    secrets: Secrets,
    held: Vec<HeldPart>,
    held_bytes: usize,
}

/// A line or a frame.
struct HeldPart {
    step: RecordedStep,
    /// The JSON in it, and the texts of the line before and after.
    json: Option<(String, Value, String)>,
}

impl ReplyText {
    /// Starts a reply. `values` includes the ids of its request.
    pub(super) fn new(values: ReplacedValues, secrets: Secrets) -> Self {
        Self { values, secrets, held: Vec::new(), held_bytes: 0 }
    }

    /// Adds a step and returns the steps that can be recorded.
    pub(super) fn push(&mut self, step: RecordedStep) -> Vec<RecordedStep> {
        match step {
            RecordedStep::Data(text) => {
                let text = self.secrets.clean_answer(&text).into_owned();
                self.held_bytes += text.len();
                self.held.extend(text.split_inclusive('\n').map(|line| HeldPart::from_line(line, &self.values)));
            }
            RecordedStep::Frame(mut frame) => {
                frame.payload = self.secrets.clean_answer_json(frame.payload);
                self.held_bytes += frame.payload.to_string().len();
                let json = (String::new(), frame.payload.clone(), String::new());
                self.held.push(HeldPart { step: RecordedStep::Frame(frame), json: Some(json) });
            }
            other => return self.finish().into_iter().chain([other]).collect(),
        }
        match self.held_bytes < MAX_HELD && self.is_open() {
            true => Vec::new(),
            false => self.finish(),
        }
    }

    /// Returns the remaining steps.
    pub(super) fn finish(&mut self) -> Vec<RecordedStep> {
        for (path, texts) in self.texts() {
            let replaced = replace_across(self.redacted(&texts), &self.values);
            if replaced != texts {
                let mut replaced = replaced.into_iter();
                self.visit(|at, text| {
                    if at == path
                        && let Some(new) = replaced.next()
                    {
                        *text = new;
                    }
                });
            }
        }
        self.held_bytes = 0;
        let mut steps: Vec<RecordedStep> = Vec::new();
        for step in self.held.drain(..).map(HeldPart::into_step) {
            match (steps.last_mut(), step) {
                (Some(RecordedStep::Data(before)), RecordedStep::Data(line)) => before.push_str(&line),
                (_, step) => steps.push(step),
            }
        }
        steps
    }

    /// Returns whether a value or a secret may continue in the next step.
    fn is_open(&mut self) -> bool {
        self.texts().values().any(|texts| {
            let mut redactor = self.secrets.byte_redactor();
            texts.iter().for_each(|text| drop(redactor.push(text.as_bytes())));
            redactor.is_holding() || self.values.is_open_at_end(&texts.concat())
        })
    }

    /// Redacts secrets in texts that follow each other. Returns them as they are if they have none.
    fn redacted(&self, texts: &[String]) -> Vec<String> {
        let mut redactor = self.secrets.byte_redactor();
        let mut clean: Vec<Vec<u8>> = texts.iter().map(|text| redactor.push(text.as_bytes())).collect();
        let rest = redactor.finish();
        clean.iter_mut().rev().take(1).for_each(|last| last.extend_from_slice(&rest));
        match clean.concat() == texts.concat().into_bytes() {
            true => texts.to_vec(),
            false => clean.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
        }
    }

    /// Returns the texts of all parts by their paths: a stream divides a text over the same path of several parts.
    fn texts(&mut self) -> BTreeMap<String, Vec<String>> {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        self.visit(|path, text| texts.entry(path.to_owned()).or_default().push(text.clone()));
        texts
    }

    fn visit(&mut self, mut visit: impl FnMut(&str, &mut String)) {
        let values = self.held.iter_mut().filter_map(|part| part.json.as_mut());
        values.for_each(|(_, value, _)| visit_texts(value, "", &mut visit));
    }
}

impl HeldPart {
    /// Takes a line of server-sent events or of JSON Lines. Values are replaced at once in any other line.
    fn from_line(line: &str, values: &ReplacedValues) -> Self {
        let content = line.trim_start_matches("data:").trim_start();
        let (before, content) = line.split_at(line.len() - content.len());
        let (content, after) = content.split_at(content.trim_end().len());
        let is_composite = content.starts_with(['{', '[']);
        match serde_json::from_str(content).ok().filter(|_| is_composite) {
            Some(value) => {
                let json = Some((before.to_owned(), value, after.to_owned()));
                Self { step: RecordedStep::Data(line.to_owned()), json }
            }
            None => Self { step: RecordedStep::Data(values.replace(line).into_owned()), json: None },
        }
    }

    /// Returns the step, as it was received if no text changed.
    fn into_step(self) -> RecordedStep {
        match (self.step, self.json) {
            (RecordedStep::Data(line), Some((before, value, after))) => {
                let content = &line[before.len()..line.len() - after.len()];
                match serde_json::from_str::<Value>(content).is_ok_and(|received| received == value) {
                    true => RecordedStep::Data(line),
                    false => RecordedStep::Data(format!("{before}{value}{after}")),
                }
            }
            (RecordedStep::Frame(mut frame), Some((_, payload, _))) => {
                frame.payload = payload;
                RecordedStep::Frame(frame)
            }
            (step, _) => step,
        }
    }
}

/// Replaces values in texts that follow each other. A placeholder stands in the text where its value begins.
fn replace_across(texts: Vec<String>, values: &ReplacedValues) -> Vec<String> {
    let whole = texts.concat();
    let ranges = values.matches(&whole, None);
    if ranges.is_empty() {
        return texts;
    }
    let mut start = 0;
    let piece = |text: &String| {
        let end = start + text.len();
        let (mut out, mut done) = (String::new(), start);
        for range in ranges.iter().filter(|range| range.start < end && range.end > start) {
            out.push_str(&whole[done..range.start.clamp(done, end)]);
            if range.start >= start {
                out.push_str(&range.mark);
            }
            done = range.end.min(end);
        }
        out.push_str(&whole[done..end]);
        start = end;
        out
    };
    texts.iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::super::placeholders::RunSurroundings;
    use super::*;
    use jiff::civil::date;
    use secrecy::SecretString;
    use serde_json::json;
    use std::path::Path;

    fn reply() -> ReplyText {
        let surroundings =
            RunSurroundings::new(date(2026, 11, 20)).with_directory("directory", Path::new("/home/ada/work"));
        let secrets = Secrets::default();
        secrets.add(&SecretString::from("sk-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt"));
        ReplyText::new(surroundings.to_record(), secrets)
    }

    fn delta(text: &str) -> RecordedStep {
        RecordedStep::Data(format!("data: {}\n\n", json!({ "delta": { "text": text }, "index": 0 })))
    }

    fn recorded(pieces: &[&str]) -> Vec<RecordedStep> {
        let mut reply = reply();
        let steps: Vec<_> = pieces.iter().flat_map(|piece| reply.push(delta(piece))).collect();
        steps.into_iter().chain(reply.finish()).collect()
    }

    /// Returns the concatenated deltas, and how many there are.
    fn text_of(steps: &[RecordedStep]) -> (String, usize) {
        let mut texts = Vec::new();
        for step in steps {
            let RecordedStep::Data(text) = step else { panic!("{step:?}") };
            let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
            texts.extend(lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["delta"]["text"].clone()));
        }
        (texts.iter().map(|text| text.as_str().unwrap()).collect(), texts.len())
    }

    #[test]
    fn value_that_a_stream_divides_is_replaced() {
        let text = "Read /home/ada/work/a.rs and /home/ada/workshop.";
        let expected = "Read {pinion:directory}/a.rs and /home/ada/workshop.".to_owned();
        for size in [1, 2, 3, 7, 100] {
            let pieces: Vec<&str> =
                (0..text.len()).step_by(size).map(|at| &text[at..text.len().min(at + size)]).collect();
            assert_eq!(text_of(&recorded(&pieces)), (expected.clone(), pieces.len()), "{size}");
        }
    }

    #[test]
    fn secret_that_a_stream_divides_is_redacted() {
        let (text, _) = text_of(&recorded(&["It is sk-live-Zq7X", "w3Vb9Nm2Kp5Ld8", "Rt, really"]));
        assert_eq!(text, "It is sk-[redacted], really");
    }

    #[test]
    fn other_text_is_recorded_at_once_and_as_received() {
        let mut reply = reply();
        let step = RecordedStep::Data("event: x\ndata:  {\"b\":1.50, \"a\" : \"see\"}\n\n".to_owned());
        assert_eq!(reply.push(step.clone()), [step]);
        assert!(reply.push(delta("see /home")).is_empty());
        assert_eq!(reply.push(delta("land")).len(), 1);
    }
}
