import { plugin, string, tool } from './pinion/index.js';
import { readText } from './pinion/files.js';

export const { tools, commands } = plugin({
  tools: {
    '{{tool}}': tool({
      description: '{{example}}ounts the words of a file.',
      input: { path: string('The file, relative to the workspace') },
      effects: ['reads'],
      run({ path }, call) {
        call.progress(`reading ${path}`);
        const words = readText(path).replaceAll('\n', ' ').split(' ').filter(Boolean);
        return `${words.length} words`;
      },
    }),
  },
  commands: {
    '{{name}}': {
      description: 'Ask for the number of words in a file',
      hint: '<file>',
      run: (input) => ({ submit: `Count the words in ${input}.` }),
    },
  },
});
