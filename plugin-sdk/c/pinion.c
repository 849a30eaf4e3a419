// The exports of a plugin, on top of the bindings in `plugin.h`.
#include "pinion.h"
#include "plugin.h"

#include <stdarg.h>
#include <unistd.h>

typedef struct block {
  struct block *next;
} block;

struct pinion_call {
  char *input;
  // Sets `message` or an action; `kind` counts if `is_error`.
  char *message;
  bool is_error, is_submit;
  pinion_kind kind;
  // Memory to free at the end.
  block *blocks;
};

void *pinion_allocate(pinion_call *call, size_t size) {
  block *made = malloc(sizeof(block) + size);
  if (!made) abort();
  made->next = call->blocks;
  call->blocks = made;
  return made + 1;
}

static char *copy(pinion_call *call, const char *text, size_t length) {
  char *made = pinion_allocate(call, length + 1);
  memcpy(made, text, length);
  made[length] = 0;
  return made;
}

static char *formatted(const char *format, va_list arguments) {
  char *text = NULL;
  if (vasprintf(&text, format, arguments) < 0) abort();
  return text;
}

static void release(pinion_call *call) {
  while (call->blocks) {
    block *next = call->blocks->next;
    free(call->blocks);
    call->blocks = next;
  }
  free(call->message);
}

#define FORMATTED(call)                          \
  va_list arguments;                             \
  va_start(arguments, format);                   \
  free((call)->message);                         \
  (call)->message = formatted(format, arguments); \
  va_end(arguments)

bool pinion_text(pinion_call *call, const char *format, ...) {
  FORMATTED(call);
  return true;
}

bool pinion_print(pinion_call *call, const char *format, ...) {
  FORMATTED(call);
  return true;
}

bool pinion_submit(pinion_call *call, const char *format, ...) {
  FORMATTED(call);
  return call->is_submit = true;
}

bool pinion_fail(pinion_call *call, pinion_kind kind, const char *format, ...) {
  FORMATTED(call);
  call->kind = kind;
  call->is_error = true;
  return false;
}

bool pinion_fail_errno(pinion_call *call, const char *subject) {
  if (call->is_error) return false;
  pinion_kind kind = errno == ENOENT ? PINION_NOT_FOUND : errno == EACCES || errno == EPERM ? PINION_DENIED : PINION_FAILED;
  return pinion_fail(call, kind, "%s: %s", subject ? subject : "the input", strerror(errno));
}

static void say(void (*to)(plugin_string_t *), const char *format, va_list arguments) {
  char *text = formatted(format, arguments);
  plugin_string_t line;
  plugin_string_set(&line, text);
  to(&line);
  free(text);
}

static void info(plugin_string_t *line) { pinion_plugin_log_log(PINION_PLUGIN_LOG_LEVEL_INFO, line); }

void pinion_log(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(info, format, arguments);
  va_end(arguments);
}

void pinion_progress(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(pinion_plugin_progress_report, format, arguments);
  va_end(arguments);
}

bool pinion_cancelled(void) { return pinion_plugin_cancellation_cancelled(); }

const char *pinion_input(pinion_call *call) { return call->input; }

// JSON. The host has parsed and validated the input, so it is well formed.

static const char *skip_blank(const char *at) { return at + strspn(at, " \t\r\n"); }

static const char *skip_string(const char *at) {
  for (at++; *at && *at != '"'; at++) at += *at == '\\' && at[1];
  return *at ? at + 1 : at;
}

static const char *skip_value(const char *at) {
  int depth = 0;
  do {
    at = skip_blank(at);
    if (*at == '"') at = skip_string(at);
    else if (*at == '{' || *at == '[') depth++, at++;
    else if (*at == '}' || *at == ']') depth--, at++;
    else if (*at == ',' || *at == ':') at++;
    else at += strcspn(at, ",:]}\" \t\r\n");
  } while (depth > 0 && *at);
  return at;
}

