/**
 * The text of writing statements: the record, its event and the answer in one.
 * The event goes to the outbox in the same statement, so that neither exists without the other.
 */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { outboxTable } from '../../../kernel/events/events.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { isOwnersOnly } from '../access/operation-access.ts';
import { orRefused } from '../answer-bytes.ts';
import type { PopulateTree, RowConditions } from '../read/projection.ts';
import { recordColumns } from '../read/record-view.ts';
import { createRenderContext, selectList } from '../read/render.ts';
import { changedRows, touched, withKeptParts } from '../sql/changed-rows.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import { allRows, idsTest, live } from '../sql/row-id.ts';
import { type Ownership, ownerColumns, ownerRows } from './ownership.ts';
import { comparedFields, type EventFields, eventText, movedColumn } from './placement-text.ts';

export type WriteKind = 'create' | 'update' | 'delete' | 'restore' | 'purge';

/** To subscribers a restored record is a new one, and of one that was deleted before nothing more is to be said. */
const operations = {
  create: `'insert'`,
  update: `'update'`,
  delete: `'delete'`,
  restore: `'insert'`,
  purge: 'null',
} as const;

/** Records that one event names. */
const EVENT_IDS = 1_000;

/** The event about the one row `r` of the statement, which has a column `_id`. `$1` is the actor. */
export function eventRow(schema: CompiledSchema, kind: WriteKind, payload = 'null'): string {
  const about = kind === 'delete' ? ownersOf(schema, '= r."_id"') : undefined;
  return `${eventInto(schema, kind, about ?? payload)}, array[r."_id"::text] from r`;
}

/** The event about all rows `r`, in the order of their ids: one row of the outbox for a thousand of them. */
export function eventRows(schema: CompiledSchema, kind: WriteKind, payload = 'null'): string {
  const numbered = `select n."_id", (row_number() over (order by n."_id") - 1) / ${EVENT_IDS} as part from r n`;
  const about = kind === 'delete' ? ownersOf(schema, '= any(array_agg(p."_id"))') : undefined;
  return `${eventInto(schema, kind, about ?? payload)}, array_agg(p."_id"::text order by p."_id") from (${numbered}) p group by p.part order by p.part`;
}

/** Of records that their owners alone read: whose they were, since nobody else is told that they are gone. The statement sees the rows as they were. */
function ownersOf(schema: CompiledSchema, ids: string): string | undefined {
  if (!isOwnersOnly(schema, 'read')) return undefined;
  const field = identifier(schema.modelOptions.conduit.owner?.field ?? '');
  return `(select jsonb_build_object('owners', jsonb_object_agg(d."_id"::text, d.${field}::text)) from ${allRows(schema)} d where d."_id" ${ids})`;
}

function eventInto(schema: CompiledSchema, kind: WriteKind, payload: string): string {
  const topic = literalOf(`database:${kind}:${schema.name}`, 'text');
  const name = literalOf(schema.name, 'text');
  return `insert into ${outboxTable} (topic, schema, operation, actor, payload, ids) select ${topic}, ${name}, ${operations[kind]}, $1::text, ${payload}::jsonb`;
}

export interface AnswerOptions {
  readonly kind: WriteKind;
  readonly populate: PopulateTree;
  /** Several rows are put into the order of their ids; for a single one the sort would be time lost. */
  readonly many: boolean;
  /** Who owns new rows. */
  readonly ownership?: Ownership | undefined;
  readonly conditions?: RowConditions | undefined;
  /** A further column of the answer. */
  readonly extra?: string;
  /** Placeholder of the owner as a text, where the records say who that is. */
  readonly ownerPlace?: string;
  /** References whose changes are told as relations. */
  readonly eventFields?: EventFields | undefined;
  /** Nobody looks at the records: they are answered by their ids. */
  readonly idsOnly?: boolean | undefined;
}

/** Puts a change, the head of a `with` whose `r` are whole rows, together with its events and its answer. `$1` is the actor. */
export function withAnswer(
  schema: CompiledSchema,
  change: string,
  options: AnswerOptions,
  parameters: Parameters,
): string {
  const { kind, many, ownership, ownerPlace, eventFields } = options;
  const answer = answerText(schema, options, parameters);
  const owned = ownership ? ownerRows(schema, ownership, parameters, ownerPlace) : undefined;
  const event = (many ? eventRows : eventRow)(schema, kind, owned?.payload);
  return (
    `with ${change}, e as (${event})${owned?.tuples ?? ''}${eventText(schema, eventFields, kind === 'create' ? 'new' : 'changed')} ` +
    answer
  );
}

