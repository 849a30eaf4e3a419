// What the files of the helper share: a call, and the way from it to the contract.
#ifndef PINION_CALL_H
#define PINION_CALL_H

#include "pinion.h"
#include "plugin.h"

// An image, an action, a completion, or a tool or command that is offered.
typedef struct pinion_item {
  struct pinion_item *next;
  void *value;
  size_t size;
  // The media type or the description.
  char *more;
  pinion_action action;
  bool is_tool;
} pinion_item;

// Memory of a call.
typedef struct pinion_block pinion_block;

typedef enum { PINION_PROCEEDS, PINION_DENIES, PINION_ASKS, PINION_REWRITES, PINION_WARNS, PINION_ADDS } pinion_answer;

// All of its texts are memory of the call.
struct pinion_call {
  pinion_context context;
  const char *name;
  char *input;
  size_t input_size;
  // The result, the error or the text of the answer.
  char *message;
  size_t message_size;
  char *details;
  // NULL if the plugin did not choose one.
  const char *display;
  // `kind` counts if `is_error`.
  bool is_error, is_retryable;
  pinion_kind kind;
  pinion_answer answer;
  pinion_item *items;
  size_t count;
  pinion_block *blocks;
};

// These take what the bindings pass to an export, and free it.
void pinion_begin(pinion_call *, plugin_string_t *input);
void pinion_enter(pinion_call *, pinion_plugin_types_call_context_t *, bool sees_files);
pinion_tool_call *pinion_subject(pinion_call *, pinion_plugin_types_tool_call_t *);
// They return NULL for a name that the plugin does not have.
const pinion_tool *pinion_find_tool(pinion_call *, plugin_string_t *name);
const pinion_command *pinion_find_command(pinion_call *, plugin_string_t *name);

// Frees the memory of a call.
void pinion_end(pinion_call *);

// Copies into memory of the call, with a NUL at the end.
char *pinion_copy(pinion_call *, const void *, size_t);

// These copy for the host, which frees the copies through the bindings.
void pinion_string_of(plugin_string_t *, const char *);
pinion_plugin_types_list_content_t pinion_contents_of(pinion_call *);
pinion_plugin_types_display_t pinion_display_of(pinion_call *);
void pinion_output_of(pinion_call *, pinion_plugin_types_tool_output_t *);
void pinion_error_of(pinion_call *, pinion_plugin_types_tool_error_t *, const char *otherwise);
void pinion_define_tool(const pinion_tool *, pinion_plugin_types_tool_definition_t *);
void pinion_define_command(const pinion_command *, pinion_plugin_types_command_definition_t *);

// Sets an `option` of a string; NULL is none.
#define PINION_SOME(to, text) \
  if (((to).is_some = (text) != NULL)) pinion_string_of(&(to).val, text)

#endif
