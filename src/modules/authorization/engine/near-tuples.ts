/**
 * What is written about an object itself, where that is little: the statement that answers most checks. Checks of one
 * turn of the event loop share it (docs/decisions/507-gathered-reads.md). Values stand in sub-selects, where the planner
 * does not look at them: one plan serves all of them (tuple-loading.ts).
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { createGatheredRead } from '../../../kernel/database/gathered-read.ts';
import { statementName } from '../../../kernel/database/sql.ts';
import type { ObjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { listText } from '../tuple-sql.ts';
import type { Resolved } from './ask.ts';
import {
  type CursorGuard,
  GUARD_VALUES,
  guardTextWith,
  guardValues,
  isSameGuard,
} from './grant-cache/change-tracker.ts';
import { type Footprint, footprintOf, mergeFootprints } from './tuple-loading.ts';
import { fieldsOf, type ResourceText, tuplesOfResource } from './tuple-source.ts';

/** Tuples of an object that are loaded at most, beside one that says that there are more. */
export const MAX_NEAR = 16;
/** Checks that one statement answers. */
const MAX_GATHERED = 8;

/** What stands about an object, at one moment. */
export interface NearTuples {
  /** Of the resource definitions. */
  readonly revision: number;
  /** Whether the guard of the question was true. */
  readonly stands: boolean;
  readonly tuples: readonly Tuple[];
}

interface NearQuestion {
  readonly database: Queryable;
  readonly object: ObjectRef;
  readonly guard: CursorGuard | undefined;
}

/**
 * The first tuples of an object: where these are all, nothing else has to be looked for. With a guard, whether what was
 * kept stands at that moment.
 */
export const loadNear = (
  database: Queryable,
  model: Model,
  { object, name }: Pick<Resolved, 'object' | 'name'>,
  guard?: CursorGuard,
): Promise<NearTuples> => nearRead(model, name, guard !== undefined)({ database, object, guard });

/**
 * The same of several objects of a type, by one statement whatever is asked about them: all of it stood at one moment.
 * By the ids of the objects. With several names, tuples are loaded that only some of them look at.
 */
export async function loadNearMany(
  database: Queryable,
  model: Model,
  { type, names, ids }: NearObjects,
  guard?: CursorGuard,
): Promise<ReadonlyMap<string, NearTuples>> {
  const { many } = statementsOf(model, type, names, guard !== undefined);
  const objects = ids.map((id) => ({ type, id }));
  const values = [...many.valuesOf(objects), ...(guard ? guardValues(guard) : [])];
  const { text, name } = many;
  const { rows } = await database.query<NearRow>({
    ...{ text, name, values },
    class: ids.length > MAX_GATHERED ? 'list' : 'short',
  });
  const found = nearOf(rows, objects);
  return new Map(found.map((near, i) => [ids[i] ?? '', near]));
}

/** Objects of a type, and what is asked about them. */
export interface NearObjects {
  readonly type: string;
  /** Actions and relations of the type. */
  readonly names: readonly Name[];
  /** Each once. */
  readonly ids: readonly string[];
}

/** Kept for each name, and for all names of a type together: which of them a client asks for at once is not kept. */
function statementsOf(
  model: Model,
  type: string,
  names: readonly Name[],
  isGuarded: boolean,
): NearStatements {
  const keys = new Set(names.map(keyOf));
  const key = keys.size === 1 ? [...keys].join() : type;
  return model.derived(`near many ${isGuarded} ${key}`, () =>
    nearStatements(
      model,
      type,
      mergeFootprints(
        (keys.size === 1 ? names.slice(0, 1) : namesOf(model, type)).map((name) =>
          footprintOf(model, name),
        ),
      ),
      isGuarded,
    ),
  );
}

function namesOf(model: Model, type: string): readonly Name[] {
  const definition = model.get(type);
  if (!definition) return [];
  return [
    ...[...definition.actions.keys()].map((name) => ({ type, kind: 'action', name }) as const),
    ...[...definition.relations.keys()].map((name) => ({ type, kind: 'relation', name }) as const),
  ];
}

const nearRead = (model: Model, name: Name, isGuarded: boolean) =>
  model.derived(`near ${isGuarded} ${keyOf(name)}`, () => {
    const statements = nearStatements(model, name.type, footprintOf(model, name), isGuarded);
    return createGatheredRead<NearQuestion, NearTuples>({
      max: MAX_GATHERED,
      isLike: (first, other) =>
        first.database === other.database &&
        first.database.isTraced !== true &&
        isSameGuard(first.guard, other.guard),
      read: async (questions) => {
        const { database, guard } = questions[0];
        const statement = questions.length === 1 ? statements.one : statements.many;
        const objects = questions.map(({ object }) => object);
        const values = statement.valuesOf(objects);
        if (guard) values.push(...guardValues(guard));
        const { text, name: known } = statement;
        const { rows } = await database.query<NearRow>({
          ...{ text, name: known, values },
          class: 'short',
          gathered: true,
        });
        return nearOf(rows, objects);
      },
    });
  });

