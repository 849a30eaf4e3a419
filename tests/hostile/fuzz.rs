//! Random bytes wherever a plugin supplies data: component, manifest, lists of tools and commands, schemas, in [`lift`] the
//! memory of results, and in [`data`] arguments, results, settings, config and grants. Each target runs briefly, for 120 s
//! with `PINION_LONG=1`, or for `PINION_FUZZ_SECONDS` if set; the seed is fixed. Nothing may panic or hang. With the last
//! variable set, the process must stay below 512 MB.

mod data;
mod lift;

use pinion_plugin_runtime::Inspection;
use pinion_tests::{SandboxBuilder, guest};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// More time than one load may take within its own limits.
const HANG: Duration = Duration::from_secs(60);

/// Bytes of a description: the lists of a plugin, whose texts are bounded.
const MAX_DESCRIPTION: usize = 16 * 1024 * 1024;

/// A small random number generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Mutates bytes at random positions: flips, removes, repeats and inserts.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(6) {
            let (at, length) = (self.below(bytes.len()), 1 + self.below(64));
            let end = (at + length).min(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = *self.pick(&[0, 1, 0x7f, 0x80, 0xff, b'{', b'"', 0x1b]),
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let piece = bytes[at..end].repeat(1 + self.below(40));
                    bytes.splice(at..at, piece);
                }
                4 => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x0f])),
                _ => drop(bytes.splice(at..at, b"\x1b[2J\xe2\x80\xae{\"$ref\":\"#\"}".iter().copied())),
            }
        }
    }

    /// Replaces letters by others at random positions, which keeps the structure of a binary format, and changes names,
    /// interfaces and versions.
    fn respell(&mut self, bytes: &mut [u8]) {
        let letters: Vec<usize> = (0..bytes.len().saturating_sub(2))
            .filter(|at| bytes[*at..at + 3].iter().all(|byte| byte.is_ascii_alphanumeric() || b"-./:@".contains(byte)))
            .collect();
        for _ in 0..=self.below(3) {
            if !letters.is_empty() {
                let at = *self.pick(&letters);
                bytes[at] = *self.pick(b"aZ09-./:@_ ");
            }
        }
    }
}

/// Returns one generator per round until the time is over.
fn rounds(seed: u64) -> impl Iterator<Item = Random> {
    let seconds = std::env::var("PINION_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds = seconds.unwrap_or(if std::env::var_os("PINION_LONG").is_some() { 120 } else { 2 });
    let end = Instant::now() + Duration::from_secs(seconds);
    (0..).map(move |n: u64| Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n + 1))).take_while(move |_| {
        let is_alone = std::env::var_os("PINION_FUZZ_SECONDS").is_some();
        assert!(!is_alone || peak_kilobytes() < 512 * 1024, "more than 512 MB: {} kB", peak_kilobytes());
        Instant::now() < end
    })
}

fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn random_component_is_rejected_or_described() {
    let seeds = ["echo", "loiter", "counter"].map(|name| std::fs::read(guest(name)).unwrap());
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("random.wasm");
    for mut random in rounds(1) {
        let mut bytes = random.pick(&seeds).clone();
        match random.below(2) {
            0 => random.mutate(&mut bytes),
            _ => random.respell(&mut bytes),
        }
        // Most inputs end here cheaply; the rest is compiled, linked and run.
        if Inspection::from_component(&bytes).is_ok() {
            std::fs::write(&file, &bytes).unwrap();
            let builder = SandboxBuilder::default().file(file.clone()).cache(directory.path());
            let sandbox = tokio::time::timeout(HANG, builder.build()).await.unwrap();
            for plugin in sandbox.runtime.plugins() {
                let described = sandbox.runtime.description(&plugin.name).await.expect("no description of a plugin");
                let read: Value = serde_json::from_str(&described).unwrap();
                assert!(described.len() < MAX_DESCRIPTION && read.is_object(), "{} bytes", described.len());
            }
        }
    }
}

