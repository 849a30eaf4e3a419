//! Completing an argument out of a list of names.

use pinion_plugin_sdk::Completion;

/// More are not offered.
const OFFERED: usize = 50;

/// The names that begin with what is typed, then those that hold it elsewhere; case does not matter.
pub(crate) fn matching<'a>(names: impl Iterator<Item = (&'a str, Option<&'a str>)>, typed: &str) -> Vec<Completion> {
    let typed = typed.trim().to_ascii_lowercase();
    let mut found: Vec<(usize, Completion)> = names
        .filter_map(|(name, description)| {
            let place = name.to_ascii_lowercase().find(&typed)?;
            let completion = Completion { value: name.to_owned(), description: description.map(str::to_owned) };
            Some((place.min(1), completion))
        })
        .collect();
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().take(OFFERED).map(|(_, completion)| completion).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(names: &[&str], typed: &str) -> Vec<String> {
        matching(names.iter().map(|name| (*name, None)), typed).into_iter().map(|found| found.value).collect()
    }

    #[test]
    fn names_that_begin_with_it_come_first() {
        let names = ["openai/gpt", "gpt-mini", "Sonnet"];
        assert_eq!(values(&names, "GPT"), ["gpt-mini", "openai/gpt"]);
        assert_eq!(values(&names, ""), names);
        assert!(values(&names, "x").is_empty());
    }

    #[test]
    fn no_more_are_offered_than_a_person_reads() {
        assert_eq!(values(&["a"; 200], "a").len(), OFFERED);
    }
}
