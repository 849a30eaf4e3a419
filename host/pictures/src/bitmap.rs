//! Decoded pictures, and their scaling.

/// Samples of a picture, row by row: one byte for each channel of a pixel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// 1 for grey, 3 for red, green and blue; 2 and 4 with alpha as the last one.
    pub(crate) channels: usize,
    pub(crate) bytes: Vec<u8>,
}

/// The part of a source pixel that a target pixel covers: the index of the source pixel, and its weight.
type CoveredPixel = (usize, u64);

impl Bitmap {
    /// Creates a bitmap; `None` if the samples do not fit its size.
    pub(crate) fn new((width, height): (usize, usize), channels: usize, bytes: Vec<u8>) -> Option<Self> {
        let expected = width.checked_mul(height)?.checked_mul(channels)?;
        (matches!(channels, 1..=4) && expected > 0 && bytes.len() == expected).then_some(Self {
            width,
            height,
            channels,
            bytes,
        })
    }

    /// Returns the pixels of the longer side.
    pub(crate) fn longer_side(&self) -> usize {
        self.width.max(self.height)
    }

    /// Returns a copy whose longer side has the given number of pixels, at most as many as now. Each pixel is the average
    /// of the area that it covers.
    pub(crate) fn scaled_to(&self, side: usize) -> Self {
        let scaled = |pixels: usize| (pixels * side / self.longer_side()).max(1);
        let (width, height) = (scaled(self.width), scaled(self.height));
        let (columns, rows) = (covered_pixels(self.width, width), covered_pixels(self.height, height));
        let total = (self.width * self.height) as u64;
        let mut bytes = Vec::with_capacity(width * height * self.channels);
        for row in &rows {
            let mut sums = vec![0; width * self.channels];
            for (y, row_weight) in row {
                let line = &self.bytes[y * self.width * self.channels..][..self.width * self.channels];
                for (column, sums) in columns.iter().zip(sums.chunks_exact_mut(self.channels)) {
                    for (x, weight) in column {
                        add_pixel(sums, &line[x * self.channels..][..self.channels], weight * row_weight);
                    }
                }
            }
            sums.chunks_exact(self.channels).for_each(|sums| push_average(&mut bytes, sums, total));
        }
        Self { width, height, channels: self.channels, bytes }
    }
}

/// Returns the pixels that each pixel of a shorter line covers. The weights of a target pixel add up to `from`.
fn covered_pixels(from: usize, to: usize) -> Vec<Vec<CoveredPixel>> {
    let covered = |target: usize| {
        let (start, end) = (target * from, (target + 1) * from);
        let weight = |source: usize| end.min((source + 1) * to) - start.max(source * to);
        (start / to..end.div_ceil(to)).map(|source| (source, weight(source) as u64)).collect()
    };
    (0..to).map(covered).collect()
}

/// Adds a pixel to sums. Colours count as much as they are opaque.
fn add_pixel(sums: &mut [u64], pixel: &[u8], weight: u64) {
    let weight = match pixel {
        [_, alpha] | [_, _, _, alpha] => weight * u64::from(*alpha),
        _ => weight,
    };
    let colours = pixel.len() - usize::from(pixel.len().is_multiple_of(2));
    for (at, sum) in sums.iter_mut().enumerate() {
        *sum += if at < colours { weight * u64::from(pixel[at]) } else { weight };
    }
}

/// Appends the average of pixels to `bytes`: `total` is the sum of their weights.
fn push_average(bytes: &mut Vec<u8>, sums: &[u64], total: u64) {
    let average = |sum: u64, of: u64| u8::try_from((sum + of / 2).checked_div(of).unwrap_or(0)).unwrap_or(u8::MAX);
    match sums {
        [colours @ .., opacity] if sums.len().is_multiple_of(2) => {
            bytes.extend(colours.iter().map(|sum| average(*sum, *opacity)));
            bytes.push(average(*opacity, total));
        }
        colours => bytes.extend(colours.iter().map(|sum| average(*sum, total))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_averages_of_their_areas() {
        let grey = Bitmap::new((4, 2), 1, vec![0, 100, 200, 255, 0, 100, 200, 255]).unwrap();
        assert_eq!(grey.scaled_to(2), Bitmap { width: 2, height: 1, channels: 1, bytes: vec![50, 228] });
        let uneven = Bitmap::new((3, 1), 1, vec![0, 90, 255]).unwrap();
        assert_eq!(uneven.scaled_to(2).bytes, [30, 200]);
        assert_eq!(grey.scaled_to(4), grey);
    }

    #[test]
    fn transparent_pixels_have_no_colour() {
        let pixels = vec![200, 100, 50, 255, 0, 0, 0, 0];
        let bitmap = Bitmap::new((2, 1), 4, pixels).unwrap();
        assert_eq!(bitmap.scaled_to(1).bytes, [200, 100, 50, 128]);
        let clear = Bitmap::new((2, 1), 2, vec![9, 0, 9, 0]).unwrap();
        assert_eq!(clear.scaled_to(1).bytes, [0, 0]);
    }

    #[test]
    fn thin_pictures_keep_a_pixel() {
        let line = Bitmap::new((1000, 1), 3, vec![7; 3000]).unwrap();
        let scaled = line.scaled_to(10);
        assert_eq!((scaled.width, scaled.height, scaled.bytes), (10, 1, vec![7; 30]));
        assert_eq!(Bitmap::new((2, 2), 3, vec![0; 11]), None);
        assert_eq!(Bitmap::new((0, 2), 3, Vec::new()), None);
    }
}
