/** The relations that operators list: stored ones, and those that are fields of records, in one order. */
import { tableName } from '../../../data/schema/compile/layout.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { isId } from '../../../kernel/ids.ts';
import { subjectTypeText } from '../engine/tuple-source.ts';
import type { ObjectRef } from '../model/grammar.ts';
import type { FieldRelation, Model } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import {
  conditionOf,
  type FoundTuples,
  listTuples,
  orderOf,
  type StoredTuple,
  storedTuple,
  type TupleFilter,
  type TuplePage,
  type TupleRow,
} from '../queries.ts';
import { uuidOf } from '../tuple-sql.ts';

/** Which relation of which record: its id on the wire is `<Type>.<relation>.<record>`, for lists with `.<subject>`. */
export interface FieldRelationId {
  readonly type: string;
  readonly relation: string;
  readonly record: string;
  readonly subject: string | undefined;
}

/** Reads the id of a relation that is a field; `undefined` for that of a stored one. */
export function fieldRelationId(id: string): FieldRelationId | undefined {
  const [type = '', relation, record, subject] = id.split('.');
  return relation !== undefined && record !== undefined
    ? { type, relation, record, subject }
    : undefined;
}

/** One relation that is a field, by the parts of its id. */
export async function findFieldRelation(
  database: Queryable,
  model: Model,
  { type, relation, record, subject }: FieldRelationId,
): Promise<StoredTuple | undefined> {
  const field = model.fieldOf(type, relation) ?? model.columnOf(type, relation);
  if (!field || !isId(record) || field.many !== (subject !== undefined)) return undefined;
  const filter: TupleFilter = {
    resource: { type, id: record },
    relation,
    ...(subject !== undefined && { subject: { type: field.type, id: subject, relation: '' } }),
  };
  const [found] = await recordTuplesOf(database, { type, relation, field }, filter, 1);
  return found;
}

/** What records say in a field, as far as it matches: at most `limit`. */
export async function recordTuplesOf(
  database: Queryable,
  relation: FieldRelation,
  filter: RecordFilter,
  limit: number,
): Promise<readonly StoredTuple[]> {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const found = fieldTuples(relation, filter, next);
  const text = `select * from (${found}) t limit ${next(limit)}`;
  const { rows } = await database.query<ListedRow>({ text, values });
  return rows.map(listedTuple);
}

/** Whether a record says something that matches; what is found stays so until the transaction ends. */
export async function holdInRecords(
  transaction: Queryable,
  model: Model,
  filter: TupleFilter,
): Promise<boolean> {
  for (;;) {
    const found = await firstInRecords(transaction, model, filter);
    if (!found) return false;
    const { type, id } = found;
    const text = `select from ${tableName(type)} d where d."_id" = $1 for no key update`;
    await transaction.query({ text, values: [id] });
    // Whoever changed it meanwhile had it locked before.
    if (await firstInRecords(transaction, model, { ...filter, resource: found })) return true;
  }
}

/** A record that says something that matches. */
export async function firstInRecords(
  database: Queryable,
  model: Model,
  filter: TupleFilter,
): Promise<ObjectRef | undefined> {
  const fields = model.recordRelations.filter((one) => mayMatch(one, filter));
  if (fields.length === 0) return undefined;
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const arms = fields.map(
    (one) =>
      `(select t.resource_type as type, t.resource_id as id from (${fieldTuples(one, filter, next)}) t limit 1)`,
  );
  const text = `select f.type, f.id from (${arms.join(' union all ')}) f limit 1`;
  return (await database.query<ObjectRef>({ text, values })).rows[0];
}

/** A page, and the number of all that match. */
export async function listRelations(
  database: Queryable,
  model: Model,
  filter: TupleFilter,
  page: TuplePage,
): Promise<FoundTuples> {
  const fields = model.recordRelations.filter((one) => mayMatch(one, filter));
  if (fields.length === 0) return listTuples(database, 'relation', filter, page);
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const arms = [
    `select ${storedColumns} from penstock.tuples t where ${conditionOf('relation', filter, next)}`,
    ...fields.map((one) => fieldTuples(one, filter, next)),
  ];
  const counted = {
    text: `select ${arms.map((arm) => `(select count(*) from (${arm}) x)`).join(' + ')} as count`,
    values: [...values],
  };
  const order = `${orderOf(page)}, wire_id`;
  const max = next(page.skip + page.limit);
  const firsts = arms.map((arm) => `(select * from (${arm}) t order by ${order} limit ${max})`);
  const text = `select * from (${firsts.join(' union all ')}) t order by ${order} offset ${next(page.skip)} limit ${next(page.limit)}`;
  const [count, { rows }] = await Promise.all([
    database.query<{ count: string }>(counted),
    database.query<ListedRow>({ text, values }),
  ]);
  return { tuples: rows.map(listedTuple), count: Number(count.rows[0]?.count ?? 0) };
}

