/** A case of a public suite in our words, however its file writes it. */
import type { CaseResource, CaseTuple } from '../cases.ts';

export interface PublicTuple extends CaseTuple {
  /** ISO 8601. */
  readonly expiresAt?: string;
}

/** What comes with a question. */
export interface Around {
  readonly context?: Readonly<Record<string, unknown>> | undefined;
  readonly contextualTuples?: readonly PublicTuple[] | undefined;
}

/** `undecided`: a value is missing; `error`: a 4xx, or no answer for such a reason. */
export type Outcome = boolean | 'undecided' | 'error';

export interface PublicCheck extends Around {
  readonly subject: string;
  readonly permission: string;
  readonly resource: string;
  readonly expected: Outcome;
}

export interface PublicList extends Around {
  readonly subject: string;
  readonly permission: string;
  readonly type: string;
  readonly expected: readonly string[] | 'error';
}

export interface PublicWho extends Around {
  readonly resource: string;
  readonly permission: string;
  readonly subjectType: string;
  readonly expected: readonly string[] | 'error';
}

export interface PublicCase {
  readonly id: string;
  readonly resources: readonly CaseResource[];
  readonly tuples: readonly PublicTuple[];
  /** Tuples of an earlier model of the same store, which need not fit this one. */
  readonly kept: readonly PublicTuple[];
  readonly checks: readonly PublicCheck[];
  readonly lists: readonly PublicList[];
  readonly whos: readonly PublicWho[];
  /** What cannot be asked, and why. */
  readonly unmapped: readonly string[];
}

/** Why a model, or a part of it, cannot be said in our language. */
export class Unmapped extends Error {}

/* Expressions of other languages, put together in ours. */

export type Expression = string | { readonly [key: string]: unknown };

export const unionOf = (parts: readonly Expression[]): Expression => group('union', parts);
export const intersectionOf = (parts: readonly Expression[]): Expression =>
  group('intersection', parts);
export const exclusionOf = (base: Expression, subtract: Expression): Expression => ({
  exclusion: { base, subtract },
});

/** Groups of one kind within each other are one group: they nest only so deep. */
function group(kind: 'union' | 'intersection', parts: readonly Expression[]): Expression {
  const flat = parts.flatMap((part) => {
    const inner = typeof part === 'object' ? part[kind] : undefined;
    return Array.isArray(inner) ? (inner as Expression[]) : [part];
  });
  const [only] = flat;
  return flat.length === 1 && only !== undefined ? only : { [kind]: flat };
}

/** What a definition takes for an action. */
export const permissionOf = (expression: Expression): unknown =>
  typeof expression === 'string' ? [expression] : expression;

/** Relations as others mean them: everybody of a type is named, and arrows go through sets. */
export const strictly = (
  relations: Readonly<Record<string, readonly string[]>>,
): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(relations).map(([name, types]) => [name, { types, strict: true }]),
  );

/** Names that we take; other systems have more characters. Two names that would become one are refused. */
export function createNames(): (name: string) => string {
  const given = new Map<string, string>();
  return (name) => {
    const plain = name.replace(/\W/g, '_').replace(/^(?![A-Za-z])/, 'n');
    const other = given.get(plain) ?? name;
    if (other !== name) throw new Unmapped(`the names ${other} and ${name} are one name here`);
    given.set(plain, name);
    return plain;
  };
}

const plainTypes: ReadonlySet<string> = new Set([
  'bool',
  'int',
  'uint',
  'double',
  'string',
  'timestamp',
  'duration',
  'ipaddress',
  'any',
]);

/** The type of a parameter; maps have texts as keys. */
export function parameterType(text: string): string {
  const type = text.trim();
  const container = /^(list|map)<(.+)>$/.exec(type);
  if (container) return `${container[1]}<${parameterType(container[2] ?? '')}>`;
  if (type === 'list' || type === 'map') return 'json';
  if (!plainTypes.has(type)) throw new Unmapped(`no parameter has the type ${type} here`);
  return type;
}

/** The same text with nothing in its quotes, so that what stands there is not taken for more. */
const withoutTexts = (text: string): string =>
  text.replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, (quoted) => ' '.repeat(quoted.length));

/** A block in braces of a text that begins at `from`, and where it ends. */
export function blockAt(
  text: string,
  from: number,
): { readonly body: string; readonly end: number } {
  const plain = withoutTexts(text);
  const open = plain.indexOf('{', from);
  let depth = 0;
  for (let i = open; open >= 0 && i < plain.length; i += 1) {
    if (plain[i] === '{') depth += 1;
    if (plain[i] === '}') depth -= 1;
    if (depth === 0) return { body: text.slice(open + 1, i), end: i + 1 };
  }
  throw new Unmapped(`a block does not end: ${text.slice(from, from + 40)}`);
}

/** Parts between commas that stand in no brackets. */
export function splitList(text: string): readonly string[] {
  const parts: string[] = [];
  let depth = 0;
  let part = '';
  for (const character of text) {
    if ('<([{'.includes(character)) depth += 1;
    if ('>)]}'.includes(character)) depth -= 1;
    if (character === ',' && depth === 0) {
      parts.push(part);
      part = '';
    } else part += character;
  }
  return [...parts, part].map((one) => one.trim()).filter((one) => one !== '');
}
