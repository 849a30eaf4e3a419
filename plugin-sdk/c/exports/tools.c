// The export `tools`: the table of tools.
#include "pinion-call.h"

bool exports_pinion_plugin_tools_list_tools(exports_pinion_plugin_tools_list_tool_definition_t *ret, plugin_string_t *error) {
  (void)error;
  ret->len = 0; // What the bindings pass is not initialized.
  while (pinion_tools[ret->len].name) ret->len++;
  ret->ptr = calloc(ret->len + 1, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) pinion_define_tool(&pinion_tools[i], &ret->ptr[i]);
  return true;
}

bool exports_pinion_plugin_tools_call_tool(exports_pinion_plugin_tools_call_context_t *context, plugin_string_t *name,
                                           exports_pinion_plugin_tools_json_t *input,
                                           exports_pinion_plugin_tools_tool_output_t *ret,
                                           exports_pinion_plugin_tools_tool_error_t *error) {
  pinion_call call;
  pinion_begin(&call, input);
  const pinion_tool *tool = pinion_find_tool(&call, name);
  pinion_enter(&call, context, tool && tool->effects & (PINION_READS | PINION_WRITES));
  bool is_done = tool ? tool->run(&call) : pinion_fail(&call, PINION_FAILED, "no such tool");
  if (is_done) {
    pinion_output_of(&call, ret);
  } else {
    pinion_error_of(&call, error, "the tool failed");
  }
  pinion_end(&call);
  return is_done;
}

#include "adapters/tools.h"
