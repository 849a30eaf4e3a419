//! Which pictures models accept: their formats, sizes and dimensions.
//!
//! A vendor refuses a request with a picture that it cannot read, and every later request of the session with it. So what
//! is no picture must not get into the history. Only the header is read here: a decoder would be one more way for hostile
//! bytes to reach the host.

use crate::content::Image;

/// Bytes of one picture: five mebibytes as base64, which is the least that a vendor accepts.
pub(crate) const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;
/// Pixels of one side.
const MAX_SIDE: u32 = 8000;

/// The reason a picture cannot be given to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    /// The media type is none that models accept.
    #[error("its media type is none of image/png, image/jpeg, image/gif, image/webp")]
    Type,
    /// The bytes are not of the media type.
    #[error("its bytes are not of its media type")]
    Format,
    /// It is too large.
    #[error("it has {0} bytes, of at most {MAX_IMAGE_BYTES}")]
    Bytes(usize),
    /// It has too many pixels, or none.
    #[error("it has {0} x {1} pixels, of at most {MAX_SIDE} x {MAX_SIDE}")]
    Pixels(u32, u32),
}

impl Image {
    /// Checks that models accept this picture, as far as its header tells.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<(), ImageProblem> {
        self.check_format()?;
        if self.data.len() > MAX_IMAGE_BYTES {
            return Err(ImageProblem::Bytes(self.data.len()));
        }
        match self.pixels() {
            Some((width, height)) if width.min(height) == 0 || width.max(height) > MAX_SIDE => {
                Err(ImageProblem::Pixels(width, height))
            }
            Some(_) => Ok(()),
            None => Err(ImageProblem::Format),
        }
    }

    /// Checks that the picture begins as its media type says.
    ///
    /// # Errors
    /// The media type is not known, or the first bytes are of something else.
    pub fn check_format(&self) -> Result<(), ImageProblem> {
        let data = self.data.as_slice();
        let fits = match self.media_type.as_str() {
            "image/png" => data.starts_with(b"\x89PNG\r\n\x1a\n"),
            "image/jpeg" => data.starts_with(b"\xff\xd8\xff"),
            "image/gif" => data.starts_with(b"GIF87a") || data.starts_with(b"GIF89a"),
            "image/webp" => data.starts_with(b"RIFF") && data.get(8..12) == Some(b"WEBP"),
            _ => return Err(ImageProblem::Type),
        };
        if fits { Ok(()) } else { Err(ImageProblem::Format) }
    }

    /// Width and height; none when the header is cut off or invalid.
    fn pixels(&self) -> Option<(u32, u32)> {
        let data = self.data.as_slice();
        match self.media_type.as_str() {
            "image/png" => (data.get(12..16)? == b"IHDR").then_some((big(data, 16, 4)?, big(data, 20, 4)?)),
            "image/jpeg" => jpeg_pixels(data),
            "image/gif" => Some((little(data, 6, 2)?, little(data, 8, 2)?)),
            "image/webp" => webp_pixels(data),
            _ => None,
        }
    }
}

/// Reads the frame header, behind any number of other segments.
fn jpeg_pixels(data: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *data.get(at)? != 0xff {
            return None;
        }
        match *data.get(at + 1)? {
            // Any number of these may stand before a marker.
            0xff => at += 1,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big(data, at + 7, 2)?, big(data, at + 5, 2)?));
            }
            // Of no length.
            0x01 | 0xd0..=0xd7 => at += 2,
            _ => at += 2 + usize::try_from(big(data, at + 2, 2)?.max(2)).ok()?,
        }
    }
}

fn webp_pixels(data: &[u8]) -> Option<(u32, u32)> {
    match data.get(12..16)? {
        b"VP8X" => Some((little(data, 24, 3)? + 1, little(data, 27, 3)? + 1)),
        b"VP8L" => {
            let bits = little(data, 21, 4)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((little(data, 26, 2)? & 0x3fff, little(data, 28, 2)? & 0x3fff)),
        _ => None,
    }
}

fn big(data: &[u8], at: usize, bytes: usize) -> Option<u32> {
    Some(data.get(at..at + bytes)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(data: &[u8], at: usize, bytes: usize) -> Option<u32> {
    Some(data.get(at..at + bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(media_type: &str, data: &[u8]) -> Image {
        Image { media_type: media_type.to_owned(), data: data.to_vec() }
    }

    fn png(width: u32, height: u32) -> Image {
        let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
        image("image/png", &[b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &sides, b"\x08\x06\0\0\0"].concat())
    }

    #[test]
    fn headers_of_all_four_formats_are_understood() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08\0\x20\0\x10\x03";
        let gif = b"GIF89a\x10\0\x20\0\0\0\0";
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x10\0\x20\0";
        let extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0f\0\0\x1f\0\0";
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x0f\xc0\x07\0";
        let images = [
            png(16, 32),
            image("image/jpeg", jpeg),
            image("image/gif", gif),
            image("image/webp", lossy),
            image("image/webp", extended),
            image("image/webp", lossless),
        ];
        for image in images {
            assert_eq!((image.check(), image.pixels()), (Ok(()), Some((16, 32))), "{image:?}");
        }
    }

    #[test]
    fn what_no_vendor_reads_is_refused() {
        assert_eq!(image("image/svg+xml", b"<svg/>").check(), Err(ImageProblem::Type));
        assert_eq!(image("image/png", b"GIF89a").check(), Err(ImageProblem::Format));
        assert_eq!(image("image/png", b"\x89PNG\r\n\x1a\nand so on").check(), Err(ImageProblem::Format));
        assert_eq!(image("image/jpeg", b"\xff\xd8\xff\xe0\xff\xff").check(), Err(ImageProblem::Format));
        assert_eq!(png(8001, 1).check(), Err(ImageProblem::Pixels(8001, 1)));
        assert_eq!(png(1, 0).check(), Err(ImageProblem::Pixels(1, 0)));
        let mut large = png(1, 1);
        large.data.resize(MAX_IMAGE_BYTES + 1, 0);
        assert_eq!(large.check(), Err(ImageProblem::Bytes(MAX_IMAGE_BYTES + 1)));
    }
}