/**
 * What of the rows `r` is answered. What is created has the size of a request, and a record by itself too. What they lead
 * to and what was there already has any: where that is more than one answer holds the statement fails, and undoes the write.
 */
function answerText(
  schema: CompiledSchema,
  { kind, populate, many, conditions, extra, idsOnly }: AnswerOptions,
  parameters: Parameters,
): string {
  const more = extra ? `, ${extra}` : '';
  if (idsOnly)
    return `select r."_id" as id, r."__v" as version, '' as json${more} from r order by r."_id"`;
  const list = selectList(schema, 't0', populate, createRenderContext(parameters, conditions));
  if (populate.size === 0 && (!many || kind === 'create'))
    return `select ${recordColumns(schema)}${more} from (select ${list} from r t0) x${many ? ' order by x."_id"' : ''}`;
  // In order before they are made texts, so that no more are made than fit. The offset keeps a text from being made twice.
  const rows = many ? '(select * from r order by "_id" offset 0)' : 'r';
  const records = `(select ${recordColumns(schema)} from (select ${list} from ${rows} t0) x offset 0) y`;
  const json = many
    ? orRefused('y.json', 'sum(octet_length(y.json)) over (order by y.id rows unbounded preceding)')
    : orRefused('y.json', 'octet_length(y.json)');
  return `select y.id, y.version, ${json} as json${more} from ${records}${many ? ' order by y.id' : ''}`;
}

/** The answer once more, of records that were created. Values: their ids. */
export const createdText = (
  schema: CompiledSchema,
  { populate, conditions }: Pick<AnswerOptions, 'populate' | 'conditions'>,
  parameters: Parameters,
): string =>
  `with r as (select t.* from ${schema.rows} t where ${idsTest(schema, 't', '$1')}) ` +
  answerText(schema, { kind: 'create', many: true, populate, conditions }, parameters);

/** What the answer of a write shows. */
interface Returned {
  readonly idsOnly?: boolean | undefined;
  readonly populate: PopulateTree;
  readonly conditions: RowConditions | undefined;
}

export interface InsertShape extends Returned {
  readonly columns: readonly string[];
  readonly ownership: Ownership | undefined;
  readonly eventFields?: EventFields | undefined;
  /** Nothing is written when the id is taken. */
  readonly ifAbsent?: boolean;
}

/** One record. Values: actor, id, columns, `ownerValues`. */
export function insertText(
  schema: CompiledSchema,
  { columns, ifAbsent = false, ...returned }: InsertShape,
  parameters: Parameters,
): string {
  const { ownership } = returned;
  const given = ['_id', ...columns];
  const owner = ownership?.owner.inRecord ? ownership.tuples.columns(ownership.owner) : [];
  const names = [...given, ...owner.map(({ name }) => name)].map(identifier).join(', ');
  const types = [...given.map((name) => typeOf(schema, name)), ...owner.map(({ type }) => type)];
  // `$1` is the actor.
  const place = (i: number): string => `$${i + 2}`;
  const values = types.map((_, i) => place(i)).join(', ');
  const typed = types.map((type, i) => `${place(i)}::${type}`).join(', ');
  const rows = ownership?.cached
    ? `select ${typed} where ${ownership.cached.holds.text(place(types.length + 1))}`
    : `values (${values})`;
  const change = `r as (insert into ${schema.table} (${names}) ${rows}${ifAbsent ? ' on conflict ("_id") do nothing' : ''} returning *)`;
  const options = {
    ...returned,
    kind: 'create',
    many: false,
    ownerPlace: place(types.length),
  } as const;
  return withAnswer(schema, change, options, parameters);
}

export interface UpdateShape extends Returned {
  readonly columns: readonly string[];
  readonly versioned: boolean;
  readonly predicate: RowPredicate | undefined;
  /** True while the rights hold that were remembered. Its values stand last: with one, nothing of the answer adds values. */
  readonly guardText?: (() => string) | undefined;
  /** For the history. */
  readonly operation: 'update' | 'restore';
  /** Fields by which the answer tells which rows are elsewhere now (placement.ts). */
  readonly compare?: readonly string[] | undefined;
  readonly eventFields?: EventFields | undefined;
}