/** A tuple of an object, as statements answer it. */
export interface NearTuple {
  readonly subject_type: string;
  readonly subject_id: string;
  readonly subject_relation: string;
  readonly relation: string;
  readonly condition: string | null;
  readonly attributes: Record<string, unknown> | null;
}

interface NearRow extends Omit<NearTuple, 'subject_type'> {
  readonly revision: number | string;
  readonly stands: boolean;
  /** Of the question, from 1; absent where there is one. */
  readonly n?: number | string;
  /** Null where nothing stands about the object. */
  readonly subject_type: string | null;
}

/** Of each object; rows come in their order. */
function nearOf(rows: readonly NearRow[], objects: readonly ObjectRef[]): readonly NearTuples[] {
  let next = 0;
  return objects.map((object, i) => {
    const first = rows[next];
    if (!first) throw new Error('The database did not answer a check');
    const tuples: Tuple[] = [];
    for (let row: NearRow | undefined = first; row && Number(row.n ?? 1) === i + 1; ) {
      const { subject_type } = row;
      if (subject_type !== null) tuples.push(tupleOf({ ...row, subject_type }, object));
      next += 1;
      row = rows[next];
    }
    return { revision: Number(first.revision), stands: first.stands, tuples };
  });
}

export const tupleOf = (row: NearTuple, resource: ObjectRef): Tuple => ({
  subject: { type: row.subject_type, id: row.subject_id, relation: row.subject_relation },
  relation: row.relation,
  resource,
  condition: row.condition ?? undefined,
  attributes: row.attributes ?? undefined,
});

interface NearStatement {
  readonly text: string;
  readonly name: string;
  /** What comes before the values of the guard. */
  valuesOf(objects: readonly ObjectRef[]): unknown[];
}

interface NearStatements {
  readonly one: NearStatement;
  readonly many: NearStatement;
}

interface NearTexts {
  /** Some of it is said by the records. */
  readonly inRecords: boolean;
  /** The first rows (`NearTuple`) about an object. */
  tuples(place: ResourceText): string;
  /** One row: the revision of the definitions, and whether the guard stands, of which the placeholders are these. */
  state(guard: readonly string[] | undefined): string;
}

/** What counts for some names of a type. */
export function nearTexts(
  model: Model,
  type: string,
  { probes, follows, sets }: Footprint,
): NearTexts {
  const ofType = [...probes, ...follows, ...sets].filter((row) => row[0] === type);
  const relations = [...new Set(ofType.map((row) => row[1]))];
  const fields = fieldsOf(
    model,
    relations.map((relation) => ({ type, relation })),
  );
  return {
    inRecords: fields.length > 0,
    tuples: (place) => `${tuplesOfResource(fields, place)}
      limit ${MAX_NEAR + 1}`,
    state: (guard) =>
      `select coalesce(max(revision), 0) as revision, ${guard ? guardTextWith(guard) : 'true'} as stands from penstock.resource_definition_versions`,
  };
}

/** The statement of one question takes a quarter less than that of many with one question in it. */
function nearStatements(
  model: Model,
  type: string,
  footprint: Footprint,
  isGuarded: boolean,
): NearStatements {
  const { inRecords, tuples, state } = nearTexts(model, type, footprint);
  const guardPlaces = Array.from({ length: GUARD_VALUES }, (_, i) => `$${(inRecords ? 4 : 3) + i}`);
  const statement = (ids: string, place: { readonly id: string; readonly uuid: string }) => {
    const text = `select v.revision, v.stands, x.*${ids && ', q.n'} from (
      ${state(isGuarded ? guardPlaces : undefined)}) v
    ${ids && `cross join ${ids}`}
    left join lateral (${tuples({ type: '(select $2::text)', ...place })}) x on true${ids && ' order by q.n'}`;
    return { text, name: statementName(text) };
  };
  const [texts, uuids] = ['(select $1::text[])::text[]', '(select $3::uuid[])::uuid[]'];
  const lists = inRecords
    ? `unnest(${texts}, ${uuids}) with ordinality q(id, uuid, n)`
    : `unnest(${texts}) with ordinality q(id, n)`;
  return {
    one: {
      ...statement('', { id: '(select $1::text)', uuid: '(select $3::uuid)' }),
      valuesOf: ([object]) => {
        const id = object?.id ?? '';
        return inRecords ? [id, type, uuidIn(id)] : [id, type];
      },
    },
    many: {
      ...statement(lists, { id: 'q.id', uuid: 'q.uuid' }),
      valuesOf: (objects) => {
        const ids = objects.map(({ id }) => id);
        const list = listText(ids);
        return inRecords
          ? [list, type, `{${ids.map((id) => uuidIn(id) ?? 'null')}}`]
          : [list, type];
      },
    },
  };
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The id of a record; null for other ids. */
const uuidIn = (id: string): string | null => (uuidPattern.test(id) ? id : null);
