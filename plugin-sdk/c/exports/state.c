// The export `state`: functions that the plugin defines as `pinion_save_state` and `pinion_restore_state`.
#include "pinion-call.h"

void exports_pinion_plugin_state_save_state(plugin_list_u8_t *ret) {
  pinion_call state;
  pinion_begin(&state, NULL);
  pinion_save_state(&state);
  *ret = (plugin_list_u8_t){malloc(state.message_size + 1), state.message_size};
  if (state.message_size) memcpy(ret->ptr, state.message, state.message_size);
  pinion_end(&state);
}

bool exports_pinion_plugin_state_restore_state(plugin_list_u8_t *saved, plugin_string_t *from_version, plugin_string_t *error) {
  pinion_call state;
  pinion_begin(&state, &(plugin_string_t){saved->ptr, saved->len});
  char *version = pinion_copy(&state, from_version->ptr, from_version->len);
  plugin_string_free(from_version);
  bool is_done = pinion_restore_state(&state, version) && !state.is_error;
  if (!is_done) pinion_string_of(error, state.message ? state.message : "the plugin failed");
  pinion_end(&state);
  return is_done;
}

#include "adapters/state.h"
