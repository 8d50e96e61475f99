/**
 * From a checked condition to SQL. Values are parameters, tables and columns come from the schema. A
 * `not` is carried down to the tests, where `is not true` makes "unknown" false: a condition and its
 * opposite never both miss a record.
 */
import { identifier } from '../../database/sql.ts';
import type { RowPredicate } from '../../permissions.ts';
import { columnType } from '../../schema/field.ts';
import { literalOf } from '../../schema/literal.ts';
import { idTest } from '../mapped/row-id.ts';
import { type Parameters, restriction } from '../parameters.ts';
import type { BoundCondition, BoundLeaf } from './bind.ts';
import { columnTest } from './column-test.ts';
import { comparable } from './comparable.ts';
import { jsonTest } from './json-test.ts';
import { symbolOf } from './operators.ts';
import type { Hop, Target } from './target.ts';

/** Which related records count, by the path of the relation; without an entry all of them do. */
export type HopPredicates = ReadonlyMap<string, RowPredicate>;

export interface FilterContext {
  readonly parameters: Parameters;
  readonly predicates: HopPredicates;
  /** Makes table aliases unique within the statement. */
  nextAlias(): string;
}

export function createFilterContext(parameters: Parameters, predicates: HopPredicates): FilterContext {
  let count = 0;
  return { parameters, predicates, nextAlias: () => `f${++count}` };
}

/** A boolean expression over the row `alias`. */
export function conditionText(condition: BoundCondition, alias: string, context: FilterContext): string {
  return compile({ alias, context }, condition, false);
}

interface Scope {
  readonly alias: string;
  readonly context: FilterContext;
}

function compile(scope: Scope, condition: BoundCondition, negated: boolean): string {
  if (condition.kind === 'not') return compile(scope, condition.of, !negated);
  if (condition.kind === 'test') return negated ? `(${leafText(scope, condition)}) is not true` : leafText(scope, condition);
  const conjunction = (condition.kind === 'all') !== negated;
  if (condition.of.length === 0) return String(conjunction);
  const parts = condition.of.map((part) => compile(scope, part, negated));
  return `(${parts.join(conjunction ? ' and ' : ' or ')})`;
}

function leafText({ alias, context }: Scope, { target, test }: BoundLeaf): string {
  if (test.kind === 'field') {
    const [left, right] = [comparable(target, plainValue(target, alias)), comparable(test.other, plainValue(test.other, alias))];
    return `${left} ${symbolOf[test.comparison]} ${right}`;
  }
  const opened: string[] = [];
  let table = alias;
  for (const hop of target.hops) {
    const related = context.nextAlias();
    opened.push(hopText(hop, table, related, context));
    table = related;
  }
  let value = `${table}.${identifier(target.column)}`;
  for (const step of target.steps) {
    if (step.kind === 'key') value = `(${value} -> ${keyText(step, context.parameters)})`;
    else {
      const element = context.nextAlias();
      opened.push(`exists (select 1 from jsonb_path_query(${value}, '$[*]') ${element}(v) where `);
      value = `${element}.v`;
    }
  }
  const inside = columnType(target.top) === 'jsonb';
  const text = inside
    ? jsonTest({ value, field: target.field, context }, test)
    : columnTest({ value, field: target.field, parameters: context.parameters }, test);
  return opened.join('') + text + ')'.repeat(opened.length);
}

function hopText({ name, many, target, path }: Hop, table: string, related: string, { parameters, predicates }: FilterContext): string {
  const column = `${table}.${identifier(name)}`;
  const link = many ? `${related}."_id" = any(${column})` : idTest(target, related, column);
  return `exists (select 1 from ${target.rows} ${related} where ${link}${restriction(predicates.get(path), related, parameters)} and `;
}

/** Keys that a schema declares are text of the statement; others are values. */
const keyText = ({ key, free }: { readonly key: string; readonly free: boolean }, parameters: Parameters): string =>
  free ? `${parameters.next(key)}::text` : literalOf(key, 'text');

/** The value of a path that follows no relation and no list. */
export function plainValue(target: Target, alias: string): string {
  let value = `${alias}.${identifier(target.column)}`;
  for (const step of target.steps) if (step.kind === 'key') value = `(${value} -> ${literalOf(step.key, 'text')})`;
  return value;
}
