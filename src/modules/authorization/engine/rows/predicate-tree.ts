/** Conditions on a row, as a tree that is rendered to SQL. Words of the model become text, everything else a parameter. */
import { tableName } from '../../../../data/schema/compile/layout.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import type { RecordField } from '../../model/definition.ts';
import { listValue, liveTuple, uuidOf } from '../../tuple-sql.ts';
import { type CountedConditions, conditionText } from './counted-conditions.ts';
import { packedTest, packedUuidTest, rowIds } from './packed-ids.ts';

/** Which subjects a tuple of the row must have. */
export interface Arm extends CountedConditions {
  readonly relations: readonly string[];
  readonly subjectType: string;
  /** Relation of the subject set; empty for objects and wildcards. */
  readonly subjectRelation: string;
  readonly ids: readonly string[];
  /** Instead of ids: whether the object of an id (SQL, a text) counts. */
  readonly holds?: (id: string, next: (value: unknown) => string) => string;
  /** The ids are those that do not count; `*` never does. */
  readonly except: boolean;
  /** Set where the relation is a field of the row: then there are no tuples. */
  readonly field?: RecordField | undefined;
}

export type Test =
  | { readonly kind: 'constant'; readonly holds: boolean }
  /** The row has this id. */
  | { readonly kind: 'row'; readonly id: string }
  /** The row has a tuple that one of the arms describes. */
  | { readonly kind: 'tuple'; readonly arms: readonly Arm[] }
  /** The row fits a rule; null where there is nothing to compare. */
  | {
      readonly kind: 'rule';
      /** What the records are read from, and whether their ids may be of any type. */
      readonly rows: string;
      readonly mapped: boolean;
      readonly render: (alias: string, next: (value: unknown) => string) => string;
    }
  | { readonly kind: 'all' | 'any'; readonly of: readonly Test[] }
  | { readonly kind: 'not'; readonly of: Test };

export const never: Test = { kind: 'constant', holds: false };
export const always: Test = { kind: 'constant', holds: true };

export const not = (of: Test): Test =>
  of.kind === 'constant' ? { kind: 'constant', holds: !of.holds } : { kind: 'not', of };

/** One test for all arms that can be met at all. */
export function tupleTest(arms: readonly Arm[]): Test {
  const useful = arms.filter(
    (arm) =>
      (arm.except || arm.holds !== undefined || arm.ids.length > 0) &&
      (arm.unconditional ||
        arm.conditional.length > 0 ||
        (arm.failing ?? arm.satisfied) !== undefined),
  );
  return useful.length === 0 ? never : { kind: 'tuple', arms: merge(useful) };
}

export function anyOf(tests: readonly Test[]): Test {
  const parts = flatten('any', tests).filter((t) => t !== never);
  if (parts.some((t) => t.kind === 'constant' && t.holds)) return always;
  const arms = parts.flatMap((t) => (t.kind === 'tuple' ? t.arms : []));
  const rest = parts.filter((t) => t.kind !== 'tuple' && t.kind !== 'constant');
  const all = arms.length > 0 ? [...rest, tupleTest(arms)] : rest;
  return all.length === 1 && all[0] ? all[0] : all.length === 0 ? never : { kind: 'any', of: all };
}

export function allOf(tests: readonly Test[]): Test {
  const parts = flatten('all', tests);
  if (parts.some((t) => t.kind === 'constant' && !t.holds)) return never;
  const rest = parts.filter((t) => t.kind !== 'constant');
  return rest.length === 1 && rest[0]
    ? rest[0]
    : rest.length === 0
      ? always
      : { kind: 'all', of: rest };
}

/** Each test once: the same one comes in by every action that refers to it. */
const flatten = (kind: 'all' | 'any', tests: readonly Test[]): readonly Test[] => [
  ...new Set(tests.flatMap((t) => (t.kind === kind ? t.of : [t]))),
];

/** Arms that differ in their ids only, or in their relations only, are one lookup. */
function merge(arms: readonly Arm[]): readonly Arm[] {
  const isSimple = ({ conditional, failing, satisfied, except, holds, field }: Arm): boolean =>
    conditional.length === 0 &&
    (failing ?? satisfied) === undefined &&
    !except &&
    holds === undefined &&
    (field === undefined || field.typeColumn !== undefined);
  const simple = arms.filter(isSimple);
  const rest = arms.filter((arm) => !isSimple(arm));
  const byRelations = join(
    simple,
    ({ relations, subjectType, subjectRelation, field }) => [
      relations,
      subjectType,
      subjectRelation,
      field?.field,
    ],
    (a, b) => ({
      ...a,
      ids: unique([...a.ids, ...b.ids]),
    }),
  );
  const byIds = join(
    byRelations,
    ({ ids, subjectType, subjectRelation, field }) => [
      ids,
      subjectType,
      subjectRelation,
      field?.field,
    ],
    (a, b) => ({
      ...a,
      relations: unique([...a.relations, ...b.relations]),
    }),
  );
  // The first arm that fits ends the test. Whoever sees many rows sees them through others, hardly by a relation of their own.
  const ofItself = (arm: Arm): boolean => arm.relations.some((word) => word.includes(':'));
  const all = [...byIds, ...rest];
  return [...all.filter((arm) => !ofItself(arm)), ...all.filter(ofItself)];
}

