// The helper between a plugin and the bindings in `plugin.h`: calls, their input and their results. The exports are in
// `exports`.
#include "pinion-call.h"

#include <stdarg.h>
#include <unistd.h>

struct pinion_block {
  pinion_block *next;
};

void *pinion_allocate(pinion_call *call, size_t size) {
  pinion_block *made = malloc(sizeof(pinion_block) + size);
  if (!made) abort();
  made->next = call->blocks;
  call->blocks = made;
  return made + 1;
}

char *pinion_copy(pinion_call *call, const void *text, size_t length) {
  char *made = pinion_allocate(call, length + 1);
  if (length) memcpy(made, text, length);
  made[length] = 0;
  return made;
}

void pinion_begin(pinion_call *call, plugin_string_t *input) {
  memset(call, 0, sizeof *call);
  call->input = pinion_copy(call, input ? (const char *)input->ptr : "", input ? input->len : 0);
  call->input_size = input ? input->len : 0;
  if (input) plugin_string_free(input);
}

static const char *taken(pinion_call *call, plugin_string_t *text) { return pinion_copy(call, text->ptr, text->len); }

void pinion_enter(pinion_call *call, pinion_plugin_types_call_context_t *context, bool sees_files) {
  call->context.call_id = taken(call, &context->call_id);
  call->context.session_id = taken(call, &context->session_id);
  call->context.workspace = taken(call, &context->workspace);
  call->context.deadline_ms = context->deadline_ms;
  call->context.extra = context->extra.is_some ? taken(call, &context->extra.val) : NULL;
  pinion_plugin_types_call_context_free(context);
  // Relative paths start at the workspace. Without a grant, there is none to enter.
  if (sees_files) (void)chdir(call->context.workspace);
  errno = 0;
}

pinion_tool_call *pinion_subject(pinion_call *call, pinion_plugin_types_tool_call_t *from) {
  pinion_tool_call *to = pinion_allocate(call, sizeof *to);
  *to = (pinion_tool_call){taken(call, &from->name), taken(call, &from->plugin), from->effects, from->agent_depth};
  call->input = pinion_copy(call, from->input.ptr, from->input.len);
  call->input_size = from->input.len;
  pinion_plugin_types_tool_call_free(from);
  return to;
}

void pinion_end(pinion_call *call) {
  while (call->blocks) {
    pinion_block *next = call->blocks->next;
    free(call->blocks);
    call->blocks = next;
  }
}

static char *formatted(pinion_call *call, const char *format, va_list arguments) {
  char *text = NULL;
  int length = vasprintf(&text, format, arguments);
  if (length < 0) abort();
  char *made = pinion_copy(call, text, (size_t)length);
  free(text);
  return made;
}

#define FORMATTED(to, call)                  \
  va_list arguments;                         \
  va_start(arguments, format);               \
  (to) = formatted(call, format, arguments); \
  va_end(arguments)

char *pinion_format(pinion_call *call, const char *format, ...) {
  char *text;
  FORMATTED(text, call);
  return text;
}

bool pinion_text(pinion_call *call, const char *format, ...) {
  FORMATTED(call->message, call);
  call->message_size = strlen(call->message);
  return true;
}

bool pinion_bytes(pinion_call *call, const void *data, size_t size) {
  call->message = pinion_copy(call, data, size);
  call->message_size = size;
  return true;
}

// Sets the answer of a hook and its text.
#define ANSWER(name, case)                                \
  bool name(pinion_call *call, const char *format, ...) { \
    FORMATTED(call->message, call);                       \
    call->answer = case;                                  \
    return true;                                          \
  }

ANSWER(pinion_deny, PINION_DENIES)
ANSWER(pinion_ask, PINION_ASKS)
ANSWER(pinion_rewrite, PINION_REWRITES)
ANSWER(pinion_warn, PINION_WARNS)
ANSWER(pinion_add_context, PINION_ADDS)

bool pinion_fail(pinion_call *call, pinion_kind kind, const char *format, ...) {
  FORMATTED(call->message, call);
  call->kind = kind;
  call->is_error = true;
  return false;
}

