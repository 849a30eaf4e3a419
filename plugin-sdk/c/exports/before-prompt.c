// The export `before-prompt`: a hook that the plugin defines as `pinion_before_prompt`.
#include "pinion-call.h"

void exports_pinion_plugin_before_prompt_check(exports_pinion_plugin_before_prompt_call_context_t *context,
                                               plugin_string_t *prompt,
                                               exports_pinion_plugin_before_prompt_prompt_verdict_t *ret) {
  static const uint8_t tags[] = {
    [PINION_PROCEEDS] = EXPORTS_PINION_PLUGIN_BEFORE_PROMPT_PROMPT_VERDICT_PROCEED,
    [PINION_WARNS] = EXPORTS_PINION_PLUGIN_BEFORE_PROMPT_PROMPT_VERDICT_WARN,
    [PINION_ADDS] = EXPORTS_PINION_PLUGIN_BEFORE_PROMPT_PROMPT_VERDICT_ADD_CONTEXT,
    [PINION_DENIES] = EXPORTS_PINION_PLUGIN_BEFORE_PROMPT_PROMPT_VERDICT_REJECT,
    // These do not belong here, so they reject.
    [PINION_ASKS] = EXPORTS_PINION_PLUGIN_BEFORE_PROMPT_PROMPT_VERDICT_REJECT,
    [PINION_REWRITES] = EXPORTS_PINION_PLUGIN_BEFORE_PROMPT_PROMPT_VERDICT_REJECT,
  };
  pinion_call call;
  pinion_begin(&call, prompt);
  pinion_enter(&call, context, true);
  if (!pinion_before_prompt(&call) || call.is_error) call.answer = PINION_DENIES;
  ret->tag = tags[call.answer];
  if (call.answer) pinion_string_of(&ret->val.warn, call.message ? call.message : "the hook failed");
  pinion_end(&call);
}

#include "adapters/before-prompt.h"
