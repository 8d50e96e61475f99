/** Counts, sums and the like over the records that fit a filter, in groups when asked for. One statement, with a bound on the rows it reads. */

import type { Problem } from '../../../kernel/errors.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { columnType, type Field } from '../../schema/language/field.ts';
import { shortName } from '../../schema/language/names.ts';
import { boundedPage, requireWhole } from '../answer-bytes.ts';
import { invalidRecord, recordErrors } from '../errors.ts';
import { comparable, plainValue } from '../filter/record-filter.ts';
import { PathError, resolveTarget, type Target, type TargetAccess } from '../filter/target.ts';
import { listRange } from '../page/page.ts';
import type { Parameters } from '../sql/prepared-statements.ts';
import type { AggregateOptions } from '../store.ts';
import { anyInstant, exactNumber } from './column-view.ts';
import { type RecordDependencies, runRead } from './record-view.ts';
import { filteredStatement, type Selection, selectionText } from './selection.ts';

/** Records that one aggregate reads. */
export const MAX_AGGREGATED = 200_000;
const MAX_KEYS = 40;

type AggregateFunction = AggregateOptions['values'][number]['function'];

/** Their names stand in the statement as they are. */
const functionNames: ReadonlySet<unknown> = new Set<AggregateFunction>([
  'count',
  'sum',
  'avg',
  'min',
  'max',
  'distinct',
]);

interface Group {
  readonly as: string;
  readonly target: Target;
}

interface Value {
  readonly as: string;
  readonly function: AggregateFunction;
  readonly target: Target | undefined;
}

/** What is asked for, checked against a schema. */
export interface BoundAggregate {
  readonly groups: readonly Group[];
  readonly values: readonly Value[];
}

type Requested = Pick<AggregateOptions, 'groupBy' | 'values'>;

/** Throws one 400 with all problems. */
export function bindAggregate(
  schema: CompiledSchema,
  { groupBy, values }: Requested,
  access: TargetAccess,
): BoundAggregate {
  const problems: Problem[] = [];
  const find = (path: string, place: string): Target | undefined => {
    try {
      const target = resolveTarget(schema, path, access);
      if (isPlain(target)) return target;
      problems.push({
        path: place,
        rule: 'type',
        message: `"${shortName(path)}" is not a single value of the record itself`,
      });
    } catch (error) {
      if (!(error instanceof PathError)) throw error;
      problems.push({ path: place, rule: 'field', message: error.message });
    }
    return undefined;
  };
  const groups = groupBy.flatMap((path, index): Group[] => {
    const target = find(path, `aggregate.groupBy.${index}`);
    return target ? [{ as: path, target }] : [];
  });
  const bound = values.map(({ as, function: name, field }, index): Value => {
    const place = `aggregate.values.${index}`;
    // Code of functions says what it likes.
    if (typeof as !== 'string' || (field !== undefined && typeof field !== 'string'))
      throw invalidRecord([{ path: place, rule: 'type', message: 'has names that are no texts' }]);
    const target = field === undefined ? undefined : find(field, `${place}.field`);
    const problem = valueProblem(name, field, target);
    const at = functionNames.has(name) ? 'field' : 'function';
    if (problem) problems.push({ path: `${place}.${at}`, rule: 'type', message: problem });
    return { as, function: name, target };
  });
  problems.push(...keyProblems([...groups.map(({ as }) => as), ...values.map(({ as }) => as)]));
  if (problems.length > 0) throw invalidRecord(problems);
  return { groups, values: bound };
}

function keyProblems(keys: readonly string[]): Problem[] {
  if (keys.length > MAX_KEYS)
    return [{ path: 'aggregate', rule: 'count', message: `at most ${MAX_KEYS} results` }];
  const twin = keys.find((key, index) => keys.indexOf(key) < index);
  return twin === undefined
    ? []
    : [{ path: 'aggregate', rule: 'unique', message: `"${shortName(twin)}" is there twice` }];
}

const scalars: ReadonlySet<Field['kind']> = new Set([
  'string',
  'number',
  'boolean',
  'date',
  'objectId',
  'relation',
]);

const isPlain = ({ hops, steps, field }: Target): boolean =>
  hops.length === 0 && steps.every(({ kind }) => kind === 'key') && scalars.has(field.kind);

