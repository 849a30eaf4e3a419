#include "pinion.h"

static bool count(pinion_call *call) {
  const char *path = pinion_path(call, "path");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) return pinion_fail_errno(call, path);
  size_t words = 0, is_word = 0;
  for (int c; (c = fgetc(file)) != EOF; is_word = !isspace(c)) words += !isspace(c) && !is_word;
  fclose(file);
  return pinion_text(call, "%zu words", words);
}

static bool ask(pinion_call *call) { return pinion_submit(call, "Count the words in %s.", pinion_input(call)); }

const pinion_tool pinion_tools[] = {
  {"{{tool}}", "{{example}}ounts the words of a file.", PINION_READS, count,
   PINION_OBJECT("\"path\"", PINION_STRING("path", "The file, relative to the workspace"))},
  {0},
};

const pinion_command pinion_commands[] = {{"{{name}}", "Ask for the number of words in a file", "<file>", ask}, {0}};
