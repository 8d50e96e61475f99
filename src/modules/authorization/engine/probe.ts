/**
 * Answers one check by one short statement, where little hangs on it: the statement loads that little, with the
 * revision of the definitions of the same snapshot, and nothing has to be asked beside it. `near` loads all that is
 * written about the resource, by one search of an index; `object` what of it can count; `graph` also what that leads to.
 * Each stops at a bound. What lies beyond is left to larger searches (checks.ts of the services), unless more could not change the answer.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { statementName } from '../../../kernel/database/sql.ts';
import { formsOf, isEverybody, type SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name, reachable } from '../model/model.ts';
import { fits, indexTuples, type Tuple } from '../model/tuple.ts';
import { arrayText, liveTuple } from '../tuple-sql.ts';
import { type EngineScope, isSelf, type Resolved } from './ask.ts';
import type { AskOptions, Probe, ProbeReach, Question } from './engine.ts';
import { evaluate, type Verdict } from './evaluate.ts';
import { noRules, rulesBelow } from './record-rules.ts';
import { arrowsIn, type Footprint, footprintOf } from './tuple-loading.ts';
import { sourceOf, type TupleSource } from './tuple-source.ts';

/** Tuples that one statement loads, at most. */
const MOST: Readonly<Record<ProbeReach, number>> = {
  near: 16,
  object: 128,
  graph: 400,
};

/** `undefined` when the model does not know the words of the question, or it needs no statement: the walk tells what is wrong. */
export async function probe(
  { model, database }: EngineScope,
  question: Question,
  { context = {}, contextual = [] }: AskOptions = {},
  reach: ProbeReach = 'object',
): Promise<Probe | undefined> {
  const { subject, action, resource } = question;
  const name = model.action(resource.type, action);
  // What a tuple that is given leads to cannot be reached from the resource.
  if (contextual.length > 0 || !name || !isKnown(model, subject)) return undefined;
  const asked: Resolved = { subject, object: resource, name };
  // Rules about records are asked of the records.
  if (isSelf(asked) || rulesBelow(model, name).size > 0) return undefined;
  const statement = statementOf(model, name, reach);
  if (!statement) return undefined;
  const { revision, tuples } = await load(database, statement, asked);
  const fitting = tuples.filter((tuple) => fits(model, tuple));
  const verdict =
    fitting.length === 0 && subject.relation === ''
      ? emptyVerdict(model, asked)
      : evaluate(
          {
            model,
            tuples: indexTuples(fitting),
            subject,
            context,
            now: new Date().toISOString(),
            rules: noRules,
          },
          resource,
          name,
        );
  const whole = tuples.length <= MOST[reach];
  const complete = whole && (reach === 'graph' || !leadsOn(model, name, fitting));
  const { sure, possible } = verdict;
  if (complete) return { revision, allowed: sure === possible ? sure : undefined, whole };
  return { revision, allowed: sure && isMonotone(model, name) ? true : undefined, whole };
}

const isKnown = (model: Model, { type, relation }: SubjectRef): boolean =>
  (isEverybody({ type }) || model.get(type) !== undefined) &&
  (relation === '' || model.member(type, relation) !== undefined);

/** The answer to a plain subject about an object of which nothing is written. */
const emptyVerdict = (model: Model, { subject, object, name }: Resolved): Verdict =>
  model.derived(`empty ${keyOf(name)}`, () =>
    evaluate(
      { model, tuples: indexTuples([]), subject, context: {}, now: '', rules: noRules },
      object,
      name,
    ),
  );

/** True when more tuples never take the name away: nothing is subtracted, and no "every" asks for all. */
const isMonotone = (model: Model, name: Name): boolean =>
  model.derived(`monotone ${keyOf(name)}`, () => {
    const { edges } = reachable(name, model.dependencies);
    const asksForAll = (one: Name): boolean =>
      arrowsIn(model.expression(one) ?? { kind: 'none' }).some(({ all }) => all);
    return (
      edges.every(({ negative }) => !negative) &&
      ![name, ...edges.map(({ on }) => on)].some(asksForAll)
    );
  });

/** Whether one of the tuples leads to another object. */
function leadsOn(model: Model, name: Name, tuples: readonly Tuple[]): boolean {
  const { follows, sets } = model.derived(`leads ${keyOf(name)}`, () => {
    const footprint = footprintOf(model, name);
    return {
      follows: new Set(footprint.follows.map((row) => row.join(' '))),
      sets: new Set(footprint.sets.map((row) => row.join(' '))),
    };
  });
  return tuples.some(({ resource: { type }, relation, subject }) =>
    subject.relation === ''
      ? subject.id !== '*' && follows.has(`${type} ${relation} ${subject.type}`)
      : sets.has(`${type} ${relation}`),
  );
}