const unique = (words: readonly string[]): readonly string[] => [...new Set(words)].sort();

function join(
  arms: readonly Arm[],
  alike: (arm: Arm) => unknown,
  both: (a: Arm, b: Arm) => Arm,
): readonly Arm[] {
  const joined = new Map<string, Arm>();
  for (const arm of arms) {
    const key = JSON.stringify(alike(arm));
    const known = joined.get(key);
    joined.set(key, known ? both(known, arm) : arm);
  }
  return [...joined.values()];
}

/** Where a test is rendered. */
export interface RowPlace {
  /** SQL of the row's id, a uuid; a text of an object that is no row of the statement (`far`). */
  readonly id: string;
  readonly far?: true;
  /** Where the tuples are, if it is not the table: there, tuples count beside what fields say. */
  readonly table?: string | undefined;
  /** The type of the rows. */
  readonly type: string;
  readonly next: (value: unknown) => string;
  /** What the row itself is called in the statement; without it its fields are looked up. */
  readonly alias?: string | undefined;
  /** Ids of all rows that are asked in this place (SQL, a list of texts): their tuples are looked up together, once. */
  readonly among?: string | undefined;
  /** Many rows are asked: what holds for none of them is found out once. */
  readonly many?: boolean;
  /** More ids than these are packed (packed-ids.ts). */
  readonly packedFrom?: number | undefined;
}

export function renderTest(test: Test, place: RowPlace): string {
  switch (test.kind) {
    case 'constant':
      return test.holds ? 'true' : 'false';
    case 'row':
      return `(${place.id})::text = ${place.next(test.id)}::text`;
    case 'not':
      // A field that is empty is no reason for anything: nothing is against the row.
      return `(${renderTest(test.of, place)}) is not true`;
    case 'rule':
      return place.far
        ? renderFar(test, place)
        : test.render(place.alias ?? tableOf(place.id), place.next);
    case 'any':
      return test.of.map((t) => `(${renderTest(t, place)})`).join(' or ');
    case 'all':
      return test.of.map((t) => `(${renderTest(t, place)})`).join(' and ');
    case 'tuple':
      return renderArms(test.arms, place);
  }
}

/** Of an object without a record a rule says nothing. */
function renderFar(
  { rows, mapped, render }: Extract<Test, { kind: 'rule' }>,
  { id, next }: RowPlace,
): string {
  const same = mapped ? `f."_id"::text = ${id}` : `f."_id" = ${uuidOf(id)}`;
  return `exists (select 1 from ${rows} f where ${same} and (${render('f', next)}) offset 0)`;
}

function renderArms(arms: readonly Arm[], place: RowPlace): string {
  const isStored = ({ field }: Arm): boolean =>
    field === undefined || (place.table !== undefined && field.typeColumn === undefined);
  const stored = arms.filter(isStored);
  const fields = arms.flatMap((arm) => (arm.field ? renderField(arm, arm.field, place) : []));
  // A field that is empty says nothing, and beside "nothing" PostgreSQL goes on to ask what is not worth asking: whether
  // a row is taken away that nothing has given. No index answers a field beside tuples, so nothing is lost.
  const tests = stored.length > 0 ? fields.map((field) => `(${field}) is true`) : fields;
  if (stored.length > 0) {
    const found = stored.map((arm) => renderArm(arm, place)).join(' union all ');
    // "is true" makes it a hash table that is filled once; the offset keeps the planner from turning lookups per row into
    // a join over all tuples.
    tests.push(
      place.among === undefined
        ? `exists (${found} offset 0)`
        : `(${place.id} in (${found})) is true`,
    );
  }
  return tests.length === 0 ? 'false' : tests.join(' or ');
}

/** What the field of the row must hold; null or false for a row that does not. */
function renderField(
  { ids, holds, except, subjectType, subjectRelation }: Arm,
  field: RecordField,
  place: RowPlace,
): string {
  if (subjectRelation !== '' || (field.typeColumn === undefined && subjectType !== field.type))
    return 'false';
  const listed = rowIds(ids);
  if (!except && !holds && listed.length === 0) return 'false';
  const test = (row: string): string => {
    const value = `${row}.${identifier(field.field)}`;
    return (
      typeTest(row, field, subjectType) +
      fieldTest(value, field, { ids: listed, holds, except }, place)
    );
  };
  if (place.alias !== undefined) return `(${test(place.alias)})`;
  const id = place.far ? uuidOf(place.id) : place.id;
  return `exists (select 1 from ${tableName(place.type)} f where f."_id" = ${id} and (${test('f')}) offset 0)`;
}

