//! Smaller copies of pictures that are too large for models.
//!
//! [`fit`] returns a picture within the limits of [`Image::check`], and [`FittingTools`] applies it to the results of
//! tools. Only a picture over these limits is decoded. The decoders forbid unsafe code, and pixels, bytes and time are
//! bounded.

mod bitmap;
mod decode;
mod orientation;
mod tools;

pub use tools::FittingTools;

use bitmap::Bitmap;
use pinion_protocol::{Image, ImageProblem};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Maximum bytes of a picture that is decoded. Callers need not read more of a file.
pub const MAX_PICTURE_BYTES: usize = 32 * 1024 * 1024;
/// Maximum pixels of a picture that is decoded.
const MAX_PIXELS: usize = 40_000_000;
/// Pixels of the longer side of a copy: vendors scale larger pictures down to about this size.
const LONGER_SIDE: usize = 1568;
/// Pixels of the longer side below which no copy is tried.
const SHORTEST: usize = 64;

/// Decoding takes hundreds of megabytes at the maximum, so pictures are decoded one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A picture that models accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FittedImage {
    /// The picture, or its smaller copy.
    pub image: Image,
    /// The sizes before and after, if the picture is a smaller copy.
    pub scaled: Option<ScaledSizes>,
}

/// The sizes of a picture and of its smaller copy, in pixels: `8064 x 6048 to 1568 x 1176 pixels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaledSizes {
    /// Width and height of the picture.
    pub from: (usize, usize),
    /// Width and height of the copy.
    pub to: (usize, usize),
}

impl fmt::Display for ScaledSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((width, height), (to_width, to_height)) = (self.from, self.to);
        write!(f, "{width} x {height} to {to_width} x {to_height} pixels")
    }
}

/// The reason a picture cannot be given to a model, even in a smaller copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitImage {
    /// Models refuse the picture for another reason than its size.
    #[error(transparent)]
    Refused(ImageProblem),
    /// The picture is too large, and there is no smaller copy.
    #[error("{problem}, and it was not scaled down: {cause}")]
    NotScaled {
        /// The limit that the picture exceeds.
        problem: ImageProblem,
        /// The reason there is no copy.
        cause: String,
    },
}

/// Returns a picture that models accept: the given one, or a smaller copy as PNG if it has too many bytes or pixels.
/// Blocks while another picture is decoded.
///
/// # Errors
/// The picture is damaged, of another format, or too large to be decoded.
pub fn fit(image: Image) -> Result<FittedImage, UnfitImage> {
    let problem = match image.check() {
        Ok(()) => return Ok(FittedImage { image, scaled: None }),
        Err(problem) if !is_too_large(&image, problem) => return Err(UnfitImage::Refused(problem)),
        Err(problem) => problem,
    };
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let decoding = thread::Builder::new().name("pinion-picture".to_owned()).spawn(move || smaller_copy(&image));
    let copy = decoding.map_err(|error| error.to_string()).and_then(|decoding| {
        decoding.join().unwrap_or_else(|_| Err("the decoder does not support this file".to_owned()))
    });
    copy.map_err(|cause| UnfitImage::NotScaled { problem, cause })
}

/// Returns whether a smaller copy of the picture may be acceptable.
fn is_too_large(image: &Image, problem: ImageProblem) -> bool {
    let has_pixels = || image.pixels().is_some_and(|(width, height)| width.min(height) > 0);
    matches!(problem, ImageProblem::Bytes(_) | ImageProblem::Pixels(..)) && has_pixels()
}

fn smaller_copy(image: &Image) -> Result<FittedImage, String> {
    if image.data.len() > MAX_PICTURE_BYTES {
        return Err(format!("it has more than {MAX_PICTURE_BYTES} bytes"));
    }
    let size = image.pixels().map(|(width, height)| (width as usize, height as usize));
    let size = size.filter(|(width, height)| width.checked_mul(*height).is_some_and(|pixels| pixels <= MAX_PIXELS));
    let size = size.ok_or_else(|| format!("it has more than {MAX_PIXELS} pixels"))?;
    let bitmap = decode::bitmap(image, size)?;
    let mut side = LONGER_SIDE.min(bitmap.longer_side());
    while side >= SHORTEST.min(bitmap.longer_side()) {
        let scaled = bitmap.scaled_to(side).oriented(decode::orientation(image));
        let copy = Image { media_type: "image/png".to_owned(), data: png_bytes(&scaled)? };
        if copy.check().is_ok() {
            let sizes = ScaledSizes { from: size, to: (scaled.width, scaled.height) };
            return Ok(FittedImage { image: copy, scaled: Some(sizes) });
        }
        side = side * 3 / 4;
    }
    Err("its smaller copies are too large, too".to_owned())
}

fn png_bytes(bitmap: &Bitmap) -> Result<Vec<u8>, String> {
    let side = |pixels: usize| u32::try_from(pixels).map_err(|error| error.to_string());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side(bitmap.width)?, side(bitmap.height)?);
    encoder.set_color(match bitmap.channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
    writer.write_image_data(&bitmap.bytes).map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
