// The export `commands`: the table of commands.
#include "pinion-call.h"

bool exports_pinion_plugin_commands_list_commands(exports_pinion_plugin_commands_list_command_definition_t *ret,
                                                  plugin_string_t *error) {
  (void)error;
  ret->len = 0; // What the bindings pass is not initialized.
  while (pinion_commands[ret->len].name) ret->len++;
  ret->ptr = calloc(ret->len + 1, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) pinion_define_command(&pinion_commands[i], &ret->ptr[i]);
  return true;
}

void exports_pinion_plugin_commands_complete_argument(plugin_string_t *name, plugin_string_t *typed,
                                                      exports_pinion_plugin_commands_list_completion_t *ret) {
  pinion_call call;
  pinion_begin(&call, typed);
  const pinion_command *command = pinion_find_command(&call, name);
  if (command && command->complete) command->complete(&call);
  *ret = (exports_pinion_plugin_commands_list_completion_t){calloc(call.count + 1, sizeof *ret->ptr), 0};
  for (pinion_item *item = call.items; item; item = item->next) {
    exports_pinion_plugin_commands_completion_t *completion = &ret->ptr[ret->len++];
    pinion_string_of(&completion->value, item->value);
    PINION_SOME(completion->description, item->more);
  }
  pinion_end(&call);
}

// Copies an action. Its number is that of the contract.
static void act(exports_pinion_plugin_commands_action_t *to, pinion_item *item) {
  to->tag = (uint8_t)item->action;
  switch (item->action) {
    case PINION_COMPACT:
    case PINION_RESUME:
      PINION_SOME(to->val.compact, item->value);
      break;
    case PINION_PRINT:
    case PINION_SUBMIT:
    case PINION_INSERT:
    case PINION_SET_MODEL:
      pinion_string_of(&to->val.print, item->value);
      break;
    default:
      break;
  }
}

bool exports_pinion_plugin_commands_run_command(exports_pinion_plugin_commands_call_context_t *context, plugin_string_t *name,
                                                plugin_string_t *input, exports_pinion_plugin_commands_list_action_t *ret,
                                                plugin_string_t *error) {
  pinion_call call;
  pinion_begin(&call, input);
  const pinion_command *command = pinion_find_command(&call, name);
  pinion_enter(&call, context, true);
  bool is_done = command ? command->run(&call) : pinion_fail(&call, PINION_FAILED, "no such command");
  if (is_done) {
    if (call.message && !call.count) pinion_act(&call, PINION_PRINT, call.message);
    *ret = (exports_pinion_plugin_commands_list_action_t){calloc(call.count + 1, sizeof *ret->ptr), 0};
    for (pinion_item *item = call.items; item; item = item->next) act(&ret->ptr[ret->len++], item);
  } else {
    pinion_string_of(error, call.message ? call.message : "the command failed");
  }
  pinion_end(&call);
  return is_done;
}

#include "adapters/commands.h"
