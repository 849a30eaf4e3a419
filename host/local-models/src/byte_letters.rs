//! The alphabet in which vocabularies of the kind `gpt2` write bytes: printable characters stand for themselves, and the
//! other bytes for letters from U+0100 on.

/// Returns whether a byte stands for the character with its number.
const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// Returns the letter of a byte.
pub(crate) fn letter_of(byte: u8) -> char {
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !is_printable(*byte)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the bytes that a token of the vocabulary stands for; `None` if it has other letters.
pub(crate) fn bytes_of(token: &str, letters: &[char; 256]) -> Option<Vec<u8>> {
    token.chars().map(|letter| byte_of(letter, letters)).collect()
}

/// Returns the letters of all bytes.
pub(crate) fn letters() -> [char; 256] {
    std::array::from_fn(|byte| letter_of(byte as u8))
}

fn byte_of(letter: char, letters: &[char; 256]) -> Option<u8> {
    if let Ok(byte) = u8::try_from(u32::from(letter)) {
        return is_printable(byte).then_some(byte);
    }
    // Letters from U+0100 on are the 68 bytes that are not printable, in their order.
    letters.iter().position(|other| *other == letter).and_then(|at| u8::try_from(at).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_letter_of_its_own() {
        let letters = letters();
        for byte in 0..=255_u8 {
            assert_eq!(bytes_of(&letters[byte as usize].to_string(), &letters), Some(vec![byte]));
        }
        assert_eq!((letter_of(b' '), letter_of(b'\n'), letter_of(b'a')), ('Ġ', 'Ċ', 'a'));
        assert_eq!(bytes_of("日", &letters), None);
    }
}
