//! The JUnit format: test suites, which may contain each other, with test cases.

use roxmltree::{Document, Node, ParsingOptions};

/// The most elements of a report, so that no report takes all memory.
const MAX_NODES: u32 = 1_000_000;

/// The tests of a report.
pub(crate) struct Report {
    tests: Vec<Test>,
}

/// One test.
pub(crate) struct Test {
    /// The class and the name.
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// The message of the failure, unless the test passed or was skipped.
    pub(crate) failure: Option<String>,
    is_skipped: bool,
}

impl Report {
    /// # Errors
    /// The text is not XML, or has no test cases.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|error| error.to_string())?;
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        let tests: Vec<Test> = cases.map(Test::of).collect();
        match tests.is_empty() {
            true => Err("no test case: is it a report in the JUnit format?".to_owned()),
            false => Ok(Self { tests }),
        }
    }

    /// Returns the numbers of tests that passed, failed and were skipped.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        let failed = self.failures().count();
        let skipped = self.tests.iter().filter(|test| test.is_skipped).count();
        (self.tests.len() - failed - skipped, failed, skipped)
    }

    pub(crate) fn failures(&self) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(|test| test.failure.is_some())
    }

    /// Returns the sum of the times of all tests.
    pub(crate) fn seconds(&self) -> f64 {
        self.tests.iter().map(|test| test.seconds).sum()
    }
}

impl Test {
    fn of(case: Node<'_, '_>) -> Self {
        let attribute = |name| case.attribute(name).unwrap_or_default();
        let name = match attribute("classname") {
            "" => attribute("name").to_owned(),
            class => format!("{class}::{}", attribute("name")),
        };
        let child = |names: [&str; 2]| case.children().find(|child| names.iter().any(|name| child.has_tag_name(*name)));
        let failure = child(["failure", "error"]).map(|failure| {
            let text = failure.text().unwrap_or_default().trim();
            let message = failure.attribute("message").unwrap_or_default().trim();
            if text.contains(message) { text.to_owned() } else { format!("{message}\n{text}").trim().to_owned() }
        });
        let is_skipped = failure.is_none() && child(["skipped", "disabled"]).is_some();
        let seconds = attribute("time").replace(',', "").parse().unwrap_or(0.0);
        Self { name, seconds, failure, is_skipped }
    }

    /// Returns the two values of a failed comparison in Rust as a diff.
    pub(crate) fn difference(&self) -> Option<String> {
        let lines = self.failure.as_deref()?.lines();
        let value = |side: &str| lines.clone().find_map(|line| line.trim().strip_prefix(side)).map(str::trim);
        Some(format!("-{}\n+{}", value("left:")?, value("right:")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_an_error() {
        for text in ["", "not xml", "<html/>", "<testsuite></testsuite>", "<testcase>"] {
            assert!(Report::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn entities_that_expand_without_end_are_refused() {
        let text = "<!DOCTYPE x [<!ENTITY a \"&b;&b;\"><!ENTITY b \"&a;&a;\">]><testcase name=\"&a;\"/>";
        assert!(Report::parse(text).is_err());
    }

    #[test]
    fn suites_may_contain_each_other() {
        let text = "<testsuites><testsuite><testsuite><testcase name='a' time='1,000.5'/></testsuite></testsuite>\
                    <testsuite><testcase classname='m' name='b'><error message='boom'/></testcase></testsuite></testsuites>";
        let report = Report::parse(text).unwrap();
        assert_eq!((report.totals(), report.seconds()), ((1, 1, 0), 1000.5));
        let failure = report.failures().next().unwrap();
        assert_eq!((failure.name.as_str(), failure.failure.as_deref()), ("m::b", Some("boom")));
    }
}
