//! Names of contents in git: the SHA-1 digest of a header and the content.
//!
//! A binary patch names the contents before and after it, and git compares the names with the files. SHA-1 protects
//! nothing here: the contents themselves come from the store, which checks their BLAKE3 digests.

use std::fmt;

/// The name of a content in git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BlobId([u8; 20]);

impl BlobId {
    /// Returns the name of bytes in memory.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut hasher = BlobHasher::new(bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Computes the name of a content that is read in parts.
pub(super) struct BlobHasher {
    state: [u32; 5],
    block: [u8; 64],
    /// Bytes in the block.
    filled: usize,
    length: u64,
}

impl BlobHasher {
    /// Begins a content of `size` bytes.
    pub(super) fn new(size: u64) -> Self {
        let state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
        let mut hasher = Self { state, block: [0; 64], filled: 0, length: 0 };
        hasher.update(format!("blob {size}\0").as_bytes());
        hasher
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        while !bytes.is_empty() {
            let taken = bytes.len().min(64 - self.filled);
            let (now, later) = bytes.split_at(taken);
            self.block[self.filled..self.filled + taken].copy_from_slice(now);
            self.filled += taken;
            bytes = later;
            if self.filled == 64 {
                self.compress();
                self.filled = 0;
            }
        }
    }

    pub(super) fn finish(mut self) -> BlobId {
        let bits = self.length.wrapping_mul(8);
        let zeros = (119 - self.filled) % 64;
        self.update(&[0x80]);
        self.update(&[0; 64][..zeros]);
        self.update(&bits.to_be_bytes());
        let mut id = [0; 20];
        for (to, word) in id.chunks_exact_mut(4).zip(self.state) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        BlobId(id)
    }

    fn compress(&mut self) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(self.block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = self.state;
        for (round, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match round / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (word, change) in self.state.iter_mut().zip([a, b, c, d, e]) {
            *word = word.wrapping_add(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_the_names_that_git_gives_them() {
        let known = [
            (String::new(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            ("hello\n".to_owned(), "ce013625030ba8dba906f756967f9e9ca394464a"),
            ("a".repeat(1000), "f20d6e7dc1cc4ccd45fcfcc2d34dd07df21f0c84"),
        ];
        for (text, id) in &known[..2] {
            assert_eq!(BlobId::from_bytes(text.as_bytes()).to_string(), *id);
        }
        // Every length around the borders of a block, in one part and in several.
        for length in 0..200 {
            let bytes = vec![7; length];
            let mut parts = BlobHasher::new(length as u64);
            bytes.chunks(13).for_each(|part| parts.update(part));
            assert_eq!(parts.finish(), BlobId::from_bytes(&bytes), "{length}");
        }
    }
}
