import { plugin, string, ToolError } from './pinion/index.js';
import { readText } from './pinion/files.js';

/** Returns the values at a path such as `a.b[0].*.c`. */
function query(value, path) {
  const keys = path.replace(/\[(\*|\d+)\]/g, '.$1').split('.').filter(Boolean);
  const step = (values, key) => values.flatMap((each) => (
    key === '*' ? Object.values(each ?? {}) : each?.[key] === undefined ? [] : [each[key]]));
  return keys.reduce(step, [value]);
}

export const { tools, commands } = plugin({
  tools: {
    json_query: {
      description: 'Picks values out of a JSON file by a path such as `packages[*].name`, one per line. '
        + 'Use it instead of reading large JSON files.',
      input: { path: string('The file, relative to the workspace'), query: string('Keys, indexes, and `*` for all') },
      effects: ['reads'],
      run(input) {
        const found = query(JSON.parse(readText(input.path)), input.query);
        if (found.length === 0) throw new ToolError('not-found', `nothing at \`${input.query}\` in ${input.path}`);
        return { content: found.map((value) => JSON.stringify(value)).join('\n'), details: { found: found.length }, display: 'code:json' };
      },
    },
  },
  commands: {
    'json-help': { description: 'Show how paths of json_query are written', run: () => '`a.b[0].*.c`: keys, indexes, `*` for all' },
  },
});
