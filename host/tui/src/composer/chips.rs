//! Pasted blocks that the text shows as a single sign.
//!
//! In the text, a block is one character of a private area, so that the cursor moves over it as a whole, and so that
//! editing costs the same for any size.

use std::collections::{BTreeMap, BTreeSet};

/// The characters that stand for blocks.
const FIRST: u32 = 0xf_0000;
const MAX_CHIPS: u32 = 4_096;

/// Pasted text of at least as many lines or characters becomes a block.
const LINES: usize = 6;
const CHARACTERS: usize = 1_000;
/// Bytes of a block that can be opened in place; a larger one opens in the external editor.
pub(crate) const MAX_OPEN: usize = 64 * 1024;

/// Pasted blocks, by the number of their character.
#[derive(Debug, Default)]
pub(crate) struct Chips(BTreeMap<u32, Chip>);

#[derive(Debug)]
struct Chip {
    text: String,
    label: String,
}

impl Chips {
    /// Returns whether a pasted text becomes a block.
    pub(super) fn is_block(text: &str) -> bool {
        text.len() >= CHARACTERS || text.matches('\n').count() + 1 >= LINES
    }

    /// Keeps a block and returns the character that stands for it; `None` when there are too many.
    pub(super) fn add(&mut self, text: String) -> Option<char> {
        let number = (0..MAX_CHIPS).find(|number| !self.0.contains_key(number))?;
        let size = match text.lines().count() {
            0 | 1 => format!("{} characters", text.chars().count()),
            lines => format!("{lines} lines"),
        };
        self.0.insert(number, Chip { text, label: format!("[pasted {size}]") });
        char::from_u32(FIRST + number)
    }

    fn chip(&self, c: char) -> Option<&Chip> {
        u32::from(c).checked_sub(FIRST).and_then(|number| self.0.get(&number))
    }

    /// Returns the label of a block.
    pub(super) fn label(&self, cluster: &str) -> Option<&str> {
        let mut characters = cluster.chars();
        let label = self.chip(characters.next()?)?.label.as_str();
        characters.next().is_none().then_some(label)
    }

    /// Returns the text of a block.
    pub(super) fn text(&self, c: char) -> Option<&str> {
        self.chip(c).map(|chip| chip.text.as_str())
    }

    /// Replaces each block by its text.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len());
        for c in text.chars() {
            match self.chip(c) {
                Some(chip) => whole.push_str(&chip.text),
                None => whole.push(c),
            }
        }
        whole
    }

    /// Forgets the blocks whose character is missing from all texts.
    pub(super) fn retain<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        let used: BTreeSet<u32> = texts.flat_map(str::chars).filter_map(|c| u32::from(c).checked_sub(FIRST)).collect();
        self.0.retain(|number, _| used.contains(number));
    }
}

/// Replaces the characters that stand for blocks in a text from outside, and line ends of other systems.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().map(|c| if (FIRST..FIRST + MAX_CHIPS).contains(&u32::from(c)) { '\u{fffd}' } else { c }).collect()
}
