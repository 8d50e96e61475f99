/**
 * Who may stand below an object, where so much stands there that it cannot be named: everybody of whom anything is
 * written, in the order of their ids, a part at a time. Of these the way up is followed together, and those are kept
 * from whom it leads to the object.
 */
import { expansionTo, isExact, originsOf, rulesTo } from '../model/expansion-rules.ts';
import type { ObjectRef, SubjectRef } from '../model/grammar.ts';
import type { Model, Name } from '../model/model.ts';
import { arrayText, liveTuple } from '../tuple-sql.ts';
import {
  type CandidateBounds,
  type EngineScope,
  type EvaluationContext,
  keepAllowed,
} from './ask.ts';
import { no, yes } from './graph.ts';
import { sizesOf } from './limits.ts';
import { type Lookup, lookupsOf } from './reverse-expansion.ts';
import { recordRelationsNaming, sourcedStatement, sourceOf, tupleSource } from './tuple-source.ts';

/** Objects of a type, or sets of those who stand in a relation to one. */
export type SubjectSort = Omit<SubjectRef, 'id'>;

/** One lookup for each id that there is: of those that stand in very many tuples none is read but the first. */
const writtenText = `with recursive written(id) as (
    (select t.subject_id from penstock.tuples t
      where t.subject_type = $1::text and t.subject_id > $2::text order by t.subject_id limit 1)
    union all
    select (select t.subject_id from penstock.tuples t
       where t.subject_type = $1::text and t.subject_id > w.id order by t.subject_id limit 1)
      from written w where w.id is not null)
  select w.id from (select id from written limit $3::bigint) w where w.id is not null`;

/** The next ids after one, in byte order, at most `limit`; `known` ones are among them. */
export function writtenSubjects(
  { model, database }: EngineScope,
  { type, relation }: SubjectSort,
  known: readonly string[],
): (after: string, limit: number) => Promise<readonly string[]> {
  const fields = relation === '' ? recordRelationsNaming(model, type) : [];
  const inRecords = fields.map((field) => {
    const { rows } = tupleSource(model, [field]);
    return `(select distinct t.subject_id from ${rows} t
      where t.in_record and t.subject_type = $1::text and t.subject_id > $2::text order by t.subject_id limit $3::bigint)`;
  });
  const others = '(select r.id from unnest($4::text[]) r(id) where r.id > $2::text)';
  const text = `select id from (${[`(${writtenText})`, ...inRecords, others].join(' union all ')}) x
    group by id order by id collate "C" limit $3::bigint`;
  return async (after, limit) => {
    const values = [type, after, limit, known];
    const { rows } = await database.query<{ id: string }>({ text, values });
    return rows.map(({ id }) => id);
  };
}

/* The way up of many at once: as in reverse-expansion.ts, with the number of the one who goes. */

const columnsOf = (types: readonly string[], first: number): string =>
  types.map((type, i) => `(select $${i + first}::${type}[])`).join(', ');
const directColumns = ['integer', 'text', 'text', 'text', 'text', 'text', 'text', 'boolean'];
const stepColumns = ['text', 'text', 'text', 'text', 'text', 'text', 'boolean'];
const directNames = 'x(n, s_type, s_id, s_relation, type, relation, name, exact)';
const stepNames = 'x(from_type, from_name, set_relation, type, relation, name, exact)';

const togetherStatement = sourcedStatement((from) => {
  const counted = (of: string): string =>
    `${liveTuple('t')} and (t.condition is null or not ${of}.exact)`;
  const named = (id: string): string =>
    `t.subject_id = ${id}${from.subject('t', id)} and t.resource_id = (select $1::text)${from.resource('t', '(select $1::text)')}`;
  return `with recursive
    direct as materialized (select * from unnest(${columnsOf(directColumns, 2)}) ${directNames}),
    step as materialized (select * from unnest(${columnsOf(stepColumns, 10)}) ${stepNames}),
    last_direct as materialized (select * from unnest(${columnsOf(directColumns, 17)}) ${directNames}),
    last_step as materialized (select * from unnest(${columnsOf(stepColumns, 25)}) ${stepNames}),
    has(n, type, id, name) as (
      select d.n, d.type collate "C", r.resource_id collate "C", d.name collate "C"
        from direct d cross join lateral (
          select t.resource_id from ${from.rows} t
           where t.subject_type = d.s_type and t.subject_id = d.s_id${from.subject('t', 'd.s_id')} and t.subject_relation = d.s_relation
             and t.resource_type = d.type and t.relation = d.relation and ${counted('d')} limit (select $32::bigint)) r
      union
      select h.n, p.type, r.resource_id, p.name
        from has h join step p on p.from_type = h.type and p.from_name = h.name
        cross join lateral (
          select t.resource_id from ${from.rows} t
           where t.subject_type = h.type and t.subject_id = h.id${from.subject('t', 'h.id')} and t.subject_relation = p.set_relation
             and t.resource_type = p.type and t.relation = p.relation and ${counted('p')} limit (select $32::bigint)) r),
    met as materialized (select * from has limit (select $32::bigint))
  select (select count(*) from met)::integer as amount, (select m.n from met m group by m.n order by count(*) desc limit 1) as largest, array(
    select d.n from last_direct d where exists (
      select 1 from ${from.rows} t where t.subject_type = d.s_type and t.subject_relation = d.s_relation
         and t.resource_type = d.type and t.relation = d.relation and ${counted('d')} and ${named('d.s_id')} offset 0)
    union
    select h.n from met h join last_step p on p.from_type = h.type and p.from_name = h.name where exists (
      select 1 from ${from.rows} t where t.subject_type = h.type and t.subject_relation = p.set_relation
         and t.resource_type = p.type and t.relation = p.relation and ${counted('p')} and ${named('h.id')} offset 0)) as leading`;
});

