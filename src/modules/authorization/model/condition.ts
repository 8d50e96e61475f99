/**
 * Conditions on tuples: a closed set of comparisons over the request's context,
 * the tuple's own attributes and the clock. No code, no patterns, no loops.
 *
 * Written as `{op: [operand, operand]}`, `{all: [...]}`, `{any: [...]}` or
 * `{not: condition}`; an operand is `{context: name}`, `{attribute: name}`,
 * `{now: true}` or a literal.
 */
import type { Problem } from '../../../kernel/errors.ts';
import { isName } from './grammar.ts';

export type Literal = string | number | boolean | null | readonly (string | number | boolean)[];

export type Operand =
  | { readonly kind: 'context'; readonly name: string }
  | { readonly kind: 'attribute'; readonly name: string }
  | { readonly kind: 'now' }
  | { readonly kind: 'literal'; readonly value: Literal };

export const comparisons = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in'] as const;
export type Comparison = (typeof comparisons)[number];

export type Condition =
  | { readonly kind: 'compare'; readonly operator: Comparison; readonly left: Operand; readonly right: Operand }
  | { readonly kind: 'exists'; readonly operand: Operand }
  | { readonly kind: 'all' | 'any'; readonly of: readonly Condition[] }
  | { readonly kind: 'not'; readonly of: Condition };

const maxNodes = 64;

/** Parses the wire form; problems carry dotted places below `path`. */
export function parseCondition(input: unknown, path: string, problems: Problem[]): Condition | undefined {
  const before = problems.length;
  const budget = { left: maxNodes };
  const condition = node(input, path, { problems, budget });
  return problems.length === before ? condition : undefined;
}

interface Parsing {
  readonly problems: Problem[];
  readonly budget: { left: number };
}

const fault = (parsing: Parsing, path: string, rule: string, message: string): undefined => {
  parsing.problems.push({ path, rule, message });
  return undefined;
};

const isPlain = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

function node(input: unknown, path: string, parsing: Parsing): Condition | undefined {
  parsing.budget.left -= 1;
  if (parsing.budget.left < 0) return fault(parsing, path, 'size', `a condition has at most ${maxNodes} parts`);
  const entry = isPlain(input) ? Object.entries(input) : [];
  const [key, value] = entry[0] ?? [];
  if (entry.length !== 1 || key === undefined) return fault(parsing, path, 'condition', 'must be an object with exactly one operator');
  const place = `${path}.${key}`;
  if (key === 'all' || key === 'any') return group(key, value, place, parsing);
  if (key === 'not') {
    const of = node(value, place, parsing);
    return of && { kind: 'not', of };
  }
  if (key === 'exists') {
    const found = operand(value, place, parsing);
    return found && { kind: 'exists', operand: found };
  }
  if (!(comparisons as readonly string[]).includes(key)) {
    return fault(parsing, place, 'operator', `unknown operator; use one of ${[...comparisons, 'exists', 'all', 'any', 'not'].join(', ')}`);
  }
  if (!Array.isArray(value) || value.length !== 2) return fault(parsing, place, 'operands', 'must be a list of two operands');
  const left = operand(value[0], `${place}[0]`, parsing);
  const right = operand(value[1], `${place}[1]`, parsing);
  return left && right && { kind: 'compare', operator: key as Comparison, left, right };
}

function group(kind: 'all' | 'any', value: unknown, path: string, parsing: Parsing): Condition | undefined {
  if (!Array.isArray(value) || value.length === 0) return fault(parsing, path, 'operands', 'must be a list with at least one condition');
  const of = value.map((child, i) => node(child, `${path}[${i}]`, parsing));
  return of.every((c) => c !== undefined) ? { kind, of } : undefined;
}

function operand(input: unknown, path: string, parsing: Parsing): Operand | undefined {
  if (!isPlain(input)) {
    return isLiteral(input)
      ? { kind: 'literal', value: input }
      : fault(parsing, path, 'operand', 'must be a literal, {context}, {attribute} or {now}');
  }
  const [key, value] = Object.entries(input)[0] ?? [];
  if (Object.keys(input).length === 1) {
    if ((key === 'context' || key === 'attribute') && typeof value === 'string' && isName(value)) return { kind: key, name: value };
    if (key === 'now' && value === true) return { kind: 'now' };
  }
  return fault(parsing, path, 'operand', 'must be {"context": name}, {"attribute": name} or {"now": true}');
}

function isLiteral(value: unknown): value is Literal {
  if (Array.isArray(value)) return value.length <= 100 && value.every((v) => isLiteral(v) && v !== null && !Array.isArray(v));
  return value === null || typeof value === 'boolean' || typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value));
}