interface ProbeStatement {
  readonly text: string;
  readonly name: string;
  /** Whether it asks for tuples that name the subject. */
  readonly bySubject: boolean;
  /** What follows the values of the question. */
  readonly values: readonly string[];
}

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

async function load(
  database: Queryable,
  { text, name, values, bySubject }: ProbeStatement,
  { subject: { type, id, relation }, object }: Resolved,
): Promise<{ readonly revision: number; readonly tuples: readonly Tuple[] }> {
  // A plain subject is also meant by `Type:*` and `*`.
  const forms = bySubject ? formsOf({ type, id, relation }) : [];
  const types = [...new Set(forms.map((form) => form.type))];
  const ids = [...new Set(forms.map((form) => form.id))];
  const asked = bySubject ? [arrayText(types), arrayText(ids), relation] : [];
  const { rows } = await database.query<{ revision: number | string; tuples: string | null }>({
    text,
    name,
    values: [object.id, ...asked, ...values],
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

const statementOf = (model: Model, name: Name, reach: ProbeReach): ProbeStatement | undefined =>
  model.derived(`probe ${reach} ${keyOf(name)}`, () => {
    const footprint = footprintOf(model, name);
    if (reach === 'near') return nearStatement(model, name.type, footprint);
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
function ownTuples(place: Place, most: number): string {
  const text = `${tuplesAt(place, false)} and t.subject_type = any((select $2::text[])::text[])
    and t.subject_id = any((select $3::text[])::text[]) and t.subject_relation = (select $4::text)`;
  // With fields in it the source is a query of its own: the bound lets each arm be found by its index.
  return place.from.stored ? text : `select * from (${text} limit ${most}) o`;
}

/** Tuples whose objects lead on. */
const leadingTuples = (place: Place, types: string, most: number): string =>
  `(${tuplesAt(place, true)} and t.subject_type = any(${types}) and t.subject_relation = '' and t.subject_id <> '*' limit ${most})`;

/** Tuples whose subject sets lead on. */
const setTuples = (place: Place, most: number): string =>
  `(${tuplesAt(place, true)} and t.subject_relation <> '' limit ${most})`;

const relationsOf = (rows: readonly (readonly string[])[]): string =>
  arrayText([...new Set(rows.map((row) => row[1] ?? ''))]);

/** Where the tuples of rows of a footprint are. */
const sourceOfRows = (model: Model, rows: readonly (readonly string[])[]): TupleSource =>
  sourceOf(
    model,
    rows.map(([type = '', relation = '']) => ({ type, relation })),
  );

/** The first tuples of an object: where these are all, nothing else has to be looked for. */
function nearStatement(model: Model, type: string, footprint: Footprint): ProbeStatement {
  const rows = [...footprint.probes, ...footprint.follows, ...footprint.sets];
  const ofType = rows.filter((row) => row[0] === type);
  const from = sourceOfRows(model, ofType);
  const id = '(select $1::text)';
  const text = answerText(`select ${tupleColumns} from ${from.rows} t
    where t.resource_type = (select $2::text) and t.resource_id = ${id}${from.resource('t', id)} and ${liveTuple('t')} limit ${MOST.near + 1}`);
  return { text, values: [type], name: statementName(text), bySubject: false };
}

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
  const most = MOST.object + 1;
  const parts = [ownTuples(place(of(footprint.probes)), most)];
  if (follows.length > 0) {
    const types = array(arrayText([...new Set(follows.map((row) => row[2]))]));
    parts.push(leadingTuples(place(follows), types, most));
  }
  if (sets.length > 0) parts.push(setTuples(place(sets), most));
  const text = answerText(`${parts.join(' union all ')} limit ${most}`);
  return { text, values, name: statementName(text), bySubject: true };
}

/** Of more types the text would be large. */
const MOST_TYPES = 12;

/** A walk from the object, of index lookups. The words of the model are text: so the plan is as small as the model. */
function graphStatement(
  model: Model,
  type: string,
  footprint: Footprint,
): ProbeStatement | undefined {
  const { probes, follows, sets } = footprint;
  const types = [...new Set(probes.map((row) => row[0]))];
  if (types.length > MOST_TYPES || follows.length + sets.length === 0) return undefined;
  const most = MOST.graph + 1;
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
      leadingTuples(place(rows), `array[${literalOf(to, 'text')}]`, most),
    );
    const all = [ownTuples(place(of(probes)), most), ...leading];
    if (of(sets).length > 0) all.push(setTuples(place(of(sets)), most));
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
    select * from edge limit ${most}`);
  return { text, values: [], name: statementName(text), bySubject: true };
}
