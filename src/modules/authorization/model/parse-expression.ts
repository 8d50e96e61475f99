/** Parses what an action means: a list (union), or the object form, with the place of each fault. */

import type { Problem } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import type { Expression } from './expression.ts';
import { isName } from './grammar.ts';

const limits = { roles: 64, nesting: 8 };

/** What names mean while one definition is parsed. */
export interface ExpressionScope {
  readonly problems: Problem[];
  readonly relations: ReadonlyMap<string, unknown>;
  readonly declared: ReadonlySet<string>;
  readonly depth: number;
}

/** A JSON object. */
export const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parses one expression; adds a problem and answers nothing when it is not valid. */
export function parseExpression(value: unknown, path: string, scope: ExpressionScope): Expression | undefined {
  const fail = (rule: string, message: string): undefined => {
    scope.problems.push({ path, rule, message });
    return undefined;
  };
  if (scope.depth > limits.nesting) return fail('nesting', `expressions nest at most ${limits.nesting} deep`);
  const deeper = { ...scope, depth: scope.depth + 1 };
  if (typeof value === 'string') return parseRole(value, fail, scope);
  if (Array.isArray(value)) return parseList('union', value, path, deeper);
  if (!isPlain(value)) return fail('type', 'must be a list of roles, or an object with union, intersection or exclusion');
  const keys = Object.keys(value);
  const [key] = keys;
  if (keys.length === 1 && (key === 'union' || key === 'intersection')) return parseList(key, value[key], `${path}.${key}`, deeper);
  if (keys.length === 1 && key === 'exclusion') return parseExclusion(value[key], `${path}.exclusion`, deeper);
  if (keys.length === 1 && key === 'relation') return parseNamed('relation', value[key], fail, scope);
  if (keys.length === 1 && key === 'action') return parseNamed('action', value[key], fail, scope);
  if (keys.length === 1 && key === 'every') return parseEvery(value[key], fail, scope);
  return fail('expression', 'must have exactly one of union, intersection, exclusion, relation, action, every');
}

function parseList(kind: 'union' | 'intersection', value: unknown, path: string, scope: ExpressionScope): Expression | undefined {
  if (!Array.isArray(value) || value.length > limits.roles || (kind === 'intersection' && value.length === 0)) {
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

function parseExclusion(value: unknown, path: string, scope: ExpressionScope): Expression | undefined {
  if (!isPlain(value) || Object.keys(value).sort().join() !== 'base,subtract') {
    scope.problems.push({ path, rule: 'type', message: 'must be an object with base and subtract' });
    return undefined;
  }
  const base = parseExpression(value.base, `${path}.base`, scope);
  const subtract = parseExpression(value.subtract, `${path}.subtract`, scope);
  return base && subtract && { kind: 'exclusion', base, subtract };
}

type Fail = (rule: string, message: string) => undefined;

function parseRole(text: string, fail: Fail, scope: ExpressionScope): Expression | undefined {
  if (text === '*') return { kind: 'everyone' };
  const arrow = text.indexOf('->');
  if (arrow >= 0) return parseArrow(text, false, fail, scope);
  if (!isName(text)) return fail('role', `"${cutText(text, 64)}" is not a role; write a relation, an action, relation->action, or *`);
  if (scope.relations.has(text)) return { kind: 'relation', relation: text };
  if (scope.declared.has(text)) return { kind: 'action', action: text };
  return fail('role', `"${text}" is neither a relation nor an action of this type`);
}

function parseArrow(text: string, all: boolean, fail: Fail, scope: ExpressionScope): Expression | undefined {
  const [relation = '', target = '', ...rest] = text.split('->');
  if (rest.length > 0 || !isName(relation) || !isName(target)) return fail('role', 'an arrow is written relation->action');
  if (!scope.relations.has(relation)) return fail('role', `"${relation}" before -> is not a relation of this type`);
  return { kind: 'arrow', relation, target, all };
}

function parseEvery(value: unknown, fail: Fail, scope: ExpressionScope): Expression | undefined {
  return typeof value === 'string' && value.includes('->')
    ? parseArrow(value, true, fail, scope)
    : fail('role', '"every" takes relation->action');
}

function parseNamed(kind: 'relation' | 'action', value: unknown, fail: Fail, scope: ExpressionScope): Expression | undefined {
  const known = kind === 'relation' ? scope.relations : scope.declared;
  if (typeof value !== 'string' || !known.has(value)) return fail('role', `this type has no such ${kind}`);
  return kind === 'relation' ? { kind, relation: value } : { kind, action: value };
}
