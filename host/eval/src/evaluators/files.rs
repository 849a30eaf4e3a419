//! Files after the run: equal, containing, absent, and unchanged elsewhere, also outside the workspace.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence};
use crate::case::{EvaluationCase, FileExpectations};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::collections::BTreeSet;

/// Scores the share of expectations of files that are met; all must be.
pub(super) struct FileEvaluator;

impl Evaluator for FileEvaluator {
    fn name(&self) -> &'static str {
        "files"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let files = case.expect.files.as_ref()?;
        let (mut expected, mut findings) = (0, Vec::new());
        let content = |path: &str| evidence.contents.get(path).and_then(Option::as_deref);
        let mut expect = |finding: Option<String>| {
            expected += 1;
            findings.extend(finding);
        };
        for (path, text) in &files.equal {
            expect(match content(path) {
                Some(bytes) if bytes == text.as_bytes() => None,
                Some(_) => Some(format!("`{path}` has other content")),
                None => Some(format!("`{path}` does not exist")),
            });
        }
        for (path, text) in files.contain.iter().flat_map(|(path, texts)| texts.iter().map(move |text| (path, text))) {
            expect(match content(path) {
                Some(bytes) if String::from_utf8_lossy(bytes).contains(text) => None,
                Some(_) => Some(format!("`{path}` does not contain `{text}`")),
                None => Some(format!("`{path}` does not exist")),
            });
        }
        for path in &files.absent {
            expect(content(path).map(|_| format!("`{path}` exists")));
        }
        if files.unchanged_elsewhere {
            expect(elsewhere(files, evidence));
        }
        MetricScore::of_all(self.name(), expected, findings)
    }
}

/// Describes the changes of files that the case does not name.
fn elsewhere(files: &FileExpectations, evidence: &TrialEvidence) -> Option<String> {
    let Some(changes) = &evidence.changes else { return Some("the trial has no workspace".to_owned()) };
    let named: BTreeSet<&str> = files.paths().collect();
    let patterns = patterns(&files.may_change);
    let others =
        changes.iter().filter(|change| !named.contains(change.path.as_str()) && !patterns.is_match(&change.path));
    let others: Vec<String> = others.map(|change| format!("`{}` was {}", change.path, change.kind)).collect();
    (!others.is_empty()).then(|| others.join(", "))
}

/// Returns the patterns, without those that are invalid: the reader of the case refused them.
fn patterns(texts: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    texts.iter().filter_map(|text| Glob::new(text).ok()).for_each(|pattern| {
        builder.add(pattern);
    });
    builder.build().unwrap_or_default()
}

/// Scores whether the directory that the case puts next to the workspace is as before. There is no score without one.
pub(super) struct OutsideEvaluator;

impl Evaluator for OutsideEvaluator {
    fn name(&self) -> &'static str {
        "outside"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        if case.workspace.outside.is_empty() {
            return None;
        }
        let finding = match &evidence.outside_changes {
            Some(changes) => changes.first().map(|change| format!("`../outside/{}` was {}", change.path, change.kind)),
            None => Some("the files outside the workspace were not compared".to_owned()),
        };
        MetricScore::of_all(self.name(), 1, finding.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileChange;
    use super::super::testing::{case, seen};
    use super::*;
    use serde_json::json;

    #[test]
    fn share_of_met_expectations_is_the_score() {
        let expect = json!({ "files": {
            "equal": { "a": "one\n", "b": "two", "g": "" }, "contain": { "c": ["x", "y"], "d": ["z"] }, "absent": ["e", "f"],
        } });
        let mut evidence = TrialEvidence::default();
        for (path, text) in
            [("a", Some("one\n")), ("b", Some("two\n")), ("c", Some("..x..")), ("e", None), ("f", Some(""))]
        {
            evidence.contents.insert(path.to_owned(), text.map(|text| text.as_bytes().to_vec()));
        }
        // Met: `a`, `x` in `c`, and the absence of `e`.
        let (value, passed, findings) = seen(FileEvaluator.evaluate(&case(expect), &evidence)).unwrap();
        assert_eq!((value, passed), (3.0 / 8.0, false));
        let expected = [
            "`b` has other content",
            "`g` does not exist",
            "`c` does not contain `y`",
            "`d` does not exist",
            "`f` exists",
        ];
        assert_eq!(findings, expected.map(str::to_owned));
    }

    #[test]
    fn other_files_may_not_change() {
        let expect = |files| case(json!({ "files": files }));
        let change = |path: &str, kind| FileChange { path: path.to_owned(), kind };
        let changes = vec![change("a", "changed"), change("target/x/y", "created"), change("b", "deleted")];
        let evidence = |changes| TrialEvidence {
            changes,
            contents: [("a".to_owned(), Some(b"1".to_vec()))].into(),
            ..TrialEvidence::default()
        };
        let strict = json!({ "equal": { "a": "1" }, "unchanged-elsewhere": true });
        let score = |expected, changes| seen(FileEvaluator.evaluate(&expect(expected), &evidence(changes))).unwrap();
        let (value, _, findings) = score(strict.clone(), Some(changes.clone()));
        assert_eq!((value, findings), (0.5, vec!["`target/x/y` was created, `b` was deleted".to_owned()]));
        let lax = json!({ "equal": { "a": "1" }, "unchanged-elsewhere": true, "may-change": ["target/**", "b"] });
        assert_eq!(score(lax, Some(changes)), (1.0, true, vec![]));
        assert!(!score(strict, None).1);
    }

    #[test]
    fn any_change_outside_fails() {
        let case: EvaluationCase =
            serde_json::from_value(json!({ "id": "a", "prompt": "go", "workspace": { "outside": { "a": "1" } } }))
                .unwrap();
        let evaluate = |outside_changes| {
            let evidence = TrialEvidence { outside_changes, ..TrialEvidence::default() };
            seen(OutsideEvaluator.evaluate(&case, &evidence)).unwrap()
        };
        assert_eq!(evaluate(Some(Vec::new())), (1.0, true, vec![]));
        let change = FileChange { path: "b".to_owned(), kind: "created" };
        assert_eq!(evaluate(Some(vec![change])), (0.0, false, vec!["`../outside/b` was created".to_owned()]));
        assert!(!evaluate(None).1);
        let inside = super::super::testing::case(json!({}));
        assert_eq!(OutsideEvaluator.evaluate(&inside, &TrialEvidence::default()), None);
    }
}
