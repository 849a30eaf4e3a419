//! A model that lets tools repeat guesses of a key, and gets all of them back unchanged.

use super::*;
use crate::hostile::credential_theft::guesses::guesses;

#[test]
fn model_and_programs_get_back_every_guess() {
    let pinion = Pinion::default();
    let mut replies = Vec::new();
    let guesses = guesses(SECRET);
    let texts: Vec<String> = guesses.chunks(1_000).map(|batch| batch.join("!\n")).collect();
    for (at, text) in texts.iter().enumerate() {
        let name = format!("guesses-{at}");
        pinion.write(&name, format!("{text}\n"));
        // A guess in words of the model, too.
        let (chosen, command) = (&guesses[at], format!("cat {name}; printf %s '{}'", guesses[at].replace('\'', "")));
        replies.push(json!({ "text": chosen, "calls": [{ "tool": "bash", "arguments": { "command": command } }] }));
    }
    replies.push(json!({ "text": "done" }));
    let run = scripted(&pinion, &replies);
    assert_eq!(run.code, Some(0), "{run:?}");
    for text in &texts {
        let shown = json!(text.lines().last().unwrap()).to_string();
        assert!(run.stdout.contains(shown.trim_matches('"')), "{text}");
    }
    assert!(!run.stdout.contains("[redacted]"), "{}", run.stdout.find("[redacted]").unwrap_or_default());
}
