#include "pinion.h"

enum { ROW = 16, MOST = 4096 };

// Prints one row of a dump as `xxd` does, and returns the end of the text.
static char *row(char *to, long offset, const unsigned char *bytes, size_t length) {
  to += sprintf(to, "%08lx:", (unsigned long)offset);
  for (size_t i = 0; i < ROW; i++) to += i < length ? sprintf(to, " %02x", bytes[i]) : sprintf(to, "   ");
  to += sprintf(to, "  ");
  for (size_t i = 0; i < length; i++) *to++ = isprint(bytes[i]) ? (char)bytes[i] : '.';
  return *to++ = '\n', to;
}

static bool dump(pinion_call *call) {
  const char *path = pinion_path(call, "path");
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (!file) return pinion_fail_errno(call, path);
  long offset = (long)pinion_number(call, "offset", 0);
  long length = (long)pinion_number(call, "length", 256);
  if (length < 1 || length > MOST) length = MOST;
  unsigned char bytes[MOST];
  size_t read = fseek(file, offset, SEEK_SET) ? 0 : fread(bytes, 1, (size_t)length, file);
  fclose(file);
  if (!read) return pinion_fail(call, PINION_NOT_FOUND, "no bytes at offset %ld of `%s`", offset, path);
  char *text = pinion_allocate(call, (read / ROW + 1) * 90), *to = text;
  for (size_t at = 0; at < read; at += ROW) to = row(to, offset + (long)at, bytes + at, read - at < ROW ? read - at : ROW);
  *to = 0;
  return pinion_text(call, "%s", text);
}

static bool ask(pinion_call *call) { return pinion_submit(call, "Which file format is %s? Use hex_dump.", pinion_input(call)); }

const pinion_tool pinion_tools[] = {
  {"hex_dump", "Shows bytes of a binary file in hex and ASCII, 4096 at most.", PINION_READS, dump,
   PINION_OBJECT("\"path\"", PINION_STRING("path", "The file") "," PINION_INTEGER("offset", "The first byte; 0 by default") ","
     PINION_INTEGER("length", "The number of bytes; 256 by default"))},
  {0},
};

const pinion_command pinion_commands[] = {{"file-format", "Ask for the format of a binary file", "<file>", ask}, {0}};
