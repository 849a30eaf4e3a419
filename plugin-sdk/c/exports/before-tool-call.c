// The export `before-tool-call`: a hook that the plugin defines as `pinion_before_tool_call`.
#include "pinion-call.h"

void exports_pinion_plugin_before_tool_call_check(exports_pinion_plugin_before_tool_call_call_context_t *context,
                                                  exports_pinion_plugin_before_tool_call_tool_call_t *tool_call,
                                                  exports_pinion_plugin_before_tool_call_verdict_t *ret) {
  static const uint8_t tags[] = {
    [PINION_PROCEEDS] = EXPORTS_PINION_PLUGIN_BEFORE_TOOL_CALL_VERDICT_PROCEED,
    [PINION_ASKS] = EXPORTS_PINION_PLUGIN_BEFORE_TOOL_CALL_VERDICT_ASK,
    [PINION_REWRITES] = EXPORTS_PINION_PLUGIN_BEFORE_TOOL_CALL_VERDICT_REWRITE,
    [PINION_DENIES] = EXPORTS_PINION_PLUGIN_BEFORE_TOOL_CALL_VERDICT_DENY,
    // These do not belong here, so they deny.
    [PINION_WARNS] = EXPORTS_PINION_PLUGIN_BEFORE_TOOL_CALL_VERDICT_DENY,
    [PINION_ADDS] = EXPORTS_PINION_PLUGIN_BEFORE_TOOL_CALL_VERDICT_DENY,
  };
  pinion_call call;
  pinion_begin(&call, NULL);
  pinion_enter(&call, context, true);
  if (!pinion_before_tool_call(&call, pinion_subject(&call, tool_call)) || call.is_error) call.answer = PINION_DENIES;
  ret->tag = tags[call.answer];
  if (call.answer) pinion_string_of(&ret->val.deny, call.message ? call.message : "the hook failed");
  pinion_end(&call);
}

#include "adapters/before-tool-call.h"
