//! Results of a plugin that are no values of the contract: bad cases, text that is not UTF-8, and addresses and lengths
//! beyond the memory. The guest `liar` returns the bytes that the test chooses.

use super::{Random, rounds};
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::CommandError;
use pinion_tests::{Sandbox, SandboxBuilder};
use serde_json::json;
use std::fmt::Write as _;
use tokio_util::sync::CancellationToken;

/// Bytes of a result: its fixed part, its lists, and its texts.
const SIZE: usize = 512;
/// A word with this upper half becomes the address of the byte of the result that its lower half names.
const MARK: u32 = 0xa5a5_0000;
/// Bytes of an error that people and models get.
const MAX_ERROR: usize = 64 * 1024;

/// The bytes of a result.
#[derive(Clone)]
struct Lie([u8; SIZE]);

impl Lie {
    /// A result with these words at these offsets, and the text `hello` at offset 256.
    fn new(words: &[(usize, u32)]) -> Self {
        let mut lie = Self([0; SIZE]);
        words.iter().for_each(|(at, word)| lie.put(*at, *word));
        lie.0[256..261].copy_from_slice(b"hello");
        lie
    }

    /// A `tool-output` with one text.
    fn output() -> Self {
        Self::new(&[(4, MARK + 128), (8, 1), (132, MARK + 256), (136, 5)])
    }

    /// A `tool-error` of the kind `failed`.
    fn error() -> Self {
        Self::new(&[(0, 1), (4, 4), (8, MARK + 256), (12, 5)])
    }

    /// One action of a command, `print`.
    fn actions() -> Self {
        Self::new(&[(4, MARK + 128), (8, 1), (132, MARK + 256), (136, 5)])
    }

    fn put(&mut self, at: usize, word: u32) {
        self.0[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    /// Replaces words and bytes at random positions.
    fn twist(&mut self, random: &mut Random) {
        for _ in 0..=random.below(4) {
            // Most of it is in the fixed part and the first elements of a list.
            let at = 4 * if random.below(2) == 0 { random.below(16) } else { random.below(SIZE / 4) };
            let word = u32::try_from(random.next() & 0xffff_ffff).unwrap();
            match random.below(7) {
                0 => self.put(at, MARK + word % 1024),
                1 => self.put(at, word % 8),
                2 => self.put(at, word % 1024),
                3 => self.put(at, *random.pick(&[0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff, 0x10_0000])),
                4 => self.put(at, word),
                5 => self.0[at] = *random.pick(&[1, 2, 5, 11, 0x7f, 0xff]),
                _ => self.0[256 + random.below(8)] = *random.pick(&[0x80, 0xc0, 0xed, 0xf5, 0xff, 0, 0x1b]),
            }
        }
    }

    fn digits(&self) -> String {
        self.0.iter().fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").unwrap();
            digits
        })
    }
}

async fn liar() -> Sandbox {
    SandboxBuilder::default().guest("liar").watched().build().await
}

/// Counts of the ends of results: values, and broken contracts or traps.
#[derive(Default)]
struct Ends {
    values: usize,
    faults: usize,
}

impl Ends {
    /// Random results must have ended in both ways, or they tested nothing.
    fn check(&self) {
        assert!(self.values > 10 && self.faults > 10, "{} values and {} faults", self.values, self.faults);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_result_memory_is_rejected_or_read() {
    let sandbox = liar().await;
    let call = async |lie: &Lie| sandbox.call("lie", json!({ "bytes": lie.digits() })).await;
    assert_eq!(call(&Lie::output()).await.unwrap().content[0].as_text(), Some("hello"));
    let failed = call(&Lie::error()).await.unwrap_err();
    assert!(matches!(&failed, ToolError::Failed { message, .. } if message == "hello"), "{failed:?}");
    let mut ends = Ends::default();
    for mut random in rounds(9) {
        let mut lie = if random.below(3) == 0 { Lie::error() } else { Lie::output() };
        lie.twist(&mut random);
        match call(&lie).await {
            Err(ToolError::Fault { source, .. }) => {
                ends.faults += 1;
                assert!(source.to_string().len() < MAX_ERROR, "{} bytes", source.to_string().len());
            }
            _ => ends.values += 1,
        }
    }
    ends.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn random_memory_of_actions_is_rejected_or_read() {
    let sandbox = liar().await;
    let run = async |lie: &Lie| {
        sandbox.runtime.run_command("lie", &lie.digits(), "session", None, CancellationToken::new()).await
    };
    let printed = run(&Lie::actions()).await.unwrap();
    assert_eq!(printed, [pinion_plugin_runtime::HostAction::Print("hello".to_owned())]);
    let mut ends = Ends::default();
    for mut random in rounds(10) {
        let mut lie = Lie::actions();
        lie.twist(&mut random);
        match run(&lie).await {
            Err(CommandError::Fault(fault)) => {
                ends.faults += 1;
                assert!(fault.to_string().len() < MAX_ERROR, "{} bytes", fault.to_string().len());
            }
            _ => ends.values += 1,
        }
    }
    ends.check();
}

/// Each of these is in the random data, too, but must be found with any seed.
#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_no_values_are_rejected() {
    let sandbox = liar().await;
    let with = |words: &[(usize, u32)]| {
        let mut lie = Lie::output();
        words.iter().for_each(|(at, word)| lie.put(*at, *word));
        lie
    };
    let lies = [
        ("no case of a result", with(&[(0, 2)])),
        ("no case of content", with(&[(128, 3)])),
        ("no case of display", with(&[(24, 5)])),
        ("no case of an option", with(&[(12, 2)])),
        ("a list beyond the memory", with(&[(4, 0xffff_fff0)])),
        ("a list whose size overflows", with(&[(8, 0xffff_ffff)])),
        ("an unaligned list", with(&[(4, MARK + 129)])),
        ("a text beyond the memory", with(&[(132, 0xffff_fff0)])),
        ("a text of 4 GiB", with(&[(136, 0xffff_ffff)])),
        ("a text that is not UTF-8", with(&[(256, 0xffff_ffff)])),
        ("no kind of an error", with(&[(0, 1), (4, 5)])),
        ("an image that is none", with(&[(128, 1), (140, MARK + 256), (144, 5)])),
        ("details that are no JSON", with(&[(12, 1), (16, MARK + 256), (20, 5)])),
    ];
    for (what, lie) in lies {
        let result = sandbox.call("lie", json!({ "bytes": lie.digits() })).await;
        assert!(matches!(result, Err(ToolError::Fault { .. })), "{what}: {result:?}");
    }
}
