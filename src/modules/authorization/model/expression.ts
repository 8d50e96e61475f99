import type { RuleType } from '../../../data/rules/types.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { isName } from './grammar.ts';
import { isTypedRule, parseRecordRule } from './typed-rule.ts';

/**
 * What an action means, as a small closed tree. A plain list in a definition is
 * a union; the object form adds intersection and exclusion.
 */
export type Expression =
  | { readonly kind: 'none' }
  | { readonly kind: 'everyone' }
  /** Whoever stands in this relation. */
  | { readonly kind: 'relation'; readonly relation: string }
  /** Whoever may do another action of the same type. */
  | { readonly kind: 'action'; readonly action: string }
  /** Whoever may do `target` on the object that stands in this relation; with `all`, on every such object (and there is one). */
  | {
      readonly kind: 'arrow';
      readonly relation: string;
      readonly target: string;
      readonly all: boolean;
    }
  | RecordRule
  | { readonly kind: 'union'; readonly of: readonly Expression[] }
  | { readonly kind: 'intersection'; readonly of: readonly Expression[] }
  | { readonly kind: 'exclusion'; readonly base: Expression; readonly subtract: Expression };

/** Whoever asks, for records of which the rule holds. */
export interface RecordRule {
  readonly kind: 'rule';
  readonly text: string;
  /** Their values come with the request. */
  readonly parameters: ReadonlyMap<string, RuleType>;
  /** Where it stands in the definition. */
  readonly place: string;
}

/** The expressions that an expression is made of. */
export function childrenOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case 'union':
    case 'intersection':
      return expression.of;
    case 'exclusion':
      return [expression.base, expression.subtract];
    default:
      return [];
  }
}

/** The expression as an author would write it, for explanations. */
export function format(expression: Expression): string {
  switch (expression.kind) {
    case 'none':
      return 'nobody';
    case 'everyone':
      return '*';
    case 'relation':
      return expression.relation;
    case 'action':
      return `${expression.action}`;
    case 'arrow':
      return `${expression.relation}->${expression.target}${expression.all ? ' (all)' : ''}`;
    case 'rule':
      return `"${expression.text}"`;
    case 'union':
      return expression.of.map(format).join(' or ');
    case 'intersection':
      return `(${expression.of.map(format).join(' and ')})`;
    case 'exclusion':
      return `(${format(expression.base)} but not ${format(expression.subtract)})`;
  }
}

/*
 * How large an action becomes where rows are asked for it: actions that it refers to are put in, each time. Alternatives
 * stay small however many there are, because they become one lookup; intersections and exclusions of one another double
 * with each step, and no database could run what comes of a long chain of them.
 */

/** Parts that one action may consist of in the end; far more than any rule that people can follow. */
const MAX_PARTS = 250;

/** Actions that are too large; they must not be defined by themselves. */
export function oversized(actions: ReadonlyMap<string, Expression>): Problem[] {
  const partsOf = counter(actions);
  const [first] = [...actions].filter(([, expression]) => partsOf(expression) > MAX_PARTS);
  if (!first) return [];
  const message = `consists of more than ${MAX_PARTS} parts when the actions that it refers to are put in`;
  return [{ path: `permissions.${first[0]}`, rule: 'size', message }];
}

/** Counts parts; what it found about an action is kept, so that it ends whatever refers to what. */
function counter(actions: ReadonlyMap<string, Expression>): (expression: Expression) => number {
  const known = new Map<string, number>();
  const ofAction = (name: string): number => {
    const expression = actions.get(name);
    const parts = known.get(name) ?? (expression ? partsOf(expression) : 1);
    known.set(name, parts);
    return parts;
  };
  /** One part: nothing but alternatives. */
  const partsOf = (expression: Expression): number => {
    if (expression.kind === 'action') return ofAction(expression.action);
    const children = [
      ...new Map(childrenOf(expression).map((child) => [format(child), child])).values(),
    ];
    if (children.length === 0) return 1;
    const parts = children.map(partsOf);
    const isAlternatives = expression.kind === 'union' && parts.every((count) => count === 1);
    return isAlternatives ? 1 : parts.reduce((sum, count) => sum + count, 0);
  };
  return partsOf;
}

/* Parses what an action means: a list (union), or the object form, with the place of each problem. */

const limits = { roles: 64, nesting: 8 };

/** What names mean while one definition is parsed. */
interface ExpressionScope {
  readonly problems: Problem[];
  readonly relations: ReadonlyMap<string, unknown>;
  readonly declared: ReadonlySet<string>;
  readonly depth: number;
}