bool pinion_fail_errno(pinion_call *call, const char *subject) {
  if (call->is_error) return false;
  pinion_kind kind = errno == ENOENT ? PINION_NOT_FOUND : errno == EACCES || errno == EPERM ? PINION_DENIED : PINION_FAILED;
  return pinion_fail(call, kind, "%s: %s", subject ? subject : "the input", strerror(errno));
}

bool pinion_details(pinion_call *call, const char *format, ...) {
  FORMATTED(call->details, call);
  return true;
}

bool pinion_display(pinion_call *call, const char *display) {
  call->display = pinion_copy(call, display, strlen(display));
  return true;
}

bool pinion_retryable(pinion_call *call) { return call->is_retryable = true; }

// Adds an item to those of the call.
static pinion_item *add(pinion_call *call, const void *value, size_t size) {
  pinion_item *item = pinion_allocate(call, sizeof *item);
  *item = (pinion_item){.value = pinion_copy(call, value, size), .size = size};
  pinion_item **end = &call->items;
  while (*end) end = &(*end)->next;
  call->count++;
  return *end = item;
}

bool pinion_image(pinion_call *call, const char *media_type, const void *data, size_t size) {
  add(call, data, size)->more = pinion_copy(call, media_type, strlen(media_type));
  return true;
}

bool pinion_act(pinion_call *call, pinion_action action, const char *argument) {
  pinion_item *item = add(call, argument, argument ? strlen(argument) : 0);
  item->action = action;
  if (!argument) item->value = NULL;
  return true;
}

bool pinion_print(pinion_call *call, const char *format, ...) {
  char *text;
  FORMATTED(text, call);
  return pinion_act(call, PINION_PRINT, text);
}

bool pinion_submit(pinion_call *call, const char *format, ...) {
  char *text;
  FORMATTED(text, call);
  return pinion_act(call, PINION_SUBMIT, text);
}

void pinion_complete(pinion_call *call, const char *value, const char *description) {
  pinion_item *item = add(call, value, strlen(value));
  item->more = description ? pinion_copy(call, description, strlen(description)) : NULL;
}

void pinion_offer_tool(pinion_call *call, const pinion_tool *tool) { add(call, tool, sizeof *tool)->is_tool = true; }

void pinion_offer_command(pinion_call *call, const pinion_command *command) { add(call, command, sizeof *command); }

// What a plugin without them has.
__attribute__((weak)) const pinion_tool pinion_tools[1] = {{0}};
__attribute__((weak)) const pinion_command pinion_commands[1] = {{0}};
__attribute__((weak)) bool pinion_offers(pinion_call *offer) { return offer != NULL; }

static void say(void (*to)(plugin_string_t *), const char *format, va_list arguments) {
  pinion_call call = {0};
  plugin_string_t line;
  plugin_string_set(&line, formatted(&call, format, arguments));
  to(&line);
  pinion_end(&call);
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

size_t pinion_input_size(pinion_call *call) { return call->input_size; }

const char *pinion_name(pinion_call *call) { return call->name; }

const pinion_context *pinion_context_of(pinion_call *call) { return &call->context; }

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
  char *text = pinion_copy(call, found.ptr, found.len);
  plugin_string_free(&found);
  return text;
}

// Results in the form of the contract.

void pinion_string_of(plugin_string_t *to, const char *text) { plugin_string_dup(to, text ? text : ""); }

pinion_plugin_types_list_content_t pinion_contents_of(pinion_call *call) {
  pinion_plugin_types_list_content_t parts = {calloc(call->count + 1, sizeof *parts.ptr), 0};
  if (call->message || !call->count) pinion_string_of(&parts.ptr[parts.len++].val.text, call->message);
  for (pinion_item *item = call->items; item; item = item->next) {
    pinion_plugin_types_content_t *part = &parts.ptr[parts.len++];
    part->tag = PINION_PLUGIN_TYPES_CONTENT_IMAGE;
    pinion_string_of(&part->val.image.media_type, item->more);
    part->val.image.data = (plugin_list_u8_t){malloc(item->size + 1), item->size};
    memcpy(part->val.image.data.ptr, item->value, item->size);
  }
  return parts;
}

