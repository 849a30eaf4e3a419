// Plugins for Pinion in C: a table of tools and a table of commands, and functions for the body of each.
//
// `plugin.h` has the whole contract, generated from its WIT. This header covers what most plugins need.
#ifndef PINION_H
#define PINION_H

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// Effects that a tool declares; a call gets no more than these, whatever the user granted.
enum {
  PINION_READS = 1, PINION_WRITES = 2, PINION_EXECUTES = 4, PINION_NETWORK = 8, PINION_DESTRUCTIVE = 16, PINION_DELEGATES = 32
};

// Kinds of errors.
typedef enum { PINION_INVALID_INPUT, PINION_NOT_FOUND, PINION_DENIED, PINION_CANCELLED, PINION_FAILED } pinion_kind;

// One call. Every string that belongs to it lives until the call ends.
typedef struct pinion_call pinion_call;

typedef struct {
  const char *name, *description;
  unsigned effects;
  // Returns what `pinion_text` or `pinion_fail` returned.
  bool (*run)(pinion_call *);
  // JSON Schema of an object.
  const char *schema;
  // A call runs alone: after all calls before it, before all calls after it.
  bool is_sequential;
  // The name for people; that of the tool by default.
  const char *label;
  // A JSON object with further properties; NULL if there are none.
  const char *extra;
} pinion_tool;

typedef struct {
  const char *name, *description, *hint;
  // Returns what `pinion_print`, `pinion_submit`, `pinion_act` or `pinion_fail` returned.
  bool (*run)(pinion_call *);
  // Calls `pinion_complete` for each completion of the argument, of which the input is what has been typed. May be NULL.
  void (*complete)(pinion_call *);
} pinion_command;

// The plugin defines what it has; an entry of zeros ends each.
extern const pinion_tool pinion_tools[];
extern const pinion_command pinion_commands[];

// Schemas: PINION_OBJECT("\"path\"", PINION_STRING("path", "The file") "," PINION_INTEGER("top", "How many")). The first
// argument lists the members that must be there.
#define PINION_MEMBER(name, type, description) "\"" name "\":{\"type\":\"" type "\",\"description\":\"" description "\"}"
#define PINION_STRING(name, description) PINION_MEMBER(name, "string", description)
#define PINION_INTEGER(name, description) PINION_MEMBER(name, "integer", description)
#define PINION_NUMBER(name, description) PINION_MEMBER(name, "number", description)
#define PINION_BOOLEAN(name, description) PINION_MEMBER(name, "boolean", description)
#define PINION_OBJECT(required, members) "{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]}"

// Returns a member of the input; NULL, or `otherwise`, if it is not there or has another type.
const char *pinion_string(pinion_call *, const char *name);
double pinion_number(pinion_call *, const char *name, double otherwise);
bool pinion_boolean(pinion_call *, const char *name, bool otherwise);

// Returns the absolute path for a path in the input, for `fopen`. NULL after an error, which `pinion_fail_errno` reports.
const char *pinion_path(pinion_call *, const char *name);

// Returns the absolute path for any path that the model or the user wrote, as `pinion_path` does.
const char *pinion_resolve(pinion_call *, const char *path);

// Returns the whole input: JSON for a tool, the text after the name for a command.
const char *pinion_input(pinion_call *);
size_t pinion_input_size(pinion_call *);

// The circumstances of a call. Texts are NULL where the contract has none.
typedef struct {
  const char *call_id, *session_id, *workspace;
  uint32_t deadline_ms;
  // A JSON object with further facts.
  const char *extra;
} pinion_context;

const pinion_context *pinion_context_of(pinion_call *);

#define PINION_FORMAT(text, arguments) __attribute__((format(printf, text, arguments)))

// Sets the result, as with printf.
bool pinion_text(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);
// Sets the result to bytes, for `pinion_save_state`.
bool pinion_bytes(pinion_call *, const void *data, size_t size);
// Sets the error. Returns false.
bool pinion_fail(pinion_call *, pinion_kind, const char *format, ...) PINION_FORMAT(3, 4);
// Sets the error that `errno` or the last failed function of this header describes. Returns false.
bool pinion_fail_errno(pinion_call *, const char *subject);

// These add to the result or the error of a tool, and return true.
// JSON for the log and the UI, never for the model.
bool pinion_details(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);
// An image for the model, such as "image/png".
bool pinion_image(pinion_call *, const char *media_type, const void *data, size_t size);
// The way to show the text to people: "plain", "markdown", "diff", or "code:" and a language.
bool pinion_display(pinion_call *, const char *display);
// Says that the same call may succeed later.
bool pinion_retryable(pinion_call *);

