//! Compares the outcome of a step with the expected one.

use super::case::StepExpectations;
use super::step::StepOutcome;

/// Reads a file of the workspace of a case.
pub(super) type WorkspaceReader<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Describes the first difference between an outcome and a step's expectations.
pub(super) fn difference(
    expected: &StepExpectations,
    outcome: &StepOutcome,
    workspace: &WorkspaceReader<'_>,
) -> Option<String> {
    if let Some(failure) = of_error(expected, outcome) {
        return Some(failure);
    }
    if let Some(misfit) = &outcome.misfit {
        return Some(misfit.clone());
    }
    of_text(expected, outcome)
        .or_else(|| expected.verdict.as_ref().and_then(|verdict| verdict.difference(outcome.hooked.as_ref())))
        .or_else(|| of_actions(expected, outcome))
        .or_else(|| of_conversation(expected, outcome))
        .or_else(|| of_files(expected, workspace))
}

fn of_error(expected: &StepExpectations, outcome: &StepOutcome) -> Option<String> {
    let fails = expected.fails || expected.verdict.as_ref().is_some_and(|verdict| verdict.is_failure());
    match (&expected.error, &outcome.error) {
        (Some(part), Some(error)) if error.contains(part.as_str()) => None,
        (Some(part), error) => {
            Some(format!("expected an error with `{part}`, got {}", error.as_deref().unwrap_or("a result")))
        }
        (None, None) if fails => Some("expected an error, got a result".to_owned()),
        (None, Some(error)) if !fails => {
            let hint = outcome.hint.as_ref().map(|hint| format!("\nhint: {hint}"));
            Some(format!("{error}{}", hint.unwrap_or_default()))
        }
        (None, _) => None,
    }
}

fn of_text(expected: &StepExpectations, outcome: &StepOutcome) -> Option<String> {
    let text = outcome.text.trim_end_matches('\n');
    if let Some(expected) = expected.output.as_deref().map(|text| text.trim_end_matches('\n'))
        && expected != text
    {
        return Some(format!("expected the output\n{expected}\ngot\n{text}"));
    }
    if let Some(part) = expected.contains.iter().find(|part| !text.contains(part.as_str())) {
        return Some(format!("`{part}` is not in the output\n{text}"));
    }
    let details = expected.details.as_ref().filter(|details| outcome.details.as_ref() != Some(details));
    details.map(|details| {
        let got = outcome.details.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
        format!("expected the details {details}, got {got}")
    })
}

fn of_actions(expected: &StepExpectations, outcome: &StepOutcome) -> Option<String> {
    let pairs = [
        ("submit", &expected.submit, &outcome.submit),
        ("print", &expected.print, &outcome.print),
        ("insert", &expected.insert, &outcome.insert),
    ];
    pairs.into_iter().find_map(|(name, expected, found)| {
        let is_different = expected.is_some() && expected != found;
        is_different.then(|| format!("expected {name} {expected:?}, got {found:?}"))
    })
}

fn of_conversation(expected: &StepExpectations, outcome: &StepOutcome) -> Option<String> {
    let mut offers = expected.offers.clone();
    if let Some(offers) = &mut offers {
        offers.sort();
    }
    let completes = outcome.completes.clone().unwrap_or_default();
    let whole = [
        ("completes", &expected.completes, &completes),
        ("offers", &offers, &outcome.offers),
        ("requests", &expected.requests, &outcome.requests),
        ("called", &expected.called, &outcome.called),
    ];
    let whole = whole.into_iter().find_map(|(name, expected, found)| {
        let expected = expected.as_ref().filter(|expected| *expected != found)?;
        Some(format!("expected {name} {expected:?}, got {found:?}"))
    });
    let parts = [
        ("asked", &expected.asked, &outcome.asked),
        ("prompts", &expected.prompts, &outcome.prompts),
        ("notices", &expected.notices, &outcome.notices),
    ];
    whole.or_else(|| {
        parts.into_iter().find_map(|(name, expected, found)| {
            let expected = expected.as_ref()?;
            let is_same =
                expected.len() == found.len() && expected.iter().zip(found).all(|(part, text)| text.contains(part));
            (!is_same).then(|| format!("expected {name} with {expected:?}, got {found:?}"))
        })
    })
}

fn of_files(expected: &StepExpectations, read: &WorkspaceReader<'_>) -> Option<String> {
    expected.written.iter().find_map(|(name, expected)| {
        let found = read(name);
        (found.as_ref() != Ok(expected)).then(|| match found {
            Ok(found) => format!("expected `{name}` to contain {expected:?}, got {found:?}"),
            Err(problem) => problem,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_names_what_was_expected() {
        let result = |text: &str| StepOutcome { text: text.to_owned(), ..StepOutcome::default() };
        let none = |_: &str| Err("no file".to_owned());
        let differs =
            |text: &str, outcome: &StepOutcome| difference(&StepExpectations::from_toml(text), outcome, &none);
        assert_eq!(differs("output = \"3 words\"", &result("3 words\n")), None);
        assert!(differs("output = \"3 words\"", &result("2 words")).unwrap().contains("2 words"));
        assert!(differs("contains = [\"4\"]", &result("3")).is_some());
        assert!(differs("error = \"denied\"", &result("3")).unwrap().contains("got a result"));
        let denied = StepOutcome {
            error: Some("`t`: denied: no".to_owned()),
            hint: Some("grant it".to_owned()),
            ..StepOutcome::default()
        };
        assert_eq!(differs("error = \"denied\"", &denied), None);
        let unexpected = differs("output = \"3\"", &denied).unwrap();
        assert_eq!(unexpected, "`t`: denied: no\nhint: grant it", "an unexpected error is shown with its remedy");
        assert!(differs("details = { a = 1 }", &result("3")).unwrap().ends_with("got none"));
    }

    #[test]
    fn lists_are_compared_in_order() {
        let outcome = StepOutcome {
            requests: vec!["GET https://a.example/".to_owned()],
            asked: vec!["Delete it?".to_owned()],
            offers: vec!["a".to_owned(), "b".to_owned()],
            ..StepOutcome::default()
        };
        let read = |name: &str| Ok(format!("text of {name}"));
        let differs = |text: &str| difference(&StepExpectations::from_toml(text), &outcome, &read);
        assert_eq!(
            differs("requests = [\"GET https://a.example/\"]\nasked = [\"Delete\"]\noffers = [\"b\", \"a\"]"),
            None
        );
        assert!(differs("requests = []").unwrap().starts_with("expected requests [], got"));
        assert!(differs("asked = [\"Delete\", \"Really\"]").is_some());
        assert_eq!(differs("written = { \"a\" = \"text of a\" }"), None);
        assert!(differs("written = { \"a\" = \"x\" }").unwrap().ends_with("got \"text of a\""));
    }
}
