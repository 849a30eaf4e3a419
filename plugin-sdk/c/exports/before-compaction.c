// The export `before-compaction`: a hook that the plugin defines as `pinion_before_compaction`.
#include "pinion-call.h"

bool exports_pinion_plugin_before_compaction_instructions(exports_pinion_plugin_before_compaction_call_context_t *context,
                                                          exports_pinion_plugin_before_compaction_compaction_t *compaction,
                                                          plugin_string_t *ret) {
  pinion_call call;
  pinion_begin(&call, compaction->instructions.is_some ? &compaction->instructions.val : NULL);
  pinion_enter(&call, context, true);
  pinion_before_compaction(&call, compaction->messages, compaction->tokens);
  bool is_some = call.message != NULL && !call.is_error;
  if (is_some) pinion_string_of(ret, call.message);
  pinion_end(&call);
  return is_some;
}

#include "adapters/before-compaction.h"