/** Who is asked about together, and what about. */
export interface Candidates {
  readonly goal: Name;
  readonly object: ObjectRef;
  readonly sort: SubjectSort;
  readonly evaluationContext: EvaluationContext;
}

/** Finds the bounds of candidates, in order, without the rule of the object itself (`isSelf`). */
export function candidateBounds(
  scope: EngineScope,
  { goal, object, sort, evaluationContext }: Candidates,
): (ids: readonly string[]) => Promise<readonly CandidateBounds[]> {
  const { model } = scope;
  const origins = originsOf(model, goal);
  const exact = isExact(model, goal);
  const { open } = expansionTo(model, [goal, ...origins]);
  const apart = sort.relation !== '' || evaluationContext.contextual.length > 0 || open.length > 0;
  const one = async (id: string, around = evaluationContext): Promise<CandidateBounds> => {
    const question = { subject: { ...sort, id }, object, name: goal };
    return (await keepAllowed(scope, [question], around))[0] ?? no;
  };
  // Whom rules name has as one of everybody what somebody whom nothing names has not.
  const { unnamed: _, ...whoever } = evaluationContext;
  /** What everybody has, each of them has. */
  let everybodys: Promise<CandidateBounds> | undefined;
  return async (ids) => {
    everybodys ??= apart ? undefined : one('*', whoever);
    const together = everybodys && !(await everybodys).possible;
    const walked = together
      ? await walkTogether(scope, { goal, object, origins, sort }, ids)
      : { leading: new Set<string>(), undecided: new Set(ids) };
    const boundsOf = (id: string): CandidateBounds | Promise<CandidateBounds> => {
      if (walked.undecided.has(id)) return one(id);
      if (!walked.leading.has(id)) return no;
      return exact ? yes : one(id);
    };
    const found: CandidateBounds[] = [];
    for (const id of ids) found.push(await boundsOf(id));
    return found;
  };
}

interface Walk {
  readonly goal: Name;
  readonly object: ObjectRef;
  readonly origins: readonly Name[];
  readonly sort: SubjectSort;
}

interface Met {
  /** Objects that were met. */
  readonly amount: number;
  /** Whose way met most. */
  readonly largest: number | null;
  readonly leading: readonly number[];
}

interface Walked {
  /** From these the way up leads to the object. */
  readonly leading: ReadonlySet<string>;
  /** From these it leads to too much. */
  readonly undecided: ReadonlySet<string>;
}

async function walkTogether(
  scope: EngineScope,
  walk: Walk,
  ids: readonly string[],
): Promise<Walked> {
  const { goal, object, origins, sort } = walk;
  const { model, database } = scope;
  const max = sizesOf(scope).reachedTogether;
  const { direct, steps } = expansionTo(model, origins);
  const last = rulesTo(model, goal);
  const subjects = ids.map((id) => ({ ...sort, id }));
  const { rows } = await database.query<Met>({
    ...togetherStatement(sourceOf(model, [...direct, ...steps, ...last.direct, ...last.steps])),
    values: [
      object.id,
      ...directValues(model, subjects, direct),
      ...stepValues(steps),
      ...directValues(model, subjects, last.direct),
      ...stepValues(last.steps),
      max + 1,
    ],
    class: 'pooled',
  });
  const [found] = rows;
  if (found && found.amount <= max) {
    const leading = found.leading.flatMap((n) => ids[n] ?? []);
    return { leading: new Set(leading), undecided: new Set() };
  }
  // Whoever was met with most goes alone, the others without them.
  const [largest] = ids.slice(found?.largest ?? 0);
  const others = ids.filter((id) => id !== largest);
  const walked = others.length === 0 ? nothingWalked : await walkTogether(scope, walk, others);
  const undecided = walked.undecided.union(new Set(largest === undefined ? [] : [largest]));
  return { leading: walked.leading, undecided };
}

const nothingWalked: Walked = { leading: new Set(), undecided: new Set() };

type Rules = ReturnType<typeof rulesTo>;

/** Each subject in its own name only: what it has as one of everybody is asked before. */
function directValues(
  model: Model,
  subjects: readonly SubjectRef[],
  rules: Rules['direct'],
): readonly unknown[] {
  const lookups = subjects.flatMap((subject, n) =>
    lookupsOf(model, subject, rules)
      .filter((lookup) => lookup.subject.id === subject.id)
      .map((lookup): Lookup & { readonly n: number } => ({ ...lookup, n })),
  );
  return [
    lookups.map(({ n }) => n),
    ...[
      lookups.map(({ subject }) => subject.type),
      lookups.map(({ subject }) => subject.id),
      lookups.map(({ subject }) => subject.relation),
      lookups.map(({ rule }) => rule.type),
      lookups.map(({ rule }) => rule.relation),
      lookups.map(({ rule }) => rule.name),
    ].map(arrayText),
    lookups.map(({ rule }) => rule.exact),
  ];
}

const stepValues = (steps: Rules['steps']): readonly unknown[] => [
  steps.map((s) => s.fromType),
  steps.map((s) => s.fromName),
  steps.map((s) => s.setRelation),
  steps.map((s) => s.type),
  steps.map((s) => s.relation),
  steps.map((s) => s.name),
  steps.map((s) => s.exact),
];
