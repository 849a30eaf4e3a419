// The export `after-tool-call`: a hook that the plugin defines as `pinion_after_tool_call`.
#include "pinion-call.h"

typedef exports_pinion_plugin_after_tool_call_result_tool_output_tool_error_t outcome_of;

// Returns the texts among the parts of a result, one after another.
static char *texts(pinion_call *call, pinion_plugin_types_list_content_t *parts) {
  size_t size = 0;
  for (size_t i = 0; i < parts->len; i++) {
    if (parts->ptr[i].tag == PINION_PLUGIN_TYPES_CONTENT_TEXT) size += parts->ptr[i].val.text.len;
  }
  char *all = pinion_allocate(call, size + 1), *to = all;
  for (size_t i = 0; i < parts->len; i++) {
    plugin_string_t *text = &parts->ptr[i].val.text;
    if (parts->ptr[i].tag != PINION_PLUGIN_TYPES_CONTENT_TEXT || !text->len) continue;
    memcpy(to, text->ptr, text->len);
    to += text->len;
  }
  *to = 0;
  return all;
}

// Puts the hook's parts before those that stay: all, or those that are no text if the hook has a text.
static void revise_parts(pinion_call *hook, pinion_plugin_types_list_content_t *parts) {
  if (!hook->message && !hook->count) return;
  pinion_plugin_types_list_content_t made = pinion_contents_of(hook);
  made.ptr = realloc(made.ptr, (made.len + parts->len) * sizeof *made.ptr);
  if (!made.ptr) abort();
  for (size_t i = 0; i < parts->len; i++) {
    bool is_gone = hook->message && parts->ptr[i].tag == PINION_PLUGIN_TYPES_CONTENT_TEXT;
    if (is_gone) pinion_plugin_types_content_free(&parts->ptr[i]);
    else made.ptr[made.len++] = parts->ptr[i];
  }
  if (parts->len) free(parts->ptr);
  *parts = made;
}

static void revise_details(pinion_call *hook, pinion_plugin_types_option_json_t *details,
                           pinion_plugin_types_display_t *display) {
  if (hook->details) {
    pinion_plugin_types_option_json_free(details);
    PINION_SOME(*details, hook->details);
  }
  if (hook->display) {
    pinion_plugin_types_display_free(display);
    *display = pinion_display_of(hook);
  }
}

static void revise_error(pinion_call *hook, pinion_plugin_types_tool_error_t *error) {
  if (hook->is_error) error->kind = (uint8_t)hook->kind;
  if (hook->message) {
    plugin_string_free(&error->message);
    pinion_string_of(&error->message, hook->message);
  }
  // What takes the place of the message.
  if (error->content.len) revise_parts(hook, &error->content);
  error->retryable |= hook->is_retryable;
  revise_details(hook, &error->details, &error->display);
}

bool exports_pinion_plugin_after_tool_call_revise(exports_pinion_plugin_after_tool_call_call_context_t *context,
                                                  exports_pinion_plugin_after_tool_call_tool_call_t *tool_call,
                                                  outcome_of *outcome, outcome_of *ret) {
  pinion_call hook;
  pinion_begin(&hook, NULL);
  pinion_enter(&hook, context, true);
  pinion_tool_call *subject = pinion_subject(&hook, tool_call);
  pinion_plugin_types_tool_error_t *error = &outcome->val.err;
  char *text = texts(&hook, outcome->is_err ? &error->content : &outcome->val.ok.content);
  if (outcome->is_err && !error->content.len) text = pinion_copy(&hook, error->message.ptr, error->message.len);
  pinion_after_tool_call(&hook, subject, &(pinion_outcome){outcome->is_err, text});
  bool is_changed = hook.message || hook.count || hook.details || hook.display || hook.is_retryable;
  if (!is_changed) {
    exports_pinion_plugin_after_tool_call_result_tool_output_tool_error_free(outcome);
  } else if (outcome->is_err) {
    *ret = *outcome;
    revise_error(&hook, &ret->val.err);
  } else if (hook.is_error) {
    pinion_plugin_types_tool_output_free(&outcome->val.ok);
    ret->is_err = true;
    pinion_error_of(&hook, &ret->val.err, "");
  } else {
    *ret = *outcome;
    revise_parts(&hook, &ret->val.ok.content);
    revise_details(&hook, &ret->val.ok.details, &ret->val.ok.display);
  }
  pinion_end(&hook);
  return is_changed;
}

#include "adapters/after-tool-call.h"
