//! Decompression of the bodies of responses, so that secrets can be found in them.

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, HeaderMap, TRANSFER_ENCODING};
use std::io::{self, Write as _};

/// Number of compressed bytes that are decompressed at once; they become at most half a megabyte.
const COMPRESSED: usize = 512;

/// Decodes a body that arrives in pieces.
pub(crate) enum BodyDecoder {
    Plain,
    /// The decompressor, and whether it has read a byte.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>, bool),
}

impl BodyDecoder {
    /// Chooses the decoder of a body, or completes "the response …" with the reason why there is no decoder. An
    /// encoding that the client did not ask for is passed on as it is, unless secrets could be in it.
    pub(crate) fn for_response(headers: &HeaderMap, has_secrets: bool) -> Result<Self, &'static str> {
        let list = |name| {
            let values = headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
            values
                .map(|value| value.trim_ascii().to_ascii_lowercase())
                .filter(|value| !value.is_empty())
                .collect::<Vec<_>>()
        };
        if list(TRANSFER_ENCODING).iter().any(|encoding| encoding != b"chunked") {
            return Err("has a transfer encoding other than `chunked`");
        }
        let encodings = list(CONTENT_ENCODING);
        let encodings: Vec<&[u8]> =
            encodings.iter().map(Vec::as_slice).filter(|encoding| *encoding != b"identity").collect();
        match encodings.as_slice() {
            [] => Ok(Self::Plain),
            [b"gzip" | b"x-gzip"] => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())), false)),
            _ if has_secrets => Err("has an encoding in which credentials would not be recognized"),
            _ => Ok(Self::Plain),
        }
    }

    /// Returns whether the decoded body differs from the transferred one.
    pub(crate) fn is_gzip(&self) -> bool {
        matches!(self, Self::Gzip(..))
    }

    /// Removes a part from the front of `input` and decodes it.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> io::Result<Bytes> {
        match self {
            Self::Plain => Ok(std::mem::take(input)),
            Self::Gzip(decoder, has_read) => {
                let part = input.split_to(input.len().min(COMPRESSED));
                *has_read |= !part.is_empty();
                let done = decoder.write_all(&part);
                let bytes = std::mem::take(decoder.get_mut());
                done.map(|()| bytes.into())
            }
        }
    }

    /// Returns the rest at the end of the input. An empty body need not be gzip.
    pub(crate) fn finish(&mut self) -> io::Result<Bytes> {
        match self {
            Self::Gzip(decoder, true) => {
                let done = decoder.try_finish();
                let bytes = std::mem::take(decoder.get_mut());
                done.map(|()| bytes.into())
            }
            Self::Gzip(_, false) | Self::Plain => Ok(Bytes::new()),
        }
    }
}
