/**
 * The statements of checks that look at little. Types and relations are text only where that makes the plan as small
 * as the model; the values of a question stand in sub-selects, where the planner does not look at them: one plan serves
 * all of them (tuple-loading.ts).
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { statementName } from '../../../kernel/database/sql.ts';
import { formsOf } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { arrayText, liveTuple } from '../tuple-sql.ts';
import type { Resolved } from './ask.ts';
import { MAX_NEAR } from './near-tuples.ts';
import { type Footprint, footprintOf } from './tuple-loading.ts';
import { sourceOf, type TupleSource } from './tuple-source.ts';

/** Tuples that one statement loads, at most. */
export const MAX_TUPLES = { near: MAX_NEAR, object: 128, graph: 400 } as const;

/** What one statement found, at one moment. */
export interface Loaded {
  /** Of the resource definitions. */
  readonly revision: number;
  readonly tuples: readonly Tuple[];
}

/* What of it a question can hang on, and what that leads to. */

type Row = readonly [
  subjectType: string,
  subjectId: string,
  subjectRelation: string,
  relation: string,
  resourceType: string,
  resourceId: string,
  condition: string | null,
  attributes: Record<string, unknown> | null,
];

interface ProbeStatement {
  readonly text: string;
  readonly name: string;
  /** What follows the values of the question. */
  readonly values: readonly string[];
}

/** `undefined` where there is no such statement for the name. */
export function loadProbe(
  database: Queryable,
  model: Model,
  asked: Resolved,
  reach: 'object' | 'graph',
): Promise<Loaded> | undefined {
  const statement = statementOf(model, asked.name, reach);
  return statement && load(database, statement, asked);
}

async function load(
  database: Queryable,
  { text, name, values }: ProbeStatement,
  { subject, object }: Resolved,
): Promise<Loaded> {
  // A plain subject is also meant by `Type:*` and `*`.
  const forms = formsOf(subject);
  const types = [...new Set(forms.map((form) => form.type))];
  const ids = [...new Set(forms.map((form) => form.id))];
  const { rows } = await database.query<{ revision: number | string; tuples: string | null }>({
    text,
    name,
    values: [object.id, arrayText(types), arrayText(ids), subject.relation, ...values],
    class: 'short',
  });
  const [row] = rows;
  if (!row) throw new Error('The database did not answer a check');
  const found = row.tuples === null ? [] : (JSON.parse(row.tuples) as readonly Row[]);
  return { revision: Number(row.revision), tuples: found.map(tupleOfRow) };
}

const tupleOfRow = (row: Row): Tuple => ({
  subject: { type: row[0], id: row[1], relation: row[2] },
  relation: row[3],
  resource: { type: row[4], id: row[5] },
  condition: row[6] ?? undefined,
  attributes: row[7] ?? undefined,
});

const statementOf = (
  model: Model,
  name: Name,
  reach: 'object' | 'graph',
): ProbeStatement | undefined =>
  model.derived(`probe ${reach} ${keyOf(name)}`, () => {
    const footprint = footprintOf(model, name);
    return reach === 'object'
      ? objectStatement(model, name.type, footprint)
      : graphStatement(model, name.type, footprint);
  });

const columns = [
  'subject_type',
  'subject_id',
  'subject_relation',
  'relation',
  'resource_type',
  'resource_id',
  'condition',
  'attributes',
];
const tupleColumns = columns.map((column) => `t.${column}`).join(', ');

/** The tuples of `rows`, with the revision at that moment. */
const answerText = (rows: string): string => `select
  (select coalesce(max(revision), 0) from penstock.resource_definition_versions) as revision,
  (select json_agg(json_build_array(${columns.map((column) => `x.${column}`).join(', ')})) from (${rows}) x)::text as tuples`;

/** Where tuples are sought: SQL of an object's type and id, and of an array of relations. */
interface Place {
  readonly type: string;
  readonly id: string;
  readonly relations: string;
  readonly from: TupleSource;
}

const tuplesAt = ({ type, id, relations, from }: Place, onward: boolean): string =>
  `select ${tupleColumns}, ${onward} as onward from ${from.rows} t
  where t.resource_type = ${type} and t.resource_id = ${id}${from.resource('t', id)} and t.relation = any(${relations}) and ${liveTuple('t')}`;