/** A JSON object. */
export const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parses one expression; adds a problem and answers nothing when it is not valid. */
export function parseExpression(
  value: unknown,
  path: string,
  scope: ExpressionScope,
): Expression | undefined {
  const fail = (rule: string, message: string): undefined => {
    scope.problems.push({ path, rule, message });
    return undefined;
  };
  if (scope.depth > limits.nesting)
    return fail('nesting', `expressions nest at most ${limits.nesting} deep`);
  const deeper = { ...scope, depth: scope.depth + 1 };
  if (typeof value === 'string') return parseRole(value, fail, scope);
  if (Array.isArray(value)) return parseList('union', value, path, deeper);
  if (!isPlain(value))
    return fail(
      'type',
      'must be a list of roles, or an object with union, intersection or exclusion',
    );
  if (isTypedRule(value)) {
    const rule = parseRecordRule(value, path, scope.problems);
    return rule && { kind: 'rule', ...rule, place: path };
  }
  return parseObject(value, path, fail, deeper);
}

type Fail = (rule: string, message: string) => undefined;

/** The form with one word for what it is. `scope` is that of its parts. */
function parseObject(
  value: Record<string, unknown>,
  path: string,
  fail: Fail,
  scope: ExpressionScope,
): Expression | undefined {
  const keys = Object.keys(value);
  const [key] = keys;
  if (keys.length === 1 && (key === 'union' || key === 'intersection'))
    return parseList(key, value[key], `${path}.${key}`, scope);
  if (keys.length === 1 && key === 'exclusion')
    return parseExclusion(value[key], `${path}.exclusion`, scope);
  if (keys.length === 1 && key === 'relation')
    return parseNamed('relation', value[key], fail, scope);
  if (keys.length === 1 && key === 'action') return parseNamed('action', value[key], fail, scope);
  if (keys.length === 1 && key === 'every') return parseEvery(value[key], fail, scope);
  return fail(
    'expression',
    'must have exactly one of union, intersection, exclusion, relation, action, every, rule',
  );
}

function parseList(
  kind: 'union' | 'intersection',
  value: unknown,
  path: string,
  scope: ExpressionScope,
): Expression | undefined {
  if (
    !Array.isArray(value) ||
    value.length > limits.roles ||
    (kind === 'intersection' && value.length === 0)
  ) {
    scope.problems.push({
      path,
      rule: 'type',
      message: `must be a list of ${kind === 'union' ? 'at most' : '1 to'} ${limits.roles} roles`,
    });
    return undefined;
  }
  const of = value.map((role, i) => parseExpression(role, `${path}[${i}]`, scope));
  if (of.some((e) => e === undefined)) return undefined;
  if (of.length === 0) return { kind: 'none' };
  return of.length === 1 && of[0] ? of[0] : { kind, of: of.filter((e) => e !== undefined) };
}

function parseExclusion(
  value: unknown,
  path: string,
  scope: ExpressionScope,
): Expression | undefined {
  if (!isPlain(value) || Object.keys(value).sort().join() !== 'base,subtract') {
    scope.problems.push({
      path,
      rule: 'type',
      message: 'must be an object with base and subtract',
    });
    return undefined;
  }
  const base = parseExpression(value.base, `${path}.base`, scope);
  const subtract = parseExpression(value.subtract, `${path}.subtract`, scope);
  return base && subtract && { kind: 'exclusion', base, subtract };
}

function parseRole(text: string, fail: Fail, scope: ExpressionScope): Expression | undefined {
  if (text === '*') return { kind: 'everyone' };
  const arrow = text.indexOf('->');
  if (arrow >= 0) return parseArrow(text, false, fail, scope);
  if (!isName(text))
    return fail(
      'role',
      `"${cutText(text, 64)}" is not a role; write a relation, an action, relation->action, or *`,
    );
  if (scope.relations.has(text)) return { kind: 'relation', relation: text };
  if (scope.declared.has(text)) return { kind: 'action', action: text };
  return fail('role', `"${text}" is neither a relation nor an action of this type`);
}

function parseArrow(
  text: string,
  all: boolean,
  fail: Fail,
  scope: ExpressionScope,
): Expression | undefined {
  const [relation = '', target = '', ...rest] = text.split('->');
  if (rest.length > 0 || !isName(relation) || !isName(target))
    return fail('role', 'an arrow is written relation->action');
  if (!scope.relations.has(relation))
    return fail('role', `"${relation}" before -> is not a relation of this type`);
  return { kind: 'arrow', relation, target, all };
}

function parseEvery(value: unknown, fail: Fail, scope: ExpressionScope): Expression | undefined {
  return typeof value === 'string' && value.includes('->')
    ? parseArrow(value, true, fail, scope)
    : fail('role', '"every" takes relation->action');
}

function parseNamed(
  kind: 'relation' | 'action',
  value: unknown,
  fail: Fail,
  scope: ExpressionScope,
): Expression | undefined {
  const known = kind === 'relation' ? scope.relations : scope.declared;
  if (typeof value !== 'string' || !known.has(value))
    return fail('role', `this type has no such ${kind}`);
  return kind === 'relation' ? { kind, relation: value } : { kind, action: value };
}
