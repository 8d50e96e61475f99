/** Rules of the database (`CHECK (...)`) as rules of a field, where they are simple; the database keeps all of them in any case. */
import type { FieldRules } from '../../../../data/schema/language/field-language.ts';

export interface SimpleRules {
  readonly validate: FieldRules;
  readonly enum?: readonly string[];
}

const number = String.raw`\(?'?(-?\d+(?:\.\d+)?)'?\)?(?:::[\w" ]+)?`;
const bounds: readonly (readonly [RegExp, keyof FieldRules])[] = [
  [new RegExp(`^ ?>= ${number}$`), 'min'],
  [new RegExp(`^ ?<= ${number}$`), 'max'],
  [new RegExp(`^ ?> ${number}$`), 'exclusiveMin'],
  [new RegExp(`^ ?< ${number}$`), 'exclusiveMax'],
];

/** Takes off brackets that enclose the whole. */
function bare(text: string): string {
  let inner = text.trim();
  while (inner.startsWith('(') && closing(inner) === inner.length - 1) inner = inner.slice(1, -1).trim();
  return inner;
}

function closing(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++;
    else if (text[i] === ')' && --depth === 0) return i;
  }
  return -1;
}

/** The parts of a text between ANDs that stand in no brackets. */
function conjuncts(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++;
    else if (text[i] === ')') depth--;
    else if (depth === 0 && text.startsWith(' AND ', i)) {
      parts.push(text.slice(start, i));
      start = i + 5;
    }
  }
  return [...parts, text.slice(start)].map(bare);
}

/** Text up to which a rule is looked at: longer ones are left to the database. */
const MAX_RULE = 10_000;

/**
 * What a check says about one value. `subjects`: how the value is called in it (`VALUE`, or the column).
 * `undefined` when some part of it is not simple: then none of it is taken over.
 */
export function simpleRules(check: string, subjects: readonly string[]): SimpleRules | undefined {
  if (check.length > MAX_RULE || !check.startsWith('CHECK (')) return undefined;
  const text = bare(check.slice('CHECK '.length).replace(/ NO INHERIT$| NOT VALID$/, ''));
  let rules: SimpleRules = { validate: {} };
  for (const part of conjuncts(text)) {
    const found = simpleRule(part, subjects);
    if (!found) return undefined;
    rules = { ...rules, ...found, validate: { ...rules.validate, ...found.validate } };
  }
  return rules;
}

function simpleRule(part: string, subjects: readonly string[]): SimpleRules | undefined {
  const subject = subjects.find((name) => part.startsWith(name) || part.startsWith(`(${name})::`));
  if (subject === undefined) return undefined;
  const rest = part.slice(part.startsWith('(') ? subject.length + 2 : subject.length).replace(/^::[\w" ]+?(?= [<>=])/, '');
  for (const [pattern, rule] of bounds) {
    const value = pattern.exec(rest)?.[1];
    if (value !== undefined) return { validate: { [rule]: Number(value) } };
  }
  const values = listed(rest);
  return values && { validate: {}, enum: values };
}

/** `= ANY (ARRAY['a'::text, 'b'::text])`, or `= ANY ((ARRAY['a'::character varying, ...])::text[])`. */
function listed(rest: string): string[] | undefined {
  const list = /^ ?= ANY \(\(?ARRAY\[(.*?)\]\)?(?:::[\w" ]+\[\])?\)$/.exec(rest)?.[1];
  if (list === undefined) return undefined;
  const item = /'((?:[^']|'')*)'::[\w" ]+(?:, |$)/y;
  const values: string[] = [];
  while (item.lastIndex < list.length) {
    const found = item.exec(list);
    if (!found) return undefined;
    values.push((found[1] ?? '').replaceAll("''", "'"));
  }
  return values.length > 0 ? values : undefined;
}
