//! Recognizes refusals of images by their wording, because no two servers agree on a status or a code.

/// Words for images in error messages, in lower case.
const IMAGE: &[&str] = &["image", "picture", "vision", "multimodal", "multi-modal", "mmproj", "图片", "图像"];

/// Words of a refusal, which count together with a word for images. Servers phrase it in countless ways; the request is
/// repeated without its images, so a mistake costs little.
const REFUSAL: &[&str] = &[
    "support",
    "could not",
    "couldn't",
    "cannot",
    "can't",
    "unable to",
    "fail",
    "invalid",
    "not valid",
    "not a valid",
    "not represent a valid",
    "not be loaded",
    "exceed",
    "too large",
    "too big",
    "too small",
    "too many",
    "at most",
    "not enabled",
    "not allowed",
    "not accept",
    "not match",
    "not appear",
    "not meet",
    "not a multimodal",
    "not a vision",
    "missing data required",
    "unknown variant",
    "unknown format",
    "unexpected",
    "unrecognized",
    "no endpoints",
    "empty",
    "corrupt",
    "must be",
    "should be",
    "错误",
    "不支持",
];

/// Wordings of a refusal of content that is more than a text, which do not mention images.
const TEXT_ONLY: &[&str] =
    &["content must be a string", "must be a string", "input should be a valid string", "unsupported content[].type"];

/// Wordings of a model or server that takes no images at all.
const NO_IMAGES: &[&str] = &[
    "image input is not supported",                // llama.cpp
    "not a multimodal model",                      // vLLM
    "missing data required for image input",       // Ollama
    "only supported by certain models",            // OpenAI
    "no endpoints found that support image input", // OpenRouter
    "modality is not enabled",                     // Gemini
    "unknown variant `image",                      // DeepSeek
    "mmproj",
];

/// Returns whether the message, in answer to a request with images, reports that the server refuses one of them.
pub(crate) fn refuses_image(message: &str) -> bool {
    let text = message.to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    has(TEXT_ONLY) || (has(IMAGE) && has(REFUSAL))
}

/// Returns whether the message reports that the model takes no images at all.
pub(crate) fn refuses_all_images(message: &str) -> bool {
    let text = message.to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    // Not an unsupported format of one image.
    let lacks_support = ["not support", "n't support", "unsupported", "not supported"];
    let of_model = ["model", "image input", "image_url", "image content", "images are", "vision is"];
    let of_format = ["format", "media type", "media_type", "mime", "unsupported image", "at most 0 image"];
    if text.contains("at most ") {
        return text.contains("at most 0 image");
    }
    has(TEXT_ONLY) || has(NO_IMAGES) || (has(&lacks_support) && has(&of_model) && !has(&of_format))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages as servers send them, and whether they mean every image.
    const MESSAGES: &[(&str, bool)] = &[
        ("Could not process image", false),
        ("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes", false),
        ("At least one of the image dimensions exceed max allowed size: 8000 pixels", false),
        ("Image does not match the provided media type image/png", false),
        ("messages.0.content.0.image.source.base64.data: image cannot be empty", false),
        ("You uploaded an unsupported image. Please make sure your image is valid.", false),
        ("The image data you provided does not represent a valid image.", false),
        ("Invalid content type. image_url is only supported by certain models.", true),
        ("This model does not support image inputs.", true),
        ("Unable to process input image. Please retry or report in the forum.", false),
        ("Provided image is not valid.", false),
        ("Image input modality is not enabled for models/gemma-3-1b-it", true),
        ("Unsupported MIME type: image/bmp", false),
        ("No endpoints found that support image input", true),
        ("Failed to deserialize the JSON body: messages[0]: unknown variant `image_url`, expected `text`", true),
        ("qwen3-8b is not a multimodal model", true),
        ("At most 0 image(s) may be provided in one prompt.", true),
        ("At most 1 image(s) may be provided in one prompt.", false),
        ("cannot identify image file <_io.BytesIO object>", false),
        ("Failed to process inputs: this model is missing data required for image input", true),
        ("image: unknown format", false),
        ("image input is not supported - hint: you may need to provide the mmproj", true),
        ("Failed to load image or audio file", false),
        ("unsupported content[].type", true),
        ("messages[0].content must be a string", true),
        ("This model doesn't support the image content block that you provided.", true),
        ("Model does not support images. Please use a model that does.", true),
        ("Image, 'data:image/png', could not be loaded as a valid image", false),
    ];

    #[test]
    fn wordings_of_servers_are_recognized() {
        for (message, means_all) in MESSAGES {
            assert!(refuses_image(message), "{message}");
            assert_eq!(refuses_all_images(message), *means_all, "{message}");
        }
    }

    #[test]
    fn other_refusals_are_not_about_images() {
        for message in [
            "Overloaded",
            "max_tokens: 9 > 8, which is the maximum allowed number of output tokens",
            "tools.0.input_schema: JSON schema is invalid",
            "The model `gpt-9` does not exist or you do not have access to it.",
            "the vision model is overloaded",
        ] {
            assert!(!refuses_image(message), "{message}");
        }
    }
}
