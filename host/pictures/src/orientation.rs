//! The orientation of photographs, which cameras note instead of turning the pixels.

use crate::bitmap::Bitmap;

/// Number of the tag for the orientation.
const ORIENTATION: u16 = 0x0112;
/// Number of the tag's type: a number of two bytes.
const SHORT: u16 = 3;

/// Reads the orientation, 1 to 8, from Exif data; 1, which is upright, if there is no valid one.
pub(crate) fn from_exif(exif: &[u8]) -> u16 {
    find(exif).filter(|orientation| (1..=8).contains(orientation)).unwrap_or(1)
}

fn find(exif: &[u8]) -> Option<u16> {
    let is_little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = [*exif.get(at)?, *exif.get(at + 1)?];
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let (first, second) = (usize::from(short(4)?), usize::from(short(6)?));
    let start = if is_little { second << 16 | first } else { first << 16 | second };
    let entries = (0..usize::from(short(start)?)).map(|entry| start + 2 + 12 * entry);
    let mut orientations = entries.map_while(|at| Some((at, short(at)?, short(at + 2)?)));
    let (at, ..) = orientations.find(|(_, tag, kind)| (*tag, *kind) == (ORIENTATION, SHORT))?;
    short(at + 8)
}

impl Bitmap {
    /// Turns and mirrors the picture, so that it is upright without a note of its orientation.
    pub(crate) fn oriented(self, orientation: u16) -> Self {
        let (right, bottom) = (self.width - 1, self.height - 1);
        let source = |x: usize, y: usize| match orientation {
            2 => (right - x, y),
            3 => (right - x, bottom - y),
            4 => (x, bottom - y),
            5 => (y, x),
            6 => (y, bottom - x),
            7 => (right - y, bottom - x),
            8 => (right - y, x),
            _ => (x, y),
        };
        if !(2..=8).contains(&orientation) {
            return self;
        }
        let (width, height) = if orientation >= 5 { (self.height, self.width) } else { (self.width, self.height) };
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let (x, y) = source(x, y);
            bytes.extend_from_slice(&self.bytes[(y * self.width + x) * self.channels..][..self.channels]);
        }
        Self { width, height, channels: self.channels, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orientation_is_read_in_both_byte_orders() {
        let little = b"II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x01\0\0\0aaaa\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0";
        assert_eq!((from_exif(little), from_exif(big)), (6, 8));
    }

    #[test]
    fn damaged_notes_leave_the_picture_as_it_is() {
        let beyond = b"II*\0\xff\xff\xff\xff";
        let turned_too_far = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0";
        let cut = b"II*\0\x08\0\0\0\xff\xff\x12\x01\x02\0";
        for exif in [&b""[..], b"II*", b"other stuff", beyond, turned_too_far, cut] {
            assert_eq!(from_exif(exif), 1, "{exif:?}");
        }
    }

    #[test]
    fn pictures_are_turned_upright() {
        let bitmap = || Bitmap::new((3, 2), 1, vec![1, 2, 3, 4, 5, 6]).unwrap();
        let expected: [(u16, usize, &[u8]); 9] = [
            (1, 3, &[1, 2, 3, 4, 5, 6]),
            (2, 3, &[3, 2, 1, 6, 5, 4]),
            (3, 3, &[6, 5, 4, 3, 2, 1]),
            (4, 3, &[4, 5, 6, 1, 2, 3]),
            (5, 2, &[1, 4, 2, 5, 3, 6]),
            (6, 2, &[4, 1, 5, 2, 6, 3]),
            (7, 2, &[6, 3, 5, 2, 4, 1]),
            (8, 2, &[3, 6, 2, 5, 1, 4]),
            (9, 3, &[1, 2, 3, 4, 5, 6]),
        ];
        for (orientation, width, bytes) in expected {
            let turned = bitmap().oriented(orientation);
            assert_eq!((turned.width, turned.bytes.as_slice()), (width, bytes), "orientation {orientation}");
        }
    }
}