/// A component that contains only a manifest.
fn with_manifest(json: &[u8]) -> Vec<u8> {
    let name = b"pinion:manifest";
    let mut component = b"\0asm\x0d\0\x01\0\0".to_vec();
    let mut length = 1 + name.len() + json.len();
    while length >= 0x80 {
        component.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    component.push(u8::try_from(length).unwrap());
    component.push(u8::try_from(name.len()).unwrap());
    component.extend_from_slice(name);
    component.extend_from_slice(json);
    component
}

#[test]
fn random_manifest_is_rejected_or_read() {
    let seeds = [
        r#"{"manifest":1,"api":"0.1.0","name":"x","version":"1","description":"a plugin","capabilities":{"files":"write","process":true},"limits":{"fuel":1,"deadline-ms":2},"lifetime":"session"}"#,
        r#"{"manifest":1,"api":"0.1.0","name":"x","version":"1"}"#,
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    ];
    for mut random in rounds(2) {
        for _ in 0..100 {
            let mut json = random.pick(&seeds).as_bytes().to_vec();
            random.mutate(&mut json);
            let mut component = with_manifest(&json);
            if random.below(4) == 0 {
                random.mutate(&mut component);
            }
            drop(Inspection::from_component(&component));
        }
    }
}

/// Mutates a seed into another valid text.
fn text(random: &mut Random, seed: &str) -> String {
    let mut bytes = seed.as_bytes().to_vec();
    if random.below(2) == 0 {
        random.mutate(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

const SCHEMAS: [&str; 5] = [
    r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}},"required":["a"]}"#,
    r##"{"type":"object","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"properties":{"x":{"$ref":"#/$defs/a"}}}"##,
    r#"{"type":"object","anyOf":[{"oneOf":[{"not":{"type":"null"}}]}],"patternProperties":{"(((((((x{50}){50}){50}){50}){50}))":{}}}"#,
    r#"{"type":"object","properties":{"a":{"enum":[1,2,3],"minimum":1e308,"multipleOf":1e-300}}}"#,
    r#"{"type":"object","properties":{"a":{"type":"array","minItems":18446744073709551615,"uniqueItems":true}}}"#,
];

/// Returns a tool or command; one in twenty has a text of `long` characters.
fn listed(random: &mut Random, long: usize) -> Value {
    let schema = *random.pick(&SCHEMAS);
    let description = text(random, "Does something.");
    let repeat = if random.below(20) == 0 { long / description.len().max(1) } else { 1 };
    json!({
        "name": text(random, "tool_name"),
        "label": text(random, "A label"),
        "description": description.repeat(repeat),
        "schema": text(random, schema),
        "guidelines": (0..random.below(3)).map(|_| text(random, "Use it well.")).collect::<Vec<_>>(),
    })
}

/// Loads the guest `lister` with these tools and commands and calls every tool offered.
async fn offer(tools: Vec<Value>, commands: Vec<Value>) {
    let config = json!({ "tools": tools, "commands": commands });
    let builder = SandboxBuilder::default().guest("lister").config("lister", config);
    let offered = async {
        let sandbox = builder.build().await;
        let names: Vec<String> = sandbox.runtime.plugins().into_iter().flat_map(|plugin| plugin.tools).collect();
        for name in names {
            drop(sandbox.call(&name, json!({ "a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" })).await);
        }
    };
    tokio::time::timeout(HANG, offered).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn random_tool_list_is_rejected_or_offered() {
    for mut random in rounds(3) {
        // Never both, because this process holds every list several times.
        let (count, long) = if random.below(20) == 0 { (600, 10_000) } else { (random.below(4), 1_000_000) };
        let tools = (0..count).map(|_| listed(&mut random, long)).collect();
        let commands = (0..random.below(3)).map(|_| listed(&mut random, long)).collect();
        offer(tools, commands).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_schema_is_rejected_or_checked() {
    for mut random in rounds(4) {
        let mut schema = random.pick(&SCHEMAS).to_string();
        for _ in 0..random.below(4) {
            schema = text(&mut random, &schema);
        }
        offer(vec![json!({ "name": "tool", "label": "l", "description": "d", "schema": schema })], Vec::new()).await;
    }
}