// Returns the value of a member of the object at the top; NULL if it is not there.
static const char *member(const char *json, const char *name) {
  const char *at = skip_blank(json);
  if (*at++ != '{') return NULL;
  for (at = skip_blank(at); *at == '"'; at = skip_blank(at)) {
    const char *key = at + 1;
    at = skip_string(at);
    size_t length = (size_t)(at - key) - 1;
    at = skip_blank(at);
    if (*at == ':') at = skip_blank(at + 1);
    if (strlen(name) == length && !memcmp(name, key, length)) return at;
    at = skip_blank(skip_value(at));
    if (*at == ',') at = skip_blank(at + 1);
  }
  return NULL;
}

static unsigned hex(const char *at) {
  char digits[5] = {0};
  strncpy(digits, at, 4);
  return (unsigned)strtoul(digits, NULL, 16);
}

static char *utf8(char *to, unsigned code) {
  if (code < 0x80) return *to++ = (char)code, to;
  int bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (int i = bytes - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
  to[0] = (char)(first[bytes] | code);
  return to + bytes;
}

const char *pinion_string(pinion_call *call, const char *name) {
  const char *at = member(call->input, name);
  if (!at || *at != '"') return NULL;
  const char *end = skip_string(at);
  char *text = pinion_allocate(call, (size_t)(end - at)), *to = text;
  for (at++; at < end - 1; at++) {
    if (*at != '\\') {
      *to++ = *at;
      continue;
    }
    static const char escapes[] = "n\nt\tr\rb\bf\f";
    const char *escape = strchr(escapes, *++at);
    if (*at == 'u') {
      unsigned code = hex(at + 1);
      at += 4;
      if (code >= 0xd800 && code < 0xdc00 && at[1] == '\\' && at[2] == 'u') {
        code = 0x10000 + ((code - 0xd800) << 10) + (hex(at + 3) - 0xdc00);
        at += 6;
      }
      to = utf8(to, code);
    } else {
      *to++ = escape ? escape[1] : *at;
    }
  }
  *to = 0;
  return text;
}

double pinion_number(pinion_call *call, const char *name, double otherwise) {
  const char *at = member(call->input, name);
  char *end = NULL;
  double value = at ? strtod(at, &end) : otherwise;
  return at && end != at ? value : otherwise;
}

bool pinion_boolean(pinion_call *call, const char *name, bool otherwise) {
  const char *at = member(call->input, name);
  return at && *at == 't' ? true : at && *at == 'f' ? false : otherwise;
}

const char *pinion_path(pinion_call *call, const char *name) {
  const char *path = pinion_string(call, name);
  if (!path) {
    pinion_fail(call, PINION_INVALID_INPUT, "`%s` is missing", name);
    return NULL;
  }
  return pinion_resolve(call, path);
}

const char *pinion_resolve(pinion_call *call, const char *path) {
  plugin_string_t asked, found;
  pinion_plugin_workspace_workspace_error_t error;
  plugin_string_set(&asked, path);
  if (!pinion_plugin_workspace_resolve(&asked, &found, &error)) {
    static const pinion_kind kinds[] = {PINION_DENIED, PINION_NOT_FOUND, PINION_INVALID_INPUT, PINION_CANCELLED, PINION_FAILED};
    bool has_text = error.tag != PINION_PLUGIN_WORKSPACE_WORKSPACE_ERROR_CANCELLED;
    int length = has_text ? (int)error.val.denied.len : 0;
    pinion_fail(call, kinds[error.tag], "%.*s", length, has_text ? (const char *)error.val.denied.ptr : "");
    pinion_plugin_workspace_workspace_error_free(&error);
    return NULL;
  }
  char *text = copy(call, (const char *)found.ptr, found.len);
  plugin_string_free(&found);
  return text;
}

// The exports.

static void begin(pinion_call *call, plugin_string_t *input) {
  memset(call, 0, sizeof *call);
  call->input = copy(call, (const char *)input->ptr, input->len);
}

// Makes relative paths start at the workspace. Without a grant, there is none to enter.
static void enter(pinion_call *call, plugin_string_t *workspace) {
  (void)chdir(copy(call, (const char *)workspace->ptr, workspace->len));
  errno = 0;
}

static void text(plugin_string_t *to, const char *from) { plugin_string_dup(to, from ? from : ""); }

static bool is_named(const char *name, plugin_string_t *wanted) {
  return strlen(name) == wanted->len && !memcmp(name, wanted->ptr, wanted->len);
}

bool exports_pinion_plugin_tools_list_tools(exports_pinion_plugin_tools_list_tool_definition_t *ret, plugin_string_t *error) {
  (void)error;
  ret->len = 0; // What the bindings pass is not initialized.
  while (pinion_tools[ret->len].name) ret->len++;
  ret->ptr = calloc(ret->len + 1, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) {
    text(&ret->ptr[i].name, pinion_tools[i].name);
    text(&ret->ptr[i].label, pinion_tools[i].name);
    text(&ret->ptr[i].description, pinion_tools[i].description);
    text(&ret->ptr[i].input_schema, pinion_tools[i].schema ? pinion_tools[i].schema : "{\"type\":\"object\"}");
    ret->ptr[i].effects = (uint8_t)pinion_tools[i].effects;
  }
  return true;
}

bool exports_pinion_plugin_tools_call_tool(exports_pinion_plugin_tools_call_context_t *context, plugin_string_t *name,
                                           exports_pinion_plugin_tools_json_t *input,
                                           exports_pinion_plugin_tools_tool_output_t *ret,
                                           exports_pinion_plugin_tools_tool_error_t *error) {
  pinion_call call;
  begin(&call, input);
  const pinion_tool *tool = pinion_tools;
  while (tool->name && !is_named(tool->name, name)) tool++;
  if (tool->effects & (PINION_READS | PINION_WRITES)) enter(&call, &context->workspace);
  bool is_done = tool->name ? tool->run(&call) : pinion_fail(&call, PINION_FAILED, "no such tool");
  if (is_done) {
    memset(ret, 0, sizeof *ret);
    ret->content.ptr = calloc(1, sizeof *ret->content.ptr);
    ret->content.len = 1;
    text(&ret->content.ptr[0].val.text, call.message);
  } else {
    memset(error, 0, sizeof *error);
    error->kind = (uint8_t)(call.is_error ? call.kind : PINION_FAILED);
    text(&error->message, call.message ? call.message : "the tool failed");
  }
  release(&call);
  return is_done;
}

bool exports_pinion_plugin_commands_list_commands(exports_pinion_plugin_commands_list_command_definition_t *ret, plugin_string_t *error) {
  (void)error;
  ret->len = 0;
  while (pinion_commands[ret->len].name) ret->len++;
  ret->ptr = calloc(ret->len + 1, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) {
    text(&ret->ptr[i].name, pinion_commands[i].name);
    text(&ret->ptr[i].description, pinion_commands[i].description);
    if ((ret->ptr[i].argument_hint.is_some = pinion_commands[i].hint != NULL)) {
      text(&ret->ptr[i].argument_hint.val, pinion_commands[i].hint);
    }
  }
  return true;
}

void exports_pinion_plugin_commands_complete_argument(plugin_string_t *name, plugin_string_t *typed,
                                                      exports_pinion_plugin_commands_list_completion_t *ret) {
  (void)name;
  (void)typed;
  memset(ret, 0, sizeof *ret);
}

bool exports_pinion_plugin_commands_run_command(exports_pinion_plugin_commands_call_context_t *context, plugin_string_t *name,
                                                plugin_string_t *input, exports_pinion_plugin_commands_list_action_t *ret,
                                                plugin_string_t *error) {
  pinion_call call;
  begin(&call, input);
  enter(&call, &context->workspace);
  const pinion_command *command = pinion_commands;
  while (command->name && !is_named(command->name, name)) command++;
  bool is_done = command->name ? command->run(&call) : pinion_fail(&call, PINION_FAILED, "no such command");
  if (is_done) {
    ret->len = call.message ? 1 : 0;
    ret->ptr = calloc(1, sizeof *ret->ptr);
    ret->ptr[0].tag = call.is_submit ? EXPORTS_PINION_PLUGIN_COMMANDS_ACTION_SUBMIT : EXPORTS_PINION_PLUGIN_COMMANDS_ACTION_PRINT;
    text(&ret->ptr[0].val.print, call.message);
  } else {
    text(error, call.message ? call.message : "the command failed");
  }
  release(&call);
  return is_done;
}