function valueProblem(
  name: AggregateFunction,
  field: string | undefined,
  target: Target | undefined,
): string | undefined {
  if (!functionNames.has(name)) return `must be one of ${[...functionNames].join(', ')}`;
  if (field === undefined) return name === 'count' ? undefined : `${name} needs a field`;
  const kind = target?.field.kind;
  if (!kind) return undefined;
  if ((name === 'sum' || name === 'avg') && kind !== 'number') return `${name} needs a number`;
  if (
    (name === 'min' || name === 'max') &&
    kind !== 'number' &&
    kind !== 'date' &&
    kind !== 'string'
  )
    return `${name} needs values with an order`;
  return undefined;
}

/** A JSON list with one object per group; without groups it has one object. */
export async function aggregateSelected(
  dependencies: RecordDependencies,
  all: Selection,
  options: AggregateOptions,
): Promise<string> {
  const { schema } = all;
  const selection = options.among ? { ...all, hits: options.among } : all;
  const bound = bindAggregate(schema, options, {
    schema: (name) => dependencies.schemas.get(name),
    hidden: false,
  });
  const { skip, limit } = listRange({ skip: options.skip ?? 0, limit: options.limit ?? 1_000 });
  const order = orderOf(bound, options.sort ?? []);
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const columns = [...bound.groups, ...bound.values]
      .map(({ target }, i) => `${target ? columnOf(target) : 'null'} as c${i}`)
      .join(', ');
    const source = `select ${columns} from ${schema.rows} t0 where ${selectionText(selection, parameters)} limit ${MAX_AGGREGATED + 1}`;
    const grouping =
      bound.groups.length > 0 ? `group by ${bound.groups.map((_, i) => `c${i}`).join(', ')}` : '';
    const range = `limit ${parameters.next(limit)}::integer offset ${parameters.next(skip)}::bigint`;
    const rows = `select ${rowText(bound, parameters)} as row from s ${grouping} ${order} ${range}`;
    return (
      `with s as materialized (${source}) select (select count(*)::integer from s) as scanned, ` +
      `'[' || coalesce((select p.page from (${boundedPage(`select x.row::text as t from (${rows}) x`, { limit, related: false })}) p), '') || ']' as json`
    );
  });
  const [row] = await runRead<{ scanned: number; json: string }>(dependencies, schema, statement);
  if ((row?.scanned ?? 0) > MAX_AGGREGATED) {
    throw recordErrors.RECORD_LIMIT_EXCEEDED({
      message: `More than ${MAX_AGGREGATED} records would have to be read: narrow the filter`,
    });
  }
  return requireWhole(row?.json ?? '[]');
}

const columnOf = (target: Target): string => comparable(target, plainValue(target, 't0'));

/** Keys are values of the statement: results may have any name. */
function rowText({ groups, values }: BoundAggregate, parameters: Parameters): string {
  const pairs = [
    ...groups.map(
      ({ as, target }, i) => `${parameters.next(as)}::text, ${outputValue(`c${i}`, target.field)}`,
    ),
    ...values.map(
      (value, i) =>
        `${parameters.next(value.as)}::text, ${resultOf(value, `c${groups.length + i}`)}`,
    ),
  ];
  return `json_build_object(${pairs.join(', ')})`;
}

/** As records show it. */
function outputValue(value: string, field: Field): string {
  if (field.kind === 'date') return anyInstant(value);
  const type = columnType(field);
  return type === 'bigint' || type === 'numeric' ? exactNumber(type, value) : value;
}

function computed({ function: name, target }: Value, column: string): string {
  if (!target) return 'count(*)';
  return name === 'distinct' ? `count(distinct ${column})` : `${name}(${column})`;
}

function resultOf(value: Value, column: string): string {
  const text = computed(value, column);
  if (value.target && (value.function === 'min' || value.function === 'max'))
    return outputValue(text, value.target.field);
  // Sums of whole numbers are exact in PostgreSQL; on the wire all numbers are doubles.
  return value.function === 'sum' || value.function === 'avg' ? `${text}::double precision` : text;
}

function orderOf(bound: BoundAggregate, sort: readonly string[]): string {
  const columns = new Map<string, string>([
    ...bound.groups.map(({ as }, i) => [as, `c${i}`] as const),
    ...bound.values.map(
      (value, i) => [value.as, computed(value, `c${bound.groups.length + i}`)] as const,
    ),
  ]);
  const terms = sort.map((item) => {
    const descending = item.startsWith('-');
    const name = descending ? item.slice(1) : item;
    const column = columns.get(name);
    const message = `"${shortName(name)}" is not one of the results`;
    if (column === undefined) throw invalidRecord([{ path: 'sort', rule: 'field', message }]);
    return descending ? `${column} desc` : column;
  });
  const all = [...terms, ...bound.groups.map((_, i) => `c${i}`)];
  return all.length > 0 ? `order by ${all.join(', ')}` : '';
}
