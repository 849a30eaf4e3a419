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
enum { PINION_READS = 1, PINION_WRITES = 2, PINION_EXECUTES = 4, PINION_NETWORK = 8, PINION_DESTRUCTIVE = 16, PINION_DELEGATES = 32 };

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
} pinion_tool;

typedef struct {
  const char *name, *description, *hint;
  // Returns what `pinion_print`, `pinion_submit` or `pinion_fail` returned.
  bool (*run)(pinion_call *);
} pinion_command;

// The plugin defines both; an entry of zeros ends each.
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

// Sets the result, as with printf.
bool pinion_text(pinion_call *, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Shows Markdown to the user, or sends a message to the model, as the result of a command.
bool pinion_print(pinion_call *, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool pinion_submit(pinion_call *, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Sets the error. Returns false.
bool pinion_fail(pinion_call *, pinion_kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Sets the error that `errno` or the last failed function of this header describes. Returns false.
bool pinion_fail_errno(pinion_call *, const char *subject);

// Shows a short line to the user.
void pinion_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Writes a line to the host's log.
void pinion_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Returns whether the call has been cancelled.
bool pinion_cancelled(void);
// Returns memory that lives until the call ends.
void *pinion_allocate(pinion_call *, size_t);

#ifdef __cplusplus
}
#endif
#endif
