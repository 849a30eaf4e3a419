// Files of the granted directories. Needs `import pinion:plugin/workspace` in `wit/world.wit` and the grant `files`.
import * as workspace from 'pinion:plugin/workspace@0.1.0';
import { bytesOf } from './index.js';

// A u64 is a number in QuickJS, which has no TextDecoder, and a BigInt elsewhere.
const u64 = typeof TextDecoder === 'undefined' ? Number : BigInt;
const CHUNK = 1 << 20;

/** Returns the absolute path for a path that the model or the user wrote. */
export const resolve = workspace.resolve;

/** Reads a whole file of UTF-8 text, of at most 16 MiB. */
export const readText = workspace.readText;

/** Reads a whole file. */
export function readFile(path) {
  const first = workspace.readFile(path, u64(0), CHUNK);
  const all = new Uint8Array(Number(first.size));
  for (let at = 0, { content } = first; content.length && at < all.length; ) {
    all.set(content.subarray(0, all.length - at), at);
    at += content.length;
    if (at < all.length) ({ content } = workspace.readFile(path, u64(at), CHUNK));
  }
  return all;
}

/** Replaces a file with a text or with bytes, and creates missing directories. */
export function writeFile(path, content) {
  workspace.replaceFile(path, typeof content === 'string' ? bytesOf(content) : content);
}

/** Lists the files and directories below `root`. */
export function walk(root, { globs = [], types = [], maxDepth, hidden = false, ignoreFiles = true, limit = 10000 } = {}) {
  return workspace.walk({ root, globs, types, maxDepth, hidden, ignoreFiles, limit });
}

/** Searches the files below `root` for a regular expression in Rust's syntax, or for a string with `regex: false`. */
export function search(root, pattern, { globs = [], types = [], maxDepth, hidden = false, ignoreFiles = true, limit = 10000, ...options } = {}) {
  return workspace.search({ root, globs, types, maxDepth, hidden, ignoreFiles, limit }, {
    pattern, regex: true, caseSensitive: true, multiline: false, before: 0, after: 0,
    maxMatches: 1000, maxMatchesPerFile: 100, maxLineBytes: 400, ...options,
  });
}
