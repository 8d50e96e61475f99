/**
 * The text of writing statements: the record, its event and the answer in one.
 * The event goes to the outbox in the same statement, so that neither exists without the other.
 */
import { identifier } from '../database/sql.ts';
import { outboxTable } from '../events/events.ts';
import type { Owner, RecordTuples, RowPredicate } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { literalOf } from '../schema/literal.ts';
import { type Parameters, restriction } from './parameters.ts';
import type { PopulateTree } from './populate.ts';
import { recordColumns } from './reads.ts';
import { createRenderContext, selectList } from './render.ts';

export type WriteKind = 'create' | 'update' | 'delete';

const operations = { create: 'insert', update: 'update', delete: 'delete' } as const;

/** One event per row of `rows`, which has a column `_id`. */
export function eventRows(schema: CompiledSchema, kind: WriteKind, rows: string, actor: string): string {
  const topic = literalOf(`database:${kind}:${schema.name}`, 'text');
  const name = literalOf(schema.name, 'text');
  return (
    `insert into ${outboxTable} (topic, schema, ids, operation, actor) ` +
    `select ${topic}, ${name}, array[r."_id"::text], '${operations[kind]}', ${actor}::text from ${rows} r`
  );
}

interface AnswerOptions {
  readonly kind: WriteKind;
  readonly populate: PopulateTree;
  /** Several rows are put into the order of their ids; for a single one the sort would be time lost. */
  readonly many: boolean;
  /** Who owns new rows. */
  readonly ownership?: Ownership | undefined;
}

/** The owner of new records, and how it is written down. */
export interface Ownership {
  readonly owner: Owner;
  readonly tuples: RecordTuples;
}

/** Puts a data-modifying statement that returns whole rows together with its events and its answer. `$1` is the actor. */
function withAnswer(schema: CompiledSchema, change: string, options: AnswerOptions, parameters: Parameters): string {
  const { kind, populate, many, ownership } = options;
  const list = selectList(schema, 't0', populate, createRenderContext(parameters));
  const order = many ? ['order by r."_id"', 'order by x."_id"'] : ['', ''];
  return (
    `with r as (${change}), e as (${eventRows(schema, kind, 'r', '$1')} ${order[0]})${ownerRows(schema, ownership, parameters)} ` +
    `select ${recordColumns} from (select ${list} from r t0) x ${order[1]}`
  );
}

/** The owner tuples of the new rows `r`, or nothing. */
function ownerRows({ name }: CompiledSchema, ownership: Ownership | undefined, { next }: Parameters): string {
  if (!ownership) return '';
  const { owner, tuples } = ownership;
  const parts = tuples.own({ rows: 'r', schema: name, actor: '$1' }, { type: next(owner.type), id: next(owner.id) });
  return parts.map((part) => `, ${part}`).join('');
}

export interface InsertShape {
  readonly columns: readonly string[];
  readonly populate: PopulateTree;
  readonly ownership: Ownership | undefined;
}

/** One record. Values: actor, id, columns. */
export function insertText(schema: CompiledSchema, { columns, populate, ownership }: InsertShape, parameters: Parameters): string {
  const names = ['_id', ...columns].map(identifier).join(', ');
  const places = ['_id', ...columns].map((_, i) => `$${i + 2}`).join(', ');
  const change = `insert into ${schema.table} (${names}) values (${places}) returning *`;
  return withAnswer(schema, change, { kind: 'create', populate, many: false, ownership }, parameters);
}

export interface UpdateShape {
  readonly columns: readonly string[];
  readonly versioned: boolean;
  readonly predicate: RowPredicate | undefined;
  readonly populate: PopulateTree;
}

/** What every change of a record changes. */
export const touched = '"updatedAt" = now(), "__v" = t0."__v" + 1';

/** One record. Values: actor, id, the version when `versioned`, columns. */
export function updateText(schema: CompiledSchema, shape: UpdateShape, parameters: Parameters): string {
  const first = shape.versioned ? 4 : 3;
  const sets = shape.columns.map((name, i) => `${identifier(name)} = $${first + i}, `).join('');
  const version = shape.versioned ? ' and t0."__v" = $3::integer' : '';
  const where = `t0."_id" = $2${version}${restriction(shape.predicate, 't0', parameters)}`;
  const change = `update ${schema.table} t0 set ${sets}${touched} where ${where} returning t0.*`;
  return withAnswer(schema, change, { kind: 'update', populate: shape.populate, many: false }, parameters);
}

/** `x(...)`: rows of a JSON list with the types of the columns. */
function recordset(schema: CompiledSchema, columns: readonly string[]): string {
  const types = columns.map((name) => `${identifier(name)} ${schema.layout.columns[name]?.type ?? 'text'}`);
  return `json_to_recordset($2::json) as x("_id" uuid${types.map((type) => `, ${type}`).join('')})`;
}

/** Many records. Values: actor, JSON list of records. */
export function insertManyText(schema: CompiledSchema, { columns, populate, ownership }: InsertShape, parameters: Parameters): string {
  const names = ['_id', ...columns].map(identifier).join(', ');
  const change = `insert into ${schema.table} (${names}) select ${names} from ${recordset(schema, columns)} returning *`;
  return withAnswer(schema, change, { kind: 'create', populate, many: true, ownership }, parameters);
}

/** Many records that change the same columns. Values: actor, JSON list of records. */
export function updateManyText(schema: CompiledSchema, shape: Omit<UpdateShape, 'versioned'>, parameters: Parameters): string {
  const sets = shape.columns.map((name) => `${identifier(name)} = x.${identifier(name)}, `).join('');
  const where = `t0."_id" = x."_id"${restriction(shape.predicate, 't0', parameters)}`;
  const change = `update ${schema.table} t0 set ${sets}${touched} from ${recordset(schema, shape.columns)} where ${where} returning t0.*`;
  return withAnswer(schema, change, { kind: 'update', populate: shape.populate, many: true }, parameters);
}

/** One record. Values: actor, id, the version when `versioned`. */
export function deleteText(
  schema: CompiledSchema,
  shape: { readonly versioned: boolean; readonly predicate: RowPredicate | undefined; readonly tuples: RecordTuples | undefined },
  parameters: Parameters,
): string {
  const version = shape.versioned ? ' and t0."__v" = $3::integer' : '';
  const where = `t0."_id" = $2${version}${restriction(shape.predicate, 't0', parameters)}`;
  const change = `delete from ${schema.table} t0 where ${where} returning t0."_id"`;
  const forgotten = forgetTuples(shape.tuples, schema, 'r');
  return `with r as (${change}), e as (${eventRows(schema, 'delete', 'r', '$1')})${forgotten} select r."_id" as id from r`;
}

/** What takes the tuples of deleted rows away, as further parts of a `with`. */
export const forgetTuples = (tuples: RecordTuples | undefined, { name }: CompiledSchema, rows: string): string =>
  (tuples?.forget({ rows, schema: name, actor: '$1' }) ?? []).map((part) => `, ${part}`).join('');
