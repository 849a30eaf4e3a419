/** Returns the absolute path for a path that the model or the user wrote. */
export function resolve(path: string): string;
/** Reads a whole file of UTF-8 text, of at most 16 MiB. */
export function readText(path: string): string;
/** Reads a whole file. */
export function readFile(path: string): Uint8Array;
/** Replaces a file, and creates missing directories. */
export function writeFile(path: string, content: string | Uint8Array): void;

export interface WalkOptions {
  /** Globs in .gitignore syntax. */
  globs?: string[];
  /** Names of file types, such as `rust`. */
  types?: string[];
  maxDepth?: number;
  hidden?: boolean;
  ignoreFiles?: boolean;
  limit?: number;
}
export interface Entry {
  path: string;
  kind: 'file' | 'directory' | 'symlink' | 'other';
}
/** Lists the files and directories below `root`. */
export function walk(root: string, options?: WalkOptions): { entries: Entry[]; truncated: boolean };

export interface SearchOptions extends WalkOptions {
  regex?: boolean;
  caseSensitive?: boolean;
  multiline?: boolean;
  before?: number;
  after?: number;
  maxMatches?: number;
  maxMatchesPerFile?: number;
  maxLineBytes?: number;
}
export interface FileMatches {
  path: string;
  lines: { number: number; text: string; isMatch: boolean }[];
  matches: number;
}
/** Searches the files below `root` for a regular expression in Rust's syntax, or for a string with `regex: false`. */
export function search(root: string, pattern: string, options?: SearchOptions): {
  files: FileMatches[]; matches: number; searched: number; truncated: boolean;
};
