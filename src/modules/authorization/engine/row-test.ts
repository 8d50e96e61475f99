/** Conditions on a row, as a tree that is rendered to SQL. Words of the model become text, everything else a parameter. */
import { liveTuple } from './tuple-row.ts';

/** Which subjects a tuple of the row must have. */
export interface Arm {
  readonly relations: readonly string[];
  readonly subjectType: string;
  /** Relation of the subject set; empty for objects and wildcards. */
  readonly subjectRelation: string;
  readonly ids: readonly string[];
  /** The ids are those that do not count; `*` never does. */
  readonly except: boolean;
  /** Tuples without a condition count. */
  readonly unconditional: boolean;
  /** Tuples with a condition that count, by the id of the tuple. */
  readonly conditional: readonly string[];
}

export type Test =
  | { readonly kind: 'constant'; readonly holds: boolean }
  /** The row has this id. */
  | { readonly kind: 'row'; readonly id: string }
  /** The row has a tuple that one of the arms describes. */
  | { readonly kind: 'tuple'; readonly arms: readonly Arm[] }
  | { readonly kind: 'all' | 'any'; readonly of: readonly Test[] }
  | { readonly kind: 'not'; readonly of: Test };

export const never: Test = { kind: 'constant', holds: false };
export const always: Test = { kind: 'constant', holds: true };

export const not = (of: Test): Test => (of.kind === 'constant' ? { kind: 'constant', holds: !of.holds } : { kind: 'not', of });

/** One test for all arms that can be met at all. */
export function tupleTest(arms: readonly Arm[]): Test {
  const useful = arms.filter((arm) => (arm.except || arm.ids.length > 0) && (arm.unconditional || arm.conditional.length > 0));
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
  return rest.length === 1 && rest[0] ? rest[0] : rest.length === 0 ? always : { kind: 'all', of: rest };
}

/** Each test once: the same one comes in by every action that refers to it. */
const flatten = (kind: 'all' | 'any', tests: readonly Test[]): readonly Test[] => [
  ...new Set(tests.flatMap((t) => (t.kind === kind ? t.of : [t]))),
];

/** Arms that differ in their ids only, or in their relations only, are one lookup. */
function merge(arms: readonly Arm[]): readonly Arm[] {
  const simple = arms.filter((arm) => arm.conditional.length === 0 && !arm.except);
  const rest = arms.filter((arm) => arm.conditional.length > 0 || arm.except);
  const byRelations = join(
    simple,
    ({ relations, subjectType, subjectRelation }) => [relations, subjectType, subjectRelation],
    (a, b) => ({
      ...a,
      ids: unique([...a.ids, ...b.ids]),
    }),
  );
  const byIds = join(
    byRelations,
    ({ ids, subjectType, subjectRelation }) => [ids, subjectType, subjectRelation],
    (a, b) => ({
      ...a,
      relations: unique([...a.relations, ...b.relations]),
    }),
  );
  return [...byIds, ...rest];
}

const unique = (words: readonly string[]): readonly string[] => [...new Set(words)].sort();

function join(arms: readonly Arm[], alike: (arm: Arm) => unknown, both: (a: Arm, b: Arm) => Arm): readonly Arm[] {
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
  /** SQL of the row's id, a uuid. */
  readonly id: string;
  /** The type of the rows. */
  readonly type: string;
  readonly next: (value: unknown) => string;
}

export function renderTest(test: Test, place: RowPlace): string {
  switch (test.kind) {
    case 'constant':
      return test.holds ? 'true' : 'false';
    case 'row':
      return `(${place.id})::text = ${place.next(test.id)}::text`;
    case 'not':
      return `not (${renderTest(test.of, place)})`;
    case 'any':
      return test.of.map((t) => `(${renderTest(t, place)})`).join(' or ');
    case 'all':
      return test.of.map((t) => `(${renderTest(t, place)})`).join(' and ');
    case 'tuple':
      // The offset keeps the planner from turning lookups per row into a join over all tuples.
      return `exists (${test.arms.map((arm) => renderArm(arm, place)).join(' union all ')} offset 0)`;
  }
}

/** Names of the model hold letters, digits and underscores only, grants one colon. */
const literal = (word: string): string => `'${word.replaceAll("'", "''")}'`;

function renderArm(arm: Arm, { id, type, next }: RowPlace): string {
  const [first = '', ...more] = arm.relations.map(literal);
  const relation = more.length === 0 ? `t.relation = ${first}` : `t.relation in (${[first, ...more].join(', ')})`;
  return (
    `select 1 from penstock.tuples t where t.resource_type = ${literal(type)} and t.resource_id = (${id})::text` +
    ` and ${relation} and t.subject_type = ${literal(arm.subjectType)} and t.subject_relation = ${literal(arm.subjectRelation)}` +
    `${subjectText(arm, next)} and ${liveTuple('t')}${conditionText(arm, next)}`
  );
}

/** Up to this many ids are looked up one by one; more are put into a hash table once. */
const FEW_IDS = 8;

/** The array stands in a sub-select so that its length does not decide whether the plan can be kept (load.ts). */
function subjectText({ ids, except }: Arm, next: RowPlace['next']): string {
  if (except && ids.length === 0) return ` and t.subject_id <> '*'`;
  const array = `(select ${next(ids)}::text[])`;
  if (!except && ids.length <= FEW_IDS) return ` and t.subject_id = any(${array}::text[])`;
  // "is true" keeps the planner from making a join of it, which would be run for each row.
  const listed = `(t.subject_id in (select h.id from unnest(${array}) h(id)))`;
  return except ? ` and t.subject_id <> '*' and ${listed} is not true` : ` and ${listed} is true`;
}

function conditionText({ unconditional, conditional }: Arm, next: (value: unknown) => string): string {
  if (conditional.length === 0) return ' and t.condition is null';
  const satisfied = `t.id = any(${next(conditional)}::uuid[])`;
  return unconditional ? ` and (t.condition is null or ${satisfied})` : ` and ${satisfied}`;
}