/** `... and `, where the type of what a field names is said by the row. */
function typeTest(row: string, { type, typeColumn }: RecordField, requested: string): string {
  if (typeColumn === undefined) return '';
  const said = `${row}.${identifier(typeColumn)}`;
  return requested === type ? `${said} is null and ` : `${said} = ${literal(requested)} and `;
}

interface FieldValues extends Pick<Arm, 'ids' | 'except'> {
  readonly holds: Arm['holds'] | undefined;
}

function fieldTest(
  value: string,
  { many, typeColumn }: RecordField,
  { ids, holds, except }: FieldValues,
  { next, packedFrom = Number.POSITIVE_INFINITY }: Pick<RowPlace, 'next' | 'packedFrom'>,
): string {
  const array = (): string => `(select ${next(listValue(ids, 'uuid'))}::uuid[])`;
  if (many && !except && !holds) return `${value} && ${array()}`;
  const isListed = (id: string): string => {
    // An empty field names nothing, also where whatever it could name counts.
    if (holds) return `(${id} is not null and (${holds(`(${id})::text`, next)}))`;
    if (ids.length > packedFrom) return `(${packedUuidTest(ids, id, next)})`;
    return ids.length <= FEW_IDS
      ? `${id} = any(${array()}::uuid[])`
      : `(${id} in (select h.id from unnest(${array()}) h(id)))`;
  };
  // Of a column beside tuples the index is of use, which a test of a test cannot find.
  const counts = (id: string): string => {
    if (except) return `${id} is not null and ${isListed(id)} is not true`;
    return typeColumn === undefined ? `${isListed(id)} is true` : isListed(id);
  };
  return many
    ? `exists (select 1 from unnest(${value}) v(id) where ${counts('v.id')})`
    : counts(value);
}
const tableOf = (id: string): string => id.replace(/\.?"_id"$/, '');

/** Names of the model hold letters, digits and underscores only, grants one colon. */
export const literal = (word: string): string => `'${word.replaceAll("'", "''")}'`;

function renderArm(arm: Arm, place: RowPlace): string {
  const { id, type, next, among, packedFrom, table = 'penstock.tuples' } = place;
  const [first = '', ...more] = arm.relations.map(literal);
  const relation =
    more.length === 0 ? `t.relation = ${first}` : `t.relation in (${[first, ...more].join(', ')})`;
  const [answer, ids] =
    among === undefined ? ['1', `(${id})::text`] : ['t.resource_uuid', `any((${among})::text[])`];
  const isRare = place.many && !arm.except && !arm.holds && arm.ids.length <= FEW_IDS;
  const any = isRare ? `${anyTuple(arm, { type, relation, next })} and ` : '';
  return (
    `select ${answer} from ${table} t where ${any}t.resource_type = ${literal(type)} and t.resource_id = ${ids}` +
    ` and ${relation} and t.subject_type = ${literal(arm.subjectType)} and t.subject_relation = ${literal(arm.subjectRelation)}` +
    `${subjectText(arm, next, packedFrom)} and ${liveTuple('t')}${conditionText(arm, next)}`
  );
}

/** Whether the subjects of an arm have any tuple of this kind about any row: mostly they have none. */
const anyTuple = (
  { ids, subjectType, subjectRelation }: Arm,
  { type, relation, next }: Pick<RowPlace, 'type' | 'next'> & { readonly relation: string },
): string =>
  `(select exists (select 1 from penstock.tuples t where t.subject_type = ${literal(subjectType)} and t.subject_id = any((select ${next(listValue(ids, 'text'))}::text[])::text[]) and t.subject_relation = ${literal(subjectRelation)} and t.resource_type = ${literal(type)} and ${relation}))`;

/** Up to this many ids are looked up one by one; more are put into a hash table once. */
const FEW_IDS = 8;

/** The array stands in a sub-select so that its length does not decide whether the plan can be kept (tuple-loading.ts). */
function subjectText(
  { ids, except, holds }: Arm,
  next: RowPlace['next'],
  packedFrom = Number.POSITIVE_INFINITY,
): string {
  if (holds)
    return ` and t.subject_id <> '*' and ${except ? 'not ' : ''}${holds('t.subject_id', next)}`;
  if (except && ids.length === 0) return ` and t.subject_id <> '*'`;
  if (!except && ids.length > packedFrom) return ` and (${packedTest(ids, 't.subject_id', next)})`;
  const array = `(select ${next(listValue(ids, 'text'))}::text[])`;
  if (!except && ids.length <= FEW_IDS) return ` and t.subject_id = any(${array}::text[])`;
  // "is true" keeps the planner from making a join of it, which would be run for each row.
  const listed = `(t.subject_id in (select h.id from unnest(${array}) h(id)))`;
  return except ? ` and t.subject_id <> '*' and ${listed} is not true` : ` and ${listed} is true`;
}
