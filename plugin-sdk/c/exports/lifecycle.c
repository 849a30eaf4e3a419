// The export `lifecycle`: functions that the plugin defines as `pinion_init` and `pinion_self_test`.
#include "pinion-call.h"

__attribute__((weak)) bool pinion_init(pinion_call *config) { return config != NULL; }
__attribute__((weak)) bool pinion_self_test(pinion_call *test) { return test != NULL; }

// Runs one of them, which sets the error.
static bool run(bool (*function)(pinion_call *), plugin_string_t *input, plugin_string_t *error) {
  pinion_call call;
  pinion_begin(&call, input);
  bool is_done = function(&call) && !call.is_error;
  if (!is_done) pinion_string_of(error, call.message ? call.message : "the plugin failed");
  pinion_end(&call);
  return is_done;
}

bool exports_pinion_plugin_lifecycle_init(exports_pinion_plugin_lifecycle_json_t *config, plugin_string_t *error) {
  return run(pinion_init, config, error);
}

bool exports_pinion_plugin_lifecycle_self_test(plugin_string_t *error) { return run(pinion_self_test, NULL, error); }

#include "adapters/lifecycle.h"