pinion_plugin_types_display_t pinion_display_of(pinion_call *call) {
  static const char *const cases[] = {"plain", "markdown", "diff"};
  pinion_plugin_types_display_t made = {0};
  if (!call->display) return made;
  for (uint8_t i = 0; i < 3; i++) {
    if (!strcmp(call->display, cases[i])) made.tag = i;
  }
  if (!strncmp(call->display, "code:", 5)) {
    made.tag = PINION_PLUGIN_TYPES_DISPLAY_CODE;
    pinion_string_of(&made.val.code, call->display + 5);
  }
  return made;
}

void pinion_output_of(pinion_call *call, pinion_plugin_types_tool_output_t *to) {
  memset(to, 0, sizeof *to);
  to->content = pinion_contents_of(call);
  to->display = pinion_display_of(call);
  PINION_SOME(to->details, call->details);
}

void pinion_error_of(pinion_call *call, pinion_plugin_types_tool_error_t *to, const char *otherwise) {
  memset(to, 0, sizeof *to);
  to->kind = (uint8_t)(call->is_error ? call->kind : PINION_FAILED);
  pinion_string_of(&to->message, call->message ? call->message : otherwise);
  to->retryable = call->is_retryable;
  if (call->count) to->content = pinion_contents_of(call);
  to->display = pinion_display_of(call);
  PINION_SOME(to->details, call->details);
}

void pinion_define_tool(const pinion_tool *from, pinion_plugin_types_tool_definition_t *to) {
  pinion_string_of(&to->name, from->name);
  pinion_string_of(&to->label, from->label ? from->label : from->name);
  pinion_string_of(&to->description, from->description);
  pinion_string_of(&to->input_schema, from->schema ? from->schema : "{\"type\":\"object\"}");
  to->effects = (uint8_t)from->effects;
  to->execution = from->is_sequential ? PINION_PLUGIN_TYPES_EXECUTION_SEQUENTIAL : PINION_PLUGIN_TYPES_EXECUTION_PARALLEL;
  PINION_SOME(to->extra, from->extra);
}

void pinion_define_command(const pinion_command *from, pinion_plugin_types_command_definition_t *to) {
  pinion_string_of(&to->name, from->name);
  pinion_string_of(&to->description, from->description);
  PINION_SOME(to->argument_hint, from->hint);
}

// Finds what is called: in the tables, or among what the plugin offers now, with the memory of the call.

static bool is_named(const char *name, plugin_string_t *wanted) {
  return strlen(name) == wanted->len && !memcmp(name, wanted->ptr, wanted->len);
}

// Returns what the plugin offers at the moment, for as long as the call lives.
static pinion_item *offered(pinion_call *call) {
  pinion_call offer = {0};
  (void)pinion_offers(&offer);
  pinion_block **end = &call->blocks;
  while (*end) end = &(*end)->next;
  *end = offer.blocks;
  return offer.items;
}

const pinion_tool *pinion_find_tool(pinion_call *call, plugin_string_t *name) {
  call->name = taken(call, name);
  const pinion_tool *tool = pinion_tools;
  while (tool->name && !is_named(tool->name, name)) tool++;
  for (pinion_item *item = tool->name ? NULL : offered(call); item; item = item->next) {
    const pinion_tool *one = item->value;
    if (item->is_tool && is_named(one->name, name)) tool = one;
  }
  plugin_string_free(name);
  return tool->name ? tool : NULL;
}

const pinion_command *pinion_find_command(pinion_call *call, plugin_string_t *name) {
  call->name = taken(call, name);
  const pinion_command *command = pinion_commands;
  while (command->name && !is_named(command->name, name)) command++;
  for (pinion_item *item = command->name ? NULL : offered(call); item; item = item->next) {
    const pinion_command *one = item->value;
    if (!item->is_tool && is_named(one->name, name)) command = one;
  }
  plugin_string_free(name);
  return command->name ? command : NULL;
}
