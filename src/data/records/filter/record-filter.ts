/** A condition made ready for a caller: checked, and with the rights of the caller on every relation that it follows. */
import type { Caller } from '../../../kernel/caller.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { PermissionPort, RowPredicate } from '../../../kernel/permissions.ts';
import { type Condition, leavesOf, type Tree } from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { columnType } from '../../schema/language/field.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import {
  isRowAuthorised,
  isTrusted,
  mayRead,
  referencedSchema,
  requireGranted,
  rowPredicate,
} from '../access/operation-access.ts';
import { recordErrors } from '../errors.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import { type BoundCondition, type BoundLeaf, bindCondition } from './bind.ts';
import type { Hop, Target } from './target.ts';
import {
  booleanOf,
  columnTest,
  type FilterContext,
  type HopPredicates,
  jsonTest,
  numberOf,
  symbolOf,
  textOf,
  wideNumber,
} from './value-tests.ts';

/* From a condition to an SQL expression. What a test looks like is up to whoever knows the tables. */

/**
 * A `not` is carried down to the tests, where `is not true` makes "unknown" false: a condition and its opposite never
 * both miss a record.
 */
function conditionSql<T extends { readonly kind: 'test' }>(
  tree: Tree<T>,
  testSql: (test: T) => string,
  negated = false,
): string {
  if (tree.kind === 'not') return conditionSql(tree.of, testSql, !negated);
  if (tree.kind === 'test') return negated ? `(${testSql(tree)}) is not true` : testSql(tree);
  const conjunction = (tree.kind === 'all') !== negated;
  if (tree.of.length === 0) return String(conjunction);
  const parts = tree.of.map((part) => conditionSql(part, testSql, negated));
  return `(${parts.join(conjunction ? ' and ' : ' or ')})`;
}

/* A field as an SQL value of its natural type, so that two fields can be compared wherever they stand. */

export function comparable({ top, field }: Target, value: string): string {
  if (columnType(top) !== 'jsonb') return value;
  switch (field.kind) {
    case 'number':
      return field.storage === 'bigint' || field.storage === 'numeric'
        ? wideNumber(value)
        : numberOf(value);
    case 'boolean':
      return booleanOf(value);
    case 'date':
      return `${textOf(value)}::timestamptz`;
    case 'objectId':
    case 'relation':
      return `${textOf(value)}::uuid`;
    default:
      return textOf(value);
  }
}

/* From a checked condition to SQL. Values are parameters, tables and columns come from the schema. */

function createFilterContext(parameters: Parameters, predicates: HopPredicates): FilterContext {
  let count = 0;
  return { parameters, predicates, nextAlias: () => `f${++count}` };
}

/** A boolean expression over the row `alias`. */
function conditionText(condition: BoundCondition, alias: string, context: FilterContext): string {
  return conditionSql(condition, (leaf) => leafText(leaf, alias, context));
}

function leafText({ target, test }: BoundLeaf, alias: string, context: FilterContext): string {
  if (test.kind === 'field') {
    const [left, right] = [
      comparable(target, plainValue(target, alias)),
      comparable(test.other, plainValue(test.other, alias)),
    ];
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

function hopText(
  { name, many, target, path }: Hop,
  table: string,
  related: string,
  { parameters, predicates }: FilterContext,
): string {
  const column = `${table}.${identifier(name)}`;
  const link = many ? `${related}."_id" = any(${column})` : idTest(target, related, column);
  return `exists (select 1 from ${target.rows} ${related} where ${link}${restriction(predicates.get(path), related, parameters)} and `;
}

/** Keys that a schema declares are text of the statement; others are values. */
const keyText = (
  { key, free }: { readonly key: string; readonly free: boolean },
  parameters: Parameters,
): string => (free ? `${parameters.next(key)}::text` : literalOf(key, 'text'));

/** The value of a path that follows no relation and no list. */
export function plainValue(target: Target, alias: string): string {
  let value = `${alias}.${identifier(target.column)}`;
  for (const step of target.steps)
    if (step.kind === 'key') value = `(${value} -> ${literalOf(step.key, 'text')})`;
  return value;
}

interface FilterRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly condition: Condition;
  readonly scope?: string | undefined;
  /** The relations were chosen by somebody who may (the author of a custom endpoint): read switches do not count. */
  readonly granted?: boolean | undefined;
}

/** Ready to become part of statements. */
export interface RecordFilter {
  /** A boolean expression over the row `alias`. */
  compile(alias: string, parameters: Parameters): string;
  /** The same for a search of words that everything which fits has to fit too, and that an index answers. */
  readonly search?: Pick<RecordFilter, 'compile'>;
}

/** Throws 400 with all problems, 401, 403 for a relation to what the caller may not read, 503. */
export async function resolveFilter(
  dependencies: { readonly schemas: SchemaRegistry; readonly permissions: PermissionPort },
  request: FilterRequest,
): Promise<RecordFilter> {
  const { caller, schema, condition } = request;
  const bound = bindCondition(schema, condition, {
    schema: (name) =>
      request.granted
        ? dependencies.schemas.get(name)
        : referencedSchema(dependencies.schemas, caller, name),
    hidden: caller.kind === 'system',
  });
  const predicates = new Map<string, RowPredicate>();
  const followed = new Map(
    [...leavesOf(bound)].flatMap(({ target, place }) =>
      target.hops.map((hop) => [hop.path, { hop, place }]),
    ),
  );
  for (const one of followed.values()) {
    const predicate = await hopPredicate(dependencies.permissions, request, one);
    if (predicate) predicates.set(one.hop.path, predicate);
  }
  const ready = (part: BoundCondition): Pick<RecordFilter, 'compile'> => ({
    compile: (alias, parameters) =>
      conditionText(part, alias, createFilterContext(parameters, predicates)),
  });
  const search = indexedSearch(schema, bound);
  return { ...ready(bound), ...(search && { search: ready(search) }) };
}

/** A search of words in a field of the record itself that has an index of its words. */
function indexedSearch(schema: CompiledSchema, bound: BoundCondition): BoundLeaf | undefined {
  if (bound.kind === 'all')
    return bound.of.map((part) => indexedSearch(schema, part)).find((found) => found !== undefined);
  if (bound.kind !== 'test' || bound.test.kind !== 'search') return undefined;
  const { hops, steps, column } = bound.target;
  const isIndexed = Object.values(schema.layout.indexes).some(
    ({ text, columns }) => text === true && columns[0] === column,
  );
  return isIndexed && hops.length === 0 && steps.length === 0 ? bound : undefined;
}

interface FollowedHop {
  readonly hop: Hop;
  /** The condition that follows it. */
  readonly place: string;
}

async function hopPredicate(
  permissions: PermissionPort,
  { caller, scope, granted }: FilterRequest,
  { hop: { target, path }, place }: FollowedHop,
): Promise<RowPredicate | undefined> {
  // What somebody else has chosen is no more than the scopes of an operator, either.
  if (granted && !isTrusted(caller)) requireGranted(caller, target, 'read');
  else if (!mayRead(caller, target)) {
    const message = `"${path}" leads to records of ${target.name}, which you may not read`;
    throw recordErrors.POPULATE_FORBIDDEN({
      message,
      errors: [{ path: place, rule: 'access', message }],
    });
  }
  if (!isRowAuthorised(caller, target, 'read')) return undefined;
  return rowPredicate(permissions, { caller, schema: target, action: 'read', scope });
}
