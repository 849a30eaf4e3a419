use super::*;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_protocol::authority::Authority;
use pinion_protocol::content::Content;
use pinion_protocol::definition::{Execution, ToolDefinition, ToolSource};
use pinion_protocol::output::ToolOutput;
use pinion_protocol::tool::{ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Creates a PNG whose pixels do not compress.
fn noise((width, height): (usize, usize), channels: usize) -> Image {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let bytes = (0..width * height * channels).map(|_| next()).collect();
    let bitmap = Bitmap::new((width, height), channels, bytes).unwrap();
    Image { media_type: "image/png".to_owned(), data: png_bytes(&bitmap).unwrap() }
}

fn image(media_type: &str, data: &[u8]) -> Image {
    Image { media_type: media_type.to_owned(), data: data.to_vec() }
}

/// Appends bytes that decoders ignore, until a picture has too many.
fn padded(image: &Image) -> Image {
    let mut data = image.data.clone();
    data.resize(4_000_000, 0);
    Image { data, ..image.clone() }
}

const GIF: &[u8] = b"GIF89a\x02\0\x01\0\x80\0\0\xff\0\0\0\0\xff\x2c\0\0\0\0\x02\0\x01\0\0\x02\x02\x44\x0a\0\x3b";

#[test]
fn acceptable_picture_is_not_touched() {
    let small = noise((8, 8), 3);
    assert_eq!(fit(small.clone()), Ok(FittedImage { image: small, scaled: None }));
}

#[test]
fn picture_with_too_many_pixels_is_scaled() {
    for channels in 1..=4 {
        let wide = noise((9000, 30), channels);
        let fitted = fit(wide).unwrap();
        assert_eq!(fitted.scaled, Some(ScaledSizes { from: (9000, 30), to: (1568, 5) }));
        assert_eq!((fitted.image.check(), fitted.image.pixels()), (Ok(()), Some((1568, 5))));
    }
    let sizes = fit(noise((9000, 30), 1)).unwrap().scaled.unwrap();
    assert_eq!(sizes.to_string(), "9000 x 30 to 1568 x 5 pixels");
}

#[test]
fn picture_with_too_many_bytes_is_scaled_until_it_fits() {
    let large = noise((1200, 1200), 3);
    assert!(matches!(large.check(), Err(ImageProblem::Bytes(_))));
    let fitted = fit(large).unwrap();
    assert_eq!(fitted.scaled, Some(ScaledSizes { from: (1200, 1200), to: (900, 900) }));
    assert_eq!(fitted.image.check(), Ok(()));
}

#[test]
fn all_formats_have_a_decoder() {
    let mut webp = Vec::new();
    let encoder = image_webp::WebPEncoder::new(&mut webp);
    encoder.encode(&[255, 0, 0, 0, 0, 255], 2, 1, image_webp::ColorType::Rgb8).unwrap();
    for picture in [noise((2, 1), 3), image("image/gif", GIF), image("image/webp", &webp)] {
        let fitted = fit(padded(&picture)).unwrap();
        assert_eq!(fitted.scaled.map(|sizes| sizes.to), Some((2, 1)), "{}", picture.media_type);
        assert_eq!(fitted.image.check(), Ok(()));
    }
}

#[test]
fn photograph_is_scaled_and_turned_upright() {
    let photograph = image("image/jpeg", include_bytes!("../testdata/turned.jpg"));
    assert_eq!(photograph.pixels(), Some((32, 16)));
    let bitmap = decode::bitmap(&photograph, (32, 16)).unwrap();
    assert!(bitmap.bytes[..3].iter().zip([200, 30, 30]).all(|(found, expected)| found.abs_diff(expected) < 12));
    let fitted = fit(padded(&photograph)).unwrap();
    assert_eq!(fitted.scaled, Some(ScaledSizes { from: (32, 16), to: (16, 32) }));
}

#[test]
fn pictures_beyond_the_bounds_are_refused() {
    let header = |width: u32, height: u32| {
        let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
        image("image/png", &[b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &size, b"\x08\x06\0\0\0"].concat())
    };
    let problem = |image: Image| fit(image).unwrap_err().to_string();
    assert!(problem(header(8001, 8001)).ends_with("not scaled down: it has more than 40000000 pixels"));
    assert!(problem(header(8001, 4)).contains("maximum is 8000 x 8000, and it was not scaled down: "));
    assert_eq!(problem(header(1, 0)), ImageProblem::Pixels(1, 0).to_string());
    assert_eq!(problem(image("image/svg+xml", b"<svg/>")), ImageProblem::Type.to_string());
    let mut huge = noise((1, 1), 3);
    huge.data.resize(MAX_PICTURE_BYTES + 1, 0);
    assert!(problem(huge).ends_with("it has more than 33554432 bytes"));
    let contradicts = decode::bitmap(&noise((2, 2), 3), (1, 2));
    assert_eq!(contradicts, Err("its size contradicts its header".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_pictures_do_no_harm(which in 0_usize..4, edits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        let pictures = [
            noise((40, 9), 3),
            image("image/jpeg", include_bytes!("../testdata/turned.jpg")),
            image("image/gif", GIF),
            noise((9, 40), 2),
        ];
        let mut damaged = pictures[which].clone();
        let length = damaged.data.len();
        edits.iter().for_each(|(at, byte)| damaged.data[at % length] = *byte);
        if let Ok(fitted) = fit(padded(&damaged)) {
            prop_assert_eq!(fitted.image.check(), Ok(()));
        }
    }
}

/// Answers every call with the same parts.
struct SameAnswer(Vec<Content>);

impl ToolExecutor for SameAnswer {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        Vec::new()
    }

    fn call<'a>(&'a self, _: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let output = ToolOutput { content: self.0.clone(), ..ToolOutput::default() };
        std::future::ready(ToolReply::from(Ok(output))).boxed()
    }
}

struct SilentProgress;

impl ToolProgress for SilentProgress {
    fn report(&self, _: String) {}
    fn update(&self, _: Vec<Content>) {}
}

#[tokio::test]
async fn pictures_in_results_are_scaled_or_explained() {
    let (wide, small) = (noise((9000, 3), 1), noise((3, 3), 1));
    let damaged = image("image/png", b"\x89PNG\r\n\x1a\nand so on");
    let parts = vec![Content::text("a"), Content::Image(wide), Content::Image(small.clone()), Content::Image(damaged)];
    let tool = ToolDefinition {
        name: "look".to_owned(),
        label: String::new(),
        description: String::new(),
        input_schema: json!({}),
        guidelines: Vec::new(),
        authority: Authority::default(),
        execution: Execution::Parallel,
        source: ToolSource::default(),
    };
    let call = ToolInvocation {
        call_id: "1".to_owned(),
        session_id: "s".into(),
        run_id: "r".into(),
        tool: Arc::new(tool),
        arguments: json!({}),
        at_most: Authority::default(),
        agents: None,
        services: None,
        token: CancellationToken::new(),
    };
    let reply = FittingTools::new(Arc::new(SameAnswer(parts))).call(call, &SilentProgress).await;
    let content = reply.result.unwrap().content;
    let texts: Vec<&str> = content.iter().filter_map(Content::as_text).collect();
    let left_out = format!("[an image was left out: {}]", ImageProblem::Format);
    assert_eq!(texts, ["a", "[scaled down from 9000 x 3 to 1568 x 1 pixels]", &left_out]);
    assert!(matches!(&content[1], Content::Image(copy) if copy.pixels() == Some((1568, 1))), "{:?}", content[1]);
    assert_eq!(content[3], Content::Image(small));
}
