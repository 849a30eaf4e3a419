//! Completion of an argument from a list of names.

use pinion_plugin_sdk::Completion;

/// Maximum number of candidates.
const OFFERED: usize = 50;

/// Returns the names that start with `typed`, then those that contain it; case-insensitive.
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
    fn prefix_matches_come_first() {
        let names = ["openai/gpt", "gpt-mini", "Sonnet"];
        assert_eq!(values(&names, "GPT"), ["gpt-mini", "openai/gpt"]);
        assert_eq!(values(&names, ""), names);
        assert!(values(&names, "x").is_empty());
    }

    #[test]
    fn number_of_candidates_is_bounded() {
        assert_eq!(values(&["a"; 200], "a").len(), OFFERED);
    }
}
