/**
 * Where the statements of the engine read tuples from: the stored ones, and the
 * fields of records that a question can touch, shown as tuples. An arm over the
 * table of the records carries the ids as uuids as well, with which its indexes
 * are found; conditions on ids are therefore written by `resource` and `subject`.
 */
import { tableName } from '../../../data/schema/compile/layout.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier, statementName } from '../../../kernel/database/sql.ts';
import type { RecordField } from '../model/grammar.ts';
import { type FieldRelation, type Model, plainTypes } from '../model/model.ts';
import { arrayText, liveTuple, uuidOf } from '../tuple-sql.ts';

export interface TupleSource {
  /** Stands where a table may stand, and needs an alias. */
  readonly rows: string;
  /** The same for the same fields. */
  readonly key: string;
  /** True when no field of a record is in it. */
  readonly stored: boolean;
  /** What records say in it: by columns beside stored tuples, and by fields that count instead of them. */
  readonly fields: readonly FieldRelation[];
  /** `and ...`: what finds the tuples of a resource (SQL of its id) by index, beside the equality of its text. */
  resource(alias: string, id: string): string;
  /** The same for the subject. */
  subject(alias: string, id: string): string;
}

export const storedTable = 'penstock.tuples';

/** Nothing but the table. */
export const storedTuples: TupleSource = {
  rows: storedTable,
  key: '',
  stored: true,
  fields: [],
  resource: () => '',
  subject: () => '',
};

const word = (text: string): string => `${literalOf(text, 'text')} collate "C"`;

/** `where ...`: the stored tuples that count. Those that were stored for what is a field now do not. */
export function countingStored(relations: readonly FieldRelation[]): string {
  const replaced = relations.filter(({ field }) => field.typeColumn === undefined);
  const names = replaced.map(
    ({ type, relation }) => `(${literalOf(type, 'text')}, ${literalOf(relation, 'text')})`,
  );
  return names.length === 0
    ? ''
    : ` where (t.resource_type, t.relation) not in (${names.join(', ')})`;
}

/** Of another table than that of all stored tuples, every one counts. */
const storedArm = (relations: readonly FieldRelation[], table: string): string =>
  `select t.subject_type, t.subject_id, t.subject_relation, t.relation, t.resource_type, t.resource_id, t.condition, t.attributes,
    t.expires_at::timestamptz as expires_at, t.resource_uuid, t.row_of, false as in_record, null::uuid as subject_uuid, false as listed, null::uuid[] as subject_list
  from ${table} t${table === storedTable ? countingStored(relations) : ''}`;

/** The type of what a field of the rows `alias` names (SQL). */
export const subjectTypeText = ({ type, typeColumn }: RecordField, alias: string): string =>
  typeColumn === undefined
    ? word(type)
    : `coalesce(${alias}.${identifier(typeColumn)}, ${word(type)})`;

/** A list of ids is a tuple for each of them, once; a field without a value is none. */
function fieldArm({ type, relation, field }: FieldRelation): string {
  const column = `d.${identifier(field.field)}`;
  const subject = field.many ? 'u.id' : column;
  const rows = field.many
    ? `${tableName(type)} d cross join lateral (select distinct v.id from unnest(${column}) v(id)) u`
    : `${tableName(type)} d`;
  return `select ${subjectTypeText(field, 'd')}, ${subject}::text collate "C", ${word('')}, ${word(relation)}, ${word(type)}, d."_id"::text collate "C", null::text collate "C", null::jsonb,
    null::timestamptz, d."_id", ${literalOf(tableName(type), 'regclass')}::oid, true, ${subject}, ${field.many}, ${field.many ? column : 'null::uuid[]'}
  from ${rows} where ${subject} is not null`;
}