/** Tuples that name the subject of the question. In sub-selects the planner does not look at values (tuple-loading.ts). */
function ownTuples(place: Place, max: number): string {
  const text = `${tuplesAt(place, false)} and t.subject_type = any((select $2::text[])::text[])
    and t.subject_id = any((select $3::text[])::text[]) and t.subject_relation = (select $4::text)`;
  // With fields in it the source is a query of its own: the bound lets each arm be found by its index.
  return place.from.stored ? text : `select * from (${text} limit ${max}) o`;
}

/** Tuples whose objects lead on. */
const leadingTuples = (place: Place, types: string, max: number): string =>
  `(${tuplesAt(place, true)} and t.subject_type = any(${types}) and t.subject_relation = '' and t.subject_id <> '*' limit ${max})`;

/** Tuples whose subject sets lead on. */
const setTuples = (place: Place, max: number): string =>
  `(${tuplesAt(place, true)} and t.subject_relation <> '' limit ${max})`;

const relationsOf = (rows: readonly (readonly string[])[]): string =>
  arrayText([...new Set(rows.map((row) => row[1] ?? ''))]);

/** Where the tuples of rows of a footprint are. */
const sourceOfRows = (model: Model, rows: readonly (readonly string[])[]): TupleSource =>
  sourceOf(
    model,
    rows.map(([type = '', relation = '']) => ({ type, relation })),
  );

/** Few texts for all names: the words of the model are values. */
function objectStatement(model: Model, type: string, footprint: Footprint): ProbeStatement {
  const of = <R extends readonly string[]>(rows: readonly R[]): readonly R[] =>
    rows.filter((row) => row[0] === type);
  const values = [type];
  const array = (text: string): string => `(select $${values.push(text) + 4}::text[])::text[]`;
  const place = (rows: readonly (readonly string[])[]): Place => ({
    type: '(select $5::text)',
    id: '(select $1::text)',
    relations: array(relationsOf(rows)),
    from: sourceOfRows(model, rows),
  });
  const [follows, sets] = [of(footprint.follows), of(footprint.sets)];
  const max = MAX_TUPLES.object + 1;
  const parts = [ownTuples(place(of(footprint.probes)), max)];
  if (follows.length > 0) {
    const types = array(arrayText([...new Set(follows.map((row) => row[2]))]));
    parts.push(leadingTuples(place(follows), types, max));
  }
  if (sets.length > 0) parts.push(setTuples(place(sets), max));
  const text = answerText(`${parts.join(' union all ')} limit ${max}`);
  return { text, values, name: statementName(text) };
}

/** Of more types the text would be large. */
const MAX_TYPES = 12;

/** A walk from the object, of index lookups. The words of the model are text: so the plan is as small as the model. */
function graphStatement(
  model: Model,
  type: string,
  footprint: Footprint,
): ProbeStatement | undefined {
  const { probes, follows, sets } = footprint;
  const types = [...new Set(probes.map((row) => row[0]))];
  if (types.length > MAX_TYPES || follows.length + sets.length === 0) return undefined;
  const max = MAX_TUPLES.graph + 1;
  const outOf = (one: string, id: string): string => {
    const of = <R extends readonly string[]>(rows: readonly R[]): readonly R[] =>
      rows.filter((row) => row[0] === one);
    const place = (rows: readonly (readonly string[])[]): Place => ({
      type: literalOf(one, 'text'),
      id,
      relations: literalOf(relationsOf(rows), 'text[]'),
      from: sourceOfRows(model, rows),
    });
    const leading = [...Map.groupBy(of(follows), (row) => row[2])].map(([to, rows]) =>
      leadingTuples(place(rows), `array[${literalOf(to, 'text')}]`, max),
    );
    const all = [ownTuples(place(of(probes)), max), ...leading];
    if (of(sets).length > 0) all.push(setTuples(place(of(sets)), max));
    return all.join(' union all ');
  };
  const beyond = types.filter((one) => sets.length > 0 || follows.some((row) => row[2] === one));
  const onward = beyond.map(
    (one) =>
      `select * from (${outOf(one, 'b.subject_id')}) o where b.subject_type = ${literalOf(one, 'text')}`,
  );
  const text = answerText(`with recursive edge as (
      select * from (${outOf(type, '(select $1::text)')}) root
      union
      select e.* from edge b cross join lateral (${onward.join(' union all ')}) e where b.onward)
    select * from edge limit ${max}`);
  return { text, values: [], name: statementName(text) };
}
