// The export `offers`: the tables, and what the plugin adds in `pinion_offers`.
#include "pinion-call.h"

// Appends a tool or command to the list of an offer.
#define APPEND(list, define, from)                                           \
  (list).ptr = realloc((list).ptr, ((list).len + 1) * sizeof *(list).ptr);   \
  if (!(list).ptr) abort();                                                  \
  memset(&(list).ptr[(list).len], 0, sizeof *(list).ptr);                    \
  define(from, &(list).ptr[(list).len++])

bool exports_pinion_plugin_offers_list(exports_pinion_plugin_offers_offer_t *ret, plugin_string_t *error) {
  pinion_call offer;
  pinion_begin(&offer, NULL);
  bool is_done = pinion_offers(&offer) && !offer.is_error;
  if (is_done) {
    memset(ret, 0, sizeof *ret);
    for (const pinion_tool *tool = pinion_tools; tool->name; tool++) {
      APPEND(ret->tools, pinion_define_tool, tool);
    }
    for (const pinion_command *command = pinion_commands; command->name; command++) {
      APPEND(ret->commands, pinion_define_command, command);
    }
    for (pinion_item *item = offer.items; item; item = item->next) {
      if (item->is_tool) {
        APPEND(ret->tools, pinion_define_tool, item->value);
      } else {
        APPEND(ret->commands, pinion_define_command, item->value);
      }
    }
    PINION_SOME(ret->instructions, offer.message);
  } else {
    pinion_string_of(error, offer.message ? offer.message : "the plugin failed");
  }
  pinion_end(&offer);
  return is_done;
}

#include "adapters/offers.h"
