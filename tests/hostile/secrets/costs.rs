//! Limits on money need known prices.

use super::*;

fn refused(run: &Ended) {
    assert_eq!(run.code, Some(2), "{run:?}");
    for said in ["the prices of `", "unknown", "models.toml", "--max-cost"] {
        assert!(run.stderr.contains(said), "{said}: {run:?}");
    }
}

#[test]
fn cost_limit_requires_a_known_price() {
    let vendor = Vendor::answering(vec![reply(&json!({ "content": "ok" }), "stop")]);
    let pinion = Pinion::default();
    let model = ["-p", "-m", "openai-chat/unheard-of", "--base-url", &vendor.url];
    refused(&ended(with_key(&pinion, model.into_iter().chain(["--max-cost", "1", "hi"]))));
    pinion.config("[limits]\nmax-cost = 1.0\n");
    refused(&ended(with_key(&pinion, model.into_iter().chain(["hi"]))));
    assert!(vendor.asked.lock().unwrap().is_empty());
}

#[test]
fn cost_limit_requires_prices_of_all_models() {
    let vendor = Vendor::answering(vec![reply(&json!({ "content": "ok" }), "stop")]);
    let known = ["-p", "-m", "openai-chat/gpt-6-sol", "--max-cost", "1", "--base-url", &vendor.url, "hi"];
    for config in [
        "fallback = ['mistral/unheard-of']\n",
        "[branches]\nmodels = ['openai-chat/gpt-6-sol', 'mistral/unheard-of']\n",
    ] {
        let pinion = Pinion::default();
        pinion.config(config);
        let mut command = with_key(&pinion, known);
        command.env("MISTRAL_API_KEY", OTHER);
        refused(&ended(command));
    }
    assert!(vendor.asked.lock().unwrap().is_empty());
    let pinion = Pinion::default();
    assert_eq!(ended(with_key(&pinion, known)).code, Some(0));
}

#[test]
fn script_uses_the_price_of_its_model() {
    let pinion = Pinion::default();
    let script = pinion.script(&[json!({ "text": "ok" })]);
    let run = ["-p", "--replay", script.to_str().unwrap(), "--max-cost", "1"];
    refused(&pinion.run(run.iter().chain(&["hi"])));
    assert_eq!(pinion.run(run.iter().chain(&["-m", "claude-opus-5-5", "hi"])).code, Some(0));
    pinion.config("[limits]\nmax-cost = 1.0\n");
    assert_eq!(pinion.run(run[..3].iter().chain(&["hi"])).code, Some(0));
}

#[test]
fn user_defined_price_counts() {
    let pinion = Pinion::default();
    let vendor = Vendor::answering(vec![reply(&json!({ "content": "ok" }), "stop")]);
    let own = "[[openai-chat.models]]\nid = \"unheard-of\"\nprices = { input = 1.0, output = 2.0 }\n";
    std::fs::write(pinion.home().join("models.toml"), own).unwrap();
    let model = ["-p", "-m", "openai-chat/unheard-of", "--base-url", &vendor.url, "--max-cost", "1", "hi"];
    let run = ended(with_key(&pinion, model));
    assert_eq!(run.code, Some(0), "{run:?}");
}