export const guardOf = ({ guardText }: Pick<UpdateShape, 'guardText'>): string =>
  guardText ? ` and ${guardText()}` : '';

const movedExtra = (schema: CompiledSchema, compare: readonly string[] | undefined) =>
  compare ? { extra: movedColumn(schema, compare) } : {};

const returnedOf = ({ populate, conditions, idsOnly }: Returned): Returned => ({
  ...{ populate, conditions, idsOnly },
});

/** One record. Values: actor, id, the version when `versioned`, columns. */
export function updateText(
  schema: CompiledSchema,
  shape: UpdateShape,
  parameters: Parameters,
): string {
  const first = shape.versioned ? 4 : 3;
  const sets = shape.columns
    .map((name, i) => `${identifier(name)} = ${withKeptParts(schema, name, `$${first + i}`)}, `)
    .join('');
  const version = shape.versioned ? ' and t0."__v" = $3::integer' : '';
  const where = `t0."_id" = $2${version}${live(schema, 't0')}${restriction(shape.predicate, 't0', parameters, 'row')}${guardOf(shape)}`;
  const { operation, eventFields } = shape;
  const compare = comparedFields(shape.compare, eventFields);
  const change = changedRows(schema, { set: sets + touched, where, operation, compare });
  const answer = {
    ...returnedOf(shape),
    ...movedExtra(schema, shape.compare),
    eventFields,
    kind: 'update',
    many: false,
  } as const;
  return withAnswer(schema, change, answer, parameters);
}

/** Columns that every table has, as far as they can be given. */
const automaticTypes: ReadonlyMap<string, string> = new Map([
  ['createdAt', 'timestamptz(3)'],
  ['updatedAt', 'timestamptz(3)'],
  ['__v', 'integer'],
]);

const typeOf = ({ layout }: CompiledSchema, column: string): string =>
  column === '_id'
    ? 'uuid'
    : (layout.columns[column]?.type ?? automaticTypes.get(column) ?? 'text');

/** `x(...)`: rows of a JSON list with the types of the columns. */
function recordset(schema: CompiledSchema, columns: readonly string[]): string {
  const types = columns.map((name) => `${identifier(name)} ${typeOf(schema, name)}`);
  return `json_to_recordset($2::json) as x("_id" uuid${types.map((type) => `, ${type}`).join('')})`;
}

/** Many records. Values: actor, JSON list of records. */
export function insertManyText(
  schema: CompiledSchema,
  { columns, ...returned }: InsertShape,
  parameters: Parameters,
): string {
  const given = ['_id', ...columns].map(identifier);
  const owner = ownerColumns(returned.ownership, parameters);
  const names = [...given, ...owner.names].join(', ');
  const values = [...given, ...owner.values].join(', ');
  const change = `r as (insert into ${schema.table} (${names}) select ${values} from ${recordset(schema, columns)} returning *)`;
  return withAnswer(schema, change, { ...returned, kind: 'create', many: true }, parameters);
}

/** Many records that change the same columns. Values: actor, JSON list of records. */
export function updateManyText(
  schema: CompiledSchema,
  shape: Omit<UpdateShape, 'versioned' | 'operation' | 'guardText'>,
  parameters: Parameters,
): string {
  const sets = shape.columns
    .map(
      (name) => `${identifier(name)} = ${withKeptParts(schema, name, `x.${identifier(name)}`)}, `,
    )
    .join('');
  const where = `t0."_id" = x."_id"${live(schema, 't0')}${restriction(shape.predicate, 't0', parameters, 'row')}`;
  const source = recordset(schema, shape.columns);
  const change = changedRows(schema, {
    set: sets + touched,
    where,
    source,
    operation: 'update',
    many: true,
    compare: comparedFields(shape.compare, shape.eventFields),
  });
  const answer = {
    ...returnedOf(shape),
    ...movedExtra(schema, shape.compare),
    eventFields: shape.eventFields,
    kind: 'update',
    many: true,
  } as const;
  return withAnswer(schema, change, answer, parameters);
}
