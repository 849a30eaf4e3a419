import { optional, plugin, string, tool } from './pinion/index.js';
import { search } from './pinion/files.js';

export const { tools, commands } = plugin({
  tools: {
    todo_list: tool({
      description: 'Lists the TODO and FIXME comments below a directory, with file and line.',
      input: {
        folder: optional(string('The directory; the workspace by default')),
        mark: optional(string('A regular expression in place of TODO|FIXME')),
      },
      effects: ['reads'],
      run({ folder = '.', mark = String.raw`\b(TODO|FIXME)\b` }) {
        const found = search(folder, mark);
        const lines = found.files.flatMap((file) => file.lines.map((line) => `${file.path || folder}:${line.number}: ${line.text.trim()}`));
        const rest = found.truncated ? '\n(there are more)' : '';
        return { content: (lines.join('\n') || 'no comments found') + rest, details: { matches: found.matches } };
      },
    }),
  },
  commands: {
    todo: {
      description: 'Ask the model to work on a TODO',
      hint: '<directory>',
      run: (input) => ({ submit: `Call todo_list for ${input || '.'} and fix the most urgent one.` }),
    },
  },
});