/** Tuples of the table, and these fields. */
export function tupleSource(
  model: Model,
  relations: readonly FieldRelation[],
  table = storedTable,
): TupleSource {
  if (relations.length === 0)
    return table === storedTable ? storedTuples : { ...storedTuples, rows: table };
  // Somebody who acts through thousands of objects asks for the same relation for each of them.
  const unique = new Map(relations.map((one) => [`${one.type}.${one.relation}`, one]));
  const names = [...unique.keys()].sort();
  const fields = names.flatMap((one) => unique.get(one) ?? []);
  const key = names.join(' ');
  return model.derived(`source ${table} ${key}`, () => ({
    rows: `(${[storedArm(fields, table), ...fields.map(fieldArm)].join(' union all ')})`,
    key,
    stored: false,
    fields,
    // What is constant in an arm is gone from its plan: stored tuples are found by the text, fields by the uuid.
    resource: (alias, id) =>
      ` and (not ${alias}.in_record or ${alias}.resource_uuid = ${uuidOf(id)})`,
    subject: (alias, id) =>
      ` and (not ${alias}.in_record or ${alias}.subject_uuid = ${uuidOf(id)}) and (not ${alias}.listed or ${alias}.subject_list @> array[${uuidOf(id)}])`,
  }));
}

/** SQL of what names a resource; `uuid` is null where the id is none. */
export interface ResourceText {
  readonly type: string;
  readonly id: string;
  readonly uuid: string;
}

/** What is written about one resource, of the fields these: each arm is found by an index of its own, and holds nothing else. */
export function tuplesOfResource(
  relations: readonly FieldRelation[],
  { type, id, uuid }: ResourceText,
): string {
  const replaced = relations.filter(({ field }) => field.typeColumn === undefined);
  const others = literalOf(arrayText(replaced.map(({ relation }) => relation)), 'text[]');
  const stored = `select t.subject_type, t.subject_id, t.subject_relation, t.relation, t.condition, t.attributes from penstock.tuples t
    where t.resource_type = ${type} and t.resource_id = ${id} and ${liveTuple('t')}${replaced.length === 0 ? '' : ` and t.relation <> all(${others})`}`;
  const fields = relations.map(({ type: ofType, relation, field }) => {
    const column = `d.${identifier(field.field)}`;
    const rows = field.many
      ? ` cross join lateral (select distinct v.id from unnest(${column}) v(id)) u`
      : '';
    const subject = field.many ? 'u.id' : column;
    return `select ${subjectTypeText(field, 'd')}, ${subject}::text collate "C", ${word('')}, ${word(relation)}, null::text collate "C", null::jsonb
    from ${tableName(ofType)} d${rows} where d."_id" = ${uuid} and ${subject} is not null`;
  });
  return [stored, ...fields].join('\n  union all ');
}

/** The source for these relations of types: with the fields that are among them. */
export const sourceOf = (
  model: Model,
  relations: Iterable<{ readonly type: string; readonly relation: string }>,
  table = storedTable,
): TupleSource =>
  tupleSource(model, model.recordRelations.length === 0 ? [] : fieldsOf(model, relations), table);

/** Those of the relations that are fields, or stand in columns of records as well. */
export const fieldsOf = (
  model: Model,
  relations: Iterable<{ readonly type: string; readonly relation: string }>,
): readonly FieldRelation[] =>
  [...relations].flatMap(({ type, relation }) => {
    const field = model.fieldOf(type, relation) ?? model.columnOf(type, relation);
    return field ? [{ type, relation, field }] : [];
  });

/** What records say about relations in which objects of a type may stand. */
export const recordRelationsNaming = (
  model: Model,
  subjectType: string,
): readonly FieldRelation[] =>
  model.recordRelations.filter(({ type, relation }) =>
    plainTypes(model.get(type)?.relations.get(relation) ?? [], [subjectType]).includes(subjectType),
  );

/** A statement whose text hangs on the source alone; texts are made once. */
export function sourcedStatement(
  compose: (source: TupleSource) => string,
): (source: TupleSource) => { readonly name: string; readonly text: string } {
  const made = new WeakMap<TupleSource, { readonly name: string; readonly text: string }>();
  return (source) => {
    let statement = made.get(source);
    if (!statement) {
      const text = compose(source);
      statement = { text, name: statementName(text) };
      made.set(source, statement);
    }
    return statement;
  };
}
