/**
 * From the text of a rule to its syntax, by the parser of `@bufbuild/cel`. The parser is loaded when the first
 * rule is read, and never sees a text that could keep it busy or use up its stack.
 */
import { createRequire } from 'node:module';
import type { parse } from '@bufbuild/cel';

type Parsed = ReturnType<typeof parse>;
export type Syntax = Parsed['expr'];
export type SyntaxInfo = Parsed['sourceInfo'];

/** UTF-16 units of one rule. */
export const MAX_RULE = 2_000;
/** Brackets within brackets; every one costs the parser some twenty frames of its stack. */
const MAX_DEPTH = 32;
/** Operators after each other, which the parser follows one within the other. */
const MAX_PARTS = 300;

const load = createRequire(import.meta.url);
let library: { readonly parse: typeof parse } | undefined;

/** What is wrong with a rule, and where. */
export class RuleError extends Error {
  /** UTF-16 units from the beginning of the rule. */
  readonly offset: number;
  readonly rule: string;

  constructor(rule: string, offset: number, message: string) {
    super(message);
    this.rule = rule;
    this.offset = offset;
  }
}

/** Throws `RuleError`. */
export function parseRule(text: string): Parsed {
  requireSmall(text);
  library ??= load('@bufbuild/cel') as { readonly parse: typeof parse };
  try {
    return library.parse(text);
  } catch (error) {
    if (error instanceof RangeError) throw new RuleError('size', 0, 'is too deeply nested');
    throw new RuleError('syntax', offsetOf(error), `cannot be read: ${reasonOf(error)}`);
  }
}

function requireSmall(text: string): void {
  if (text.trim() === '') throw new RuleError('required', 0, 'must not be empty');
  if (text.length > MAX_RULE)
    throw new RuleError('maxLength', MAX_RULE, `has at most ${MAX_RULE} characters`);
  let depth = 0;
  let parts = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? '';
    if ('([{'.includes(character)) depth++;
    else if (')]}'.includes(character)) depth--;
    else if ('+-*/%&|?!<>=.'.includes(character)) parts++;
    if (depth > MAX_DEPTH)
      throw new RuleError('depth', at, `brackets stand at most ${MAX_DEPTH} levels deep`);
    if (parts > MAX_PARTS) throw new RuleError('size', at, `has at most ${MAX_PARTS} operators`);
  }
}

function offsetOf(error: unknown): number {
  const location = (error as { location?: { start?: { offset?: unknown } } }).location;
  const offset = location?.start?.offset;
  return typeof offset === 'number' ? offset : 0;
}

/** The sentence of the parser, without the place, which is said in our own way. */
const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : 'syntax error').replace(/^<input>:\d+:\d+:\s*/, '');

/** `line 2, column 7`, both from 1. The parser may count white space to what follows it. */
export function placeOf(text: string, offset: number): string {
  const white = /^\s*/.exec(text.slice(offset))?.[0].length ?? 0;
  const at = offset + white < text.length ? offset + white : offset;
  const before = text.slice(0, at).split('\n');
  return `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
}
