//! Checks the format, size and dimensions of pictures before models get them.
//!
//! A vendor rejects a request with a picture that it cannot decode, and with it every later request of the session. An
//! invalid picture must therefore not enter the history. The check parses only the header, because a decoder would
//! expose the host to hostile bytes.

use crate::content::Image;

/// Maximum bytes of a picture: five mebibytes as base64, the lowest limit of all vendors.
pub(crate) const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;
/// Maximum pixels of either dimension.
const MAX_DIMENSION: u32 = 8000;

/// The reason a picture cannot be given to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    /// Models do not accept the media type.
    #[error("its media type is not one of image/png, image/jpeg, image/gif, image/webp")]
    Type,
    /// The bytes do not match the media type.
    #[error("its bytes do not match its media type")]
    Format,
    /// The file is too large; holds its size in bytes.
    #[error("it has {0} bytes, the maximum is {MAX_IMAGE_BYTES}")]
    Bytes(usize),
    /// A dimension is zero or too large; holds width and height.
    #[error("it has {0} x {1} pixels, the maximum is {MAX_DIMENSION} x {MAX_DIMENSION}")]
    Pixels(u32, u32),
}

impl Image {
    /// Checks that models accept this picture, judging by its header.
    ///
    /// # Errors
    /// Returns the first reason that models would reject it.
    pub fn check(&self) -> Result<(), ImageProblem> {
        self.check_format()?;
        if self.data.len() > MAX_IMAGE_BYTES {
            return Err(ImageProblem::Bytes(self.data.len()));
        }
        match self.pixels() {
            Some((width, height)) if width.min(height) == 0 || width.max(height) > MAX_DIMENSION => {
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

    /// Returns width and height; `None` when the header is truncated or invalid.
    pub fn pixels(&self) -> Option<(u32, u32)> {
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

/// Reads the frame header, which may follow any number of other segments.
fn jpeg_pixels(data: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *data.get(at)? != 0xff {
            return None;
        }
        match *data.get(at + 1)? {
            // Any number of fill bytes may precede a marker.
            0xff => at += 1,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big(data, at + 7, 2)?, big(data, at + 5, 2)?));
            }
            // These segments have no length field.
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
        let dimensions = [width.to_be_bytes(), height.to_be_bytes()].concat();
        image("image/png", &[b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &dimensions, b"\x08\x06\0\0\0"].concat())
    }

    #[test]
    fn headers_of_all_four_formats_are_parsed() {
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
    fn invalid_pictures_are_rejected() {
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
