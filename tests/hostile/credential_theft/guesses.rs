//! A plugin that lets a server repeat guesses of a secret, and gets all of them back unchanged.

use super::*;
use pinion_tests::{HttpServer, answer};

const GUESSES: usize = 10_000;

/// Returns guesses: all parts of the secret in all its forms, and random texts.
pub(crate) fn guesses(secret: &'static str) -> Vec<String> {
    let parts = |text: String| {
        let ranges =
            (0..text.len()).flat_map(|from| (from + 1..=text.len()).map(move |to| (from, to))).collect::<Vec<_>>();
        ranges.into_iter().map(move |(from, to)| text[from..to].to_owned()).collect::<Vec<_>>()
    };
    let whole = pinion_agent::secrets::Secrets::default();
    whole.add(&SecretString::from(secret));
    let all = forms(secret).into_iter().flat_map(|(_, form)| parts(form));
    let mut all: Vec<String> = all.filter(|guess| !whole.are_in(guess.as_bytes())).collect();
    // The shortest ones are the steps of a search.
    all.sort_by_key(String::len);
    all.dedup();
    all.truncate(GUESSES / 2);
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:x}", state >> 8)
    };
    all.resize_with(GUESSES, &mut random);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_gets_back_every_guess() {
    /// Guesses in a response; the guest returns at most 4,096 bytes of it.
    const BATCH: usize = 200;
    let whole = forms(SECRET).into_iter().map(|(_, form)| form).collect::<Vec<_>>().join("\n");
    let texts: Vec<String> = guesses(SECRET).chunks(BATCH).map(|batch| batch.join("!\n")).chain([whole]).collect();
    let bodies = texts.clone();
    let server = HttpServer::start(move |request| {
        let at: usize = request.uri().path().rsplit('/').next().unwrap().parse().unwrap();
        answer(200, &[], bodies[at].clone())
    })
    .await;
    let network = TestNetwork::new();
    network.serves("127.0.0.1", server.address());
    let rules = ["http://localhost:3000", "http://own.localhost:4000"];
    let sandbox = builder(&network, Vault::of_all_placements(), &rules).build().await;
    for client in CLIENTS {
        // The credential's server gets it. The plugin's own never does, so that not even the whole secret is compared.
        for (origin, secret, count) in [(rules[0], Some("bearer"), GUESSES / BATCH), (rules[1], None, texts.len())] {
            for at in 0..count {
                let url = format!("{origin}/v1/{at}");
                let request = secret.map_or_else(|| json!({ "url": url }), |secret| with(client, secret, &url));
                let (outcomes, _) = send(&sandbox, client, json!({ "requests": [request] })).await;
                let text = &texts[at][..texts[at].len().min(4_096)];
                assert!(outcomes[0]["body"] == json!(text), "{origin}: {}", outcomes[0]);
            }
        }
    }
}