interface ListedRow extends TupleRow {
  readonly wire_id: string;
  readonly in_record: boolean;
}

const listedTuple = (row: ListedRow): StoredTuple => ({
  ...storedTuple({ ...row, id: row.wire_id }),
  ...(row.in_record && { source: 'record' }),
});

/** Whether some record can say something in this field that the filter takes. */
export function mayMatch({ type, relation, field }: FieldRelation, filter: TupleFilter): boolean {
  const { subject, resource } = filter;
  const isOfType = (requested: string | undefined): boolean =>
    requested === undefined || field.typeColumn !== undefined || requested === field.type;
  return (
    (filter.relation ?? relation) === relation &&
    (resource?.type ?? type) === type &&
    (filter.resourceType ?? type) === type &&
    isOfType(subject?.type) &&
    (subject?.relation ?? '') === '' &&
    isOfType(filter.subjectType)
  );
}

const storedColumns = `t.id, t.id::text as wire_id, false as in_record, t.subject_type, t.subject_id, t.subject_relation, t.relation,
  t.resource_type, t.resource_id, t.condition, t.attributes, t.expires_at::timestamptz as expires_at, t.created_at::timestamptz as created_at, t.updated_at::timestamptz as updated_at`;

const word = (text: string): string => `${literalOf(text, 'text')} collate "C"`;

export interface RecordFilter extends TupleFilter {
  /** Only these. */
  readonly tuples?: readonly Tuple[];
  /** Only what these records say. */
  readonly ids?: readonly string[];
}

/** The tuples of a field that match, as a query. Those of one record or one subject are found by their index. */
export function fieldTuples(
  { type, relation, field }: FieldRelation,
  { tuples, ids, ...filter }: RecordFilter,
  next: (value: unknown) => string,
): string {
  const column = `d.${identifier(field.field)}`;
  const subject = field.many ? 'u.id' : column;
  const each = field.many
    ? ` cross join lateral (select distinct v.id from unnest(${column}) v(id)) u`
    : '';
  const start = literalOf(`${type}.${relation}.`, 'text');
  const found = [`${subject} is not null`];
  if (filter.resource) found.push(`d."_id" = ${uuidOf(`${next(filter.resource.id)}::text`)}`);
  if (filter.subject) {
    const id = uuidOf(`${next(filter.subject.id)}::text`);
    found.push(`${subject} = ${id}`);
    if (field.many) found.push(`${column} @> array[${id}]`);
  }
  if (ids) found.push(`d."_id" = any(${next(ids.filter(isId))}::uuid[])`);
  if (tuples)
    found.push(
      `d."_id" = any(${next(tuples.map(({ resource }) => resource.id).filter(isId))}::uuid[])`,
    );
  const rows = `select d."_id" as id, ${start} || d."_id"::text${field.many ? ` || '.' || u.id::text` : ''} as wire_id, true as in_record,
    ${subjectTypeText(field, 'd')} as subject_type, ${subject}::text collate "C" as subject_id, ${word('')} as subject_relation, ${word(relation)} as relation,
    ${word(type)} as resource_type, d."_id"::text collate "C" as resource_id, null::text collate "C" as condition, null::jsonb as attributes,
    null::timestamptz as expires_at, d."createdAt"::timestamptz as created_at, d."updatedAt"::timestamptz as updated_at
    from ${tableName(type)} d${each} where ${found.join(' and ')}`;
  const given = tuples
    ? ` and (t.resource_id, t.subject_type, t.subject_id) in (select * from unnest(${[
        tuples.map(({ resource }) => resource.id),
        tuples.map(({ subject }) => subject.type),
        tuples.map(({ subject }) => subject.id),
      ]
        .map((column) => `${next(column)}::text[]`)
        .join(', ')}))`
    : '';
  return `select t.* from (${rows}) t where ${conditionOf('relation', filter, next)}${given}`;
}
