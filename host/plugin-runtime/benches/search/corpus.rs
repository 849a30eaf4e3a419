//! Files to search: the same in each run, with size and shape of the sources of a large project.

use std::fmt::Write as _;
use std::path::Path;

/// A word that occurs once in each of three files.
pub(crate) const RARE: &str = "quicksilver_lantern";
/// A word that occurs once in a quarter of the files.
pub(crate) const COMMON: &str = "harbour_master";

const DIRECTORIES: usize = 50;
const FILES: usize = 2_000;
const WORDS: [&str; 24] = [
    "anchor", "beacon", "buffer", "cargo", "chart", "compass", "crossing", "deck", "ferry", "harbour", "index", "keel",
    "ledger", "log", "mast", "path", "port", "queue", "ring", "rope", "sail", "signal", "store", "tide",
];

pub(crate) struct Corpus {
    pub(crate) files: usize,
    pub(crate) bytes: usize,
}

/// Writes the files below a directory.
pub(crate) fn write(directory: &Path) -> Corpus {
    let mut numbers = Numbers(42);
    std::fs::write(directory.join(".gitignore"), "target/\n*.log\n!keep.log\n").unwrap();
    let mut bytes = 0;
    for file in 0..FILES {
        let group = file % DIRECTORIES;
        let place = directory.join(format!("crate_{:02}/src/{}", group / 5, WORDS[group % 5]));
        std::fs::create_dir_all(&place).unwrap();
        let text = text(file, &mut numbers);
        bytes += text.len();
        std::fs::write(place.join(format!("{}_{file}.rs", WORDS[file % WORDS.len()])), text).unwrap();
    }
    Corpus { files: FILES, bytes }
}

fn text(file: usize, numbers: &mut Numbers) -> String {
    let mut text = String::new();
    let functions = 1 + numbers.below(36);
    for function in 0..functions {
        let (a, b) = (numbers.word(), numbers.word());
        writeln!(text, "/// Brings the {a} to the {b}.\npub fn {a}_{b}({b}: &mut Vec<u64>) -> u64 {{").unwrap();
        for _ in 0..4 + numbers.below(12) {
            let (a, b, n) = (numbers.word(), numbers.word(), numbers.below(10_000));
            writeln!(text, "    let {a}_{n} = {b}.iter().map(|{a}| {a} * {n}).sum::<u64>();").unwrap();
        }
        if function == functions / 2 && file.is_multiple_of(4) {
            writeln!(text, "    // Ask the {COMMON} first.").unwrap();
        }
        if function == 0 && file % 700 == 33 {
            writeln!(text, "    let {RARE} = 1;").unwrap();
        }
        text.push_str("    0\n}\n\n");
    }
    text
}

/// Knuth's linear congruential generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len() as u64) as usize]
    }
}