// Actions of a command, which the host performs in order. They return true.
bool pinion_print(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);
bool pinion_submit(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);
// The actions of the contract. For an `option` of a string, NULL is none.
typedef enum {
  PINION_PRINT, PINION_SUBMIT, PINION_INSERT, PINION_SET_MODEL, PINION_COMPACT, PINION_NEW_SESSION, PINION_RESUME, PINION_FORK,
  PINION_RELOAD_PLUGINS, PINION_QUIT
} pinion_action;
bool pinion_act(pinion_call *, pinion_action, const char *argument);

// Adds a completion, which replaces the argument; `description` may be NULL.
void pinion_complete(pinion_call *, const char *value, const char *description);

// Shows a short line to the user.
void pinion_progress(const char *format, ...) PINION_FORMAT(1, 2);
// Writes a line to the host's log.
void pinion_log(const char *format, ...) PINION_FORMAT(1, 2);
// Returns whether the call has been cancelled.
bool pinion_cancelled(void);
// Returns memory that lives until the call ends, and a text in it.
void *pinion_allocate(pinion_call *, size_t);
char *pinion_format(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);

// Further exports. The plugin defines a function here for each `export` that it adds to `wit/world.wit`.

// A tool call that a hook is called for. The input of the hook is that of the tool.
typedef struct {
  const char *name, *plugin;
  unsigned effects;
  // 0 for calls of the agent, 1 for those of its sub-agents, and so on.
  uint32_t agent_depth;
} pinion_tool_call;

// What a call returned: its text, and that of its error.
typedef struct {
  bool is_error;
  const char *text;
} pinion_outcome;

// `export pinion:plugin/before-tool-call@0.1.0;`: checks a call before it is approved. It proceeds if the function returns true
// and called none of `pinion_deny`, `pinion_ask` and `pinion_rewrite`; false and `pinion_fail` deny it.
bool pinion_before_tool_call(pinion_call *hook, const pinion_tool_call *call);
// The call does not run; the model gets the text. A prompt is not sent; the user sees the text.
bool pinion_deny(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);
// The user decides; the text says why.
bool pinion_ask(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);
// The call runs with this input, which is JSON.
bool pinion_rewrite(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);

// `export pinion:plugin/after-tool-call@0.1.0;`: revises an outcome. `pinion_text` replaces its text, `pinion_fail` makes it an
// error, and what adds to results adds to it. A failed call stays failed.
void pinion_after_tool_call(pinion_call *hook, const pinion_tool_call *call, const pinion_outcome *outcome);

// `export pinion:plugin/before-prompt@0.1.0;`: checks a prompt, the input. It is sent if the function returns true and did not
// call `pinion_deny`; false and `pinion_fail` reject it.
bool pinion_before_prompt(pinion_call *hook);
// The user sees the text, and the prompt is sent.
bool pinion_warn(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);
// The text is sent with the prompt.
bool pinion_add_context(pinion_call *, const char *format, ...) PINION_FORMAT(2, 3);

// `export pinion:plugin/before-compaction@0.1.0;`: adds instructions for a summary with `pinion_text`. The input is the user's.
void pinion_before_compaction(pinion_call *hook, uint32_t messages, uint32_t tokens);

// `export pinion:plugin/session-events@0.1.0;`: gets an event, a JSON object, as the input. Lifetime `session`.
void pinion_session_event(pinion_call *event);

// `export pinion:plugin/offers@0.1.0;`: adds tools and commands to those of the tables, and instructions with `pinion_text`. It may
// add others after `pinion_plugin_offers_host_changed()`, which `wit/world.wit` imports.
bool pinion_offers(pinion_call *offer);
// Their texts must live until the call ends.
void pinion_offer_tool(pinion_call *, const pinion_tool *);
void pinion_offer_command(pinion_call *, const pinion_command *);
// Returns the name of the tool or command that is called, for functions of several.
const char *pinion_name(pinion_call *);

// `export pinion:plugin/lifecycle@0.1.0;`: gets the plugin's section of the config, a JSON object, as the input in every new
// instance, and tests the plugin once per load. Either may be left out.
bool pinion_init(pinion_call *config);
bool pinion_self_test(pinion_call *test);

// `export pinion:plugin/state@0.1.0;`: hands over state on a reload. `pinion_text` or `pinion_bytes` saves it; what was saved is
// the input in the new instance. Lifetime `session`.
void pinion_save_state(pinion_call *state);
bool pinion_restore_state(pinion_call *state, const char *from_version);

#ifdef __cplusplus
}
#endif
#endif
