// The export `session-events`: a hook that the plugin defines as `pinion_session_event`.
#include "pinion-call.h"

void exports_pinion_plugin_session_events_on_events(exports_pinion_plugin_session_events_list_json_t *events) {
  for (size_t i = 0; i < events->len; i++) {
    pinion_call event;
    pinion_begin(&event, &events->ptr[i]);
    pinion_session_event(&event);
    pinion_end(&event);
  }
  if (events->len) free(events->ptr);
}

#include "adapters/session-events.h"
