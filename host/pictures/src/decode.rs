//! Decoders of the formats that models accept. Each checks the size that it finds before it allocates memory.

use crate::bitmap::Bitmap;
use crate::{MAX_PIXELS, orientation};
use pinion_protocol::Image;
use std::fmt::Display;
use std::io::Cursor;
use std::num::NonZeroU64;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Maximum scans of a JPEG: each one costs a pass over all pixels, also if it is empty.
const MAX_SCANS: usize = 64;
/// Maximum bytes that decoders may allocate besides the pixels.
const MAX_MEMORY: usize = MAX_PIXELS * 4;

/// Decodes a picture, whose header names the given size. Of an animation it decodes the first frame.
pub(crate) fn bitmap(image: &Image, size: (usize, usize)) -> Result<Bitmap, String> {
    let data = image.data.as_slice();
    let bitmap = match image.media_type.as_str() {
        "image/png" => png_bitmap(data, size),
        "image/jpeg" => jpeg_bitmap(data, size),
        "image/gif" => gif_bitmap(data),
        "image/webp" => webp_bitmap(data, size),
        _ => Err("its format is not known".to_owned()),
    }?;
    bitmap.ok_or_else(contradiction)
}

/// Returns the orientation of a photograph, 1 to 8.
pub(crate) fn orientation(image: &Image) -> u16 {
    if image.media_type != "image/jpeg" {
        return 1;
    }
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(image.data.as_slice()), jpeg_options());
    let exif = decoder.decode_headers().ok().and_then(|()| decoder.exif().cloned());
    exif.map_or(1, |exif| orientation::from_exif(&exif))
}

fn contradiction() -> String {
    "its size contradicts its header".to_owned()
}

fn cause(error: impl Display) -> String {
    error.to_string()
}

/// Fails if a decoder found another size than the header of the picture has.
fn expect_size(found: (usize, usize), size: (usize, usize)) -> Result<(), String> {
    if found == size { Ok(()) } else { Err(contradiction()) }
}

fn png_bitmap(data: &[u8], size: (usize, usize)) -> Result<Option<Bitmap>, String> {
    let limits = png::Limits { bytes: MAX_MEMORY };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(data), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(cause)?;
    expect_size((reader.info().width as usize, reader.info().height as usize), size)?;
    let channels = reader.output_color_type().0.samples();
    let mut bytes = vec![0; reader.output_buffer_size().ok_or_else(contradiction)?];
    let frame = reader.next_frame(&mut bytes).map_err(cause)?;
    bytes.truncate(frame.buffer_size());
    Ok(Bitmap::new((frame.width as usize, frame.height as usize), channels, bytes))
}

fn jpeg_options() -> DecoderOptions {
    let options = DecoderOptions::default().set_max_width(usize::from(u16::MAX)).set_max_height(usize::from(u16::MAX));
    options.jpeg_set_max_scans(MAX_SCANS).jpeg_set_out_colorspace(ColorSpace::RGB)
}

fn jpeg_bitmap(data: &[u8], size: (usize, usize)) -> Result<Option<Bitmap>, String> {
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(data), jpeg_options());
    decoder.decode_headers().map_err(cause)?;
    let info = decoder.info().ok_or_else(contradiction)?;
    expect_size((usize::from(info.width), usize::from(info.height)), size)?;
    let bytes = decoder.decode().map_err(cause)?;
    Ok(Bitmap::new(size, 3, bytes))
}

fn gif_bitmap(data: &[u8]) -> Result<Option<Bitmap>, String> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    if let Some(limit) = NonZeroU64::new(MAX_MEMORY as u64) {
        options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    }
    let mut decoder = options.read_info(Cursor::new(data)).map_err(cause)?;
    let frame = decoder.read_next_frame().map_err(cause)?.ok_or_else(|| "it has no frame".to_owned())?;
    let size = (usize::from(frame.width), usize::from(frame.height));
    Ok(Bitmap::new(size, 4, frame.buffer.to_vec()))
}

fn webp_bitmap(data: &[u8], size: (usize, usize)) -> Result<Option<Bitmap>, String> {
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(data)).map_err(cause)?;
    decoder.set_memory_limit(MAX_MEMORY);
    let (width, height) = decoder.dimensions();
    expect_size((width as usize, height as usize), size)?;
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut bytes = vec![0; decoder.output_buffer_size().ok_or_else(contradiction)?];
    decoder.read_image(&mut bytes).map_err(cause)?;
    Ok(Bitmap::new(size, channels, bytes))
}
