/** What a row's own tuples must say for a subject to act on it: the goal with everything that it hangs on beyond the row put in. */
import { allRows } from '../../../../data/records/sql/row-id.ts';
import { isPublic, namesOfObject } from '../../model/expansion-rules.ts';
import type { Expression, RecordRule } from '../../model/expression.ts';
import { formsOf, isEverybody, type SubjectRef } from '../../model/grammar.ts';
import {
  arrowSets,
  grantRelation,
  keyOf,
  leadingSubjects,
  type Model,
  type Name,
} from '../../model/model.ts';
import { allows } from '../../model/tuple.ts';
import type { EvaluationContext } from '../ask.ts';
import { type Bounds, meansSet } from '../graph.ts';
import type { Principal } from '../principals.ts';
import { type CallerFacts, recordRule, ruleInputs } from '../record-rules.ts';
import type { ConditionalTuples, ConditionValues } from './conditional-tuples.ts';
import type { ConditionTest, CountedConditions } from './counted-conditions.ts';
import {
  type Arm,
  allOf,
  always,
  anyOf,
  literal,
  never,
  not,
  type Test,
  tupleTest,
} from './predicate-tree.ts';

/** Principals as tuples may name them: as objects, and as the sets that their names mean. */
export const setsOf = (model: Model, principals: readonly Principal[]): readonly SubjectRef[] =>
  principals.flatMap(({ type, id, name }) => {
    const definition = model.get(type);
    const words = [...(definition?.relations.keys() ?? []), ...(definition?.actions.keys() ?? [])];
    const led = arrowSets(model);
    const meant = words.filter(
      (word) =>
        led.has(`${type}#${word}`) ||
        name === keyOf(model.member(type, word) ?? { type, kind: 'action', name: '' }),
    );
    return ['', ...meant].map((relation) => ({ type, id, relation }));
  });

/** What the rows hang on beyond themselves, for and against; what everybody has needs no search. */
export function originsBelow(model: Model, goal: Name): readonly Name[] {
  return model.derived(`origins ${keyOf(goal)}`, () => {
    const all = namesOfObject(model, goal, true).flatMap((inner) =>
      model.dependencies(inner).flatMap((d) => (d.through === undefined ? [] : [d.on])),
    );
    return [...new Map(all.map((name) => [keyOf(name), name])).values()].filter(
      (name) => !isPublic(model, name),
    );
  });
}

export type Next = (value: unknown) => string;

export interface Builder {
  readonly model: Model;
  readonly subject: SubjectRef;
  readonly principals: ReadonlyMap<string, readonly Principal[]>;
  readonly conditional: ConditionalTuples;
  /** Set where the principals are too many to be named: what the subject has is then asked of each object in the database. */
  readonly holds?: (name: Name, polarity: Polarity) => (id: string, next: Next) => string;
  /** Names (`keyOf`) whose principals are there all the same. */
  readonly named?: ReadonlySet<string>;
  /** Instead of `conditional`. */
  readonly conditions?: ConditionValues;
  /** Names (`keyOf`) that nobody has on other objects. */
  readonly without?: ReadonlySet<string>;
  /** Tests of the actions that were met, by name and polarity: many actions may refer to one. */
  readonly known: Map<string, Test>;
  /** ISO 8601; what rules mean by it. */
  readonly now: string;
  /** Roles and teams of the subject, where rules ask for them. */
  readonly facts: CallerFacts | undefined;
  /** Values of the request; none unless given. */
  readonly context?: EvaluationContext['context'];
  readonly unnamed?: EvaluationContext['unnamed'] | undefined;
  /** Where the tuples of objects are, if it is not the table (asked-tuples.ts). */
  readonly table?: string | undefined;
}

/** For what counts, the lower bound; for what counts against it, the upper one. */
export type Polarity = keyof Bounds;
export const opposite = (polarity: Polarity): Polarity =>
  polarity === 'sure' ? 'possible' : 'sure';

export function nameTest(builder: Builder, name: Name, polarity: Polarity): Test {
  const key = `${polarity} ${keyOf(name)}`;
  const test = builder.known.get(key) ?? makeNameTest(builder, name, polarity);
  builder.known.set(key, test);
  return test;
}

function makeNameTest(builder: Builder, name: Name, polarity: Polarity): Test {
  const { model } = builder;
  const own = ownTest(builder, name);
  if (name.kind === 'relation') return anyOf([own, relationTest(builder, name, polarity)]);
  const expression = model.expression(name);
  return anyOf([
    own,
    grantTest(builder, name),
    expression ? expressionTest(builder, { type: name.type, expression }, polarity) : never,
  ]);
}

/** The subject is a set of the row, and has the name because of what it is. */
export const ownTest = ({ model, subject }: Builder, name: Name): Test =>
  subject.type === name.type && meansSet(model, subject, name)
    ? { kind: 'row', id: subject.id }
    : never;

const grantTest = (builder: Builder, name: Name): Test => tupleTest(grantArms(builder, name));

/** What gives an action whatever its definition takes away again. */
export const givenTest = (builder: Builder, name: Name): Test =>
  anyOf([ownTest(builder, name), grantTest(builder, name)]);

interface Part<E extends Expression = Expression> {
  readonly type: string;
  readonly expression: E;
}

export function expressionTest(
  builder: Builder,
  { type, expression }: Part,
  polarity: Polarity,
): Test {
  const test = (part: Expression, as = polarity): Test =>
    expressionTest(builder, { type, expression: part }, as);
  switch (expression.kind) {
    case 'none':
      return never;
    case 'everyone':
      return always;
    case 'rule':
      return ruleTest(builder, { type, expression }, polarity);
    case 'relation':
      return nameTest(builder, { type, kind: 'relation', name: expression.relation }, polarity);
    case 'action':
      return nameTest(builder, { type, kind: 'action', name: expression.action }, polarity);
    case 'arrow':
      return arrowTest(builder, { type, expression }, polarity);
    case 'union':
      return anyOf(expression.of.map((part) => test(part)));
    case 'intersection':
      return allOf(expression.of.map((part) => test(part)));
    case 'exclusion':
      return allOf([test(expression.base), not(test(expression.subtract, opposite(polarity)))]);
  }
}

/** Parameters come with a request, and rows are sought without one: what hangs on them is possible, not sure. */
function ruleTest(
  { model, subject, now, facts, context = {}, unnamed }: Builder,
  { type, expression }: Part<RecordRule>,
  polarity: Polarity,
): Test {
  const record = recordRule(model, type, expression);
  if (!record) return never;
  const inputs = ruleInputs(expression, { subject, context, now, facts, unnamed });
  return {
    kind: 'rule',
    rows: allRows(record.schema),
    mapped: record.schema.mapping !== undefined,
    render(alias, next) {
      const { sql, missing } = record.rule.predicate(inputs, { alias, next });
      return polarity === 'possible' && missing.length > 0 ? `${sql} is not false` : sql;
    },
  };
}

function grantArms({ subject }: Builder, name: Name): readonly Arm[] {
  if (subject.relation !== '' || isEverybody(subject)) return [];
  const ids = formsOf(subject)
    .filter((form) => form.type === subject.type)
    .map((form) => form.id)
    .sort();
  return [
    {
      relations: [grantRelation(name.name)],
      subjectType: subject.type,
      subjectRelation: '',
      ids,
      except: false,
      unconditional: true,
      conditional: [],
    },
  ];
}

function relationTest(builder: Builder, { type, name: relation }: Name, polarity: Polarity): Test {
  const { model, subject } = builder;
  const direct = formsOf(subject).flatMap((form) =>
    armsFor(builder, { type, relation, polarity, as: form }, { ids: [form.id] }),
  );
  const allowed = model.get(type)?.relations.get(relation) ?? [];
  const sets = [
    ...new Map(
      allowed.filter((a) => a.relation !== '').map((a) => [`${a.type}#${a.relation}`, a]),
    ).values(),
  ];
  const members = sets.flatMap(({ type: setType, relation: setRelation }) => {
    const meant = model.member(setType, setRelation);
    if (!meant) return [];
    const as = { type: setType, id: '', relation: setRelation };
    return armsFor(builder, { type, relation, polarity, as }, holdersOf(builder, meant, polarity));
  });
  return tupleTest([...members, ...direct]);
}

type Holders = Pick<Arm, 'ids' | 'holds'> & { readonly except?: boolean };

/** Objects on which the subject has a name. */
function holdersOf(
  { model, principals, holds, named, without }: Builder,
  name: Name,
  polarity: Polarity,
): Holders {
  if (isPublic(model, name)) return { ids: [], except: true };
  if (without?.has(keyOf(name))) return { ids: [] };
  if (holds && !named?.has(keyOf(name))) return { ids: [], holds: holds(name, polarity) };
  return {
    ids: (principals.get(keyOf(name)) ?? []).filter((p) => p.bounds[polarity]).map((p) => p.id),
  };
}

export interface ArmPlace {
  readonly type: string;
  readonly relation: string;
  readonly polarity: Polarity;
  /** Which form of subject the arm is about. */
  readonly as: SubjectRef;
}

/** What stored tuples must say, or a field instead of them, or columns beside them. */
function armsFor(
  builder: Builder,
  { type, relation, polarity, as }: ArmPlace,
  { ids, except = false, holds }: Holders,
): readonly Arm[] {
  const { model } = builder;
  const arm: Arm = {
    relations: [relation],
    subjectType: as.type,
    subjectRelation: as.relation,
    ids,
    ...(holds && { holds }),
    except,
    field: model.fieldOf(type, relation),
    ...conditionsFor(builder, { type, relation, polarity, as }),
  };
  const column = model.columnOf(type, relation);
  if (!column || as.relation !== '') return [arm];
  return [
    arm,
    { ...arm, field: column, conditional: [], failing: undefined, satisfied: undefined },
  ];
}

/** Which tuples of a relation count by what conditions they have. */
export function conditionsFor(
  { model, conditional, conditions }: Builder,
  { type, relation, polarity, as }: ArmPlace,
): CountedConditions {
  const entries = (model.get(type)?.relations.get(relation) ?? []).filter((allowed) =>
    allows(allowed, as),
  );
  const names = entries.flatMap((entry) =>
    entry.condition === undefined ? [] : [entry.condition],
  );
  const unconditional = names.length < entries.length;
  if (names.length === 0) return { unconditional, conditional: [] };
  if (!conditions && polarity === 'sure')
    return { unconditional, conditional: conditional.holding(relation) };
  if (!conditions)
    return { unconditional, conditional: [], failing: conditional.failing(relation) };
  return {
    unconditional,
    conditional: [],
    satisfied: satisfiedText(conditions, { type, names: [...new Set(names)].sort(), polarity }),
  };
}

/** What counts against somebody holds unless it is known to fail: also what was written since it was looked up. */
function satisfiedText(
  conditions: ConditionValues,
  { type, names, polarity }: { type: string; names: readonly string[]; polarity: Polarity },
): ConditionTest {
  const pairs = conditions.of(type, polarity === 'sure' ? 'holding' : 'failing');
  return (next) => {
    const known = `(select c.condition, c.attributes from unnest((select ${next(pairs.conditions)}::text[]), (select ${next(pairs.attributes)}::text[])) c(condition, attributes))`;
    const among = `((t.condition, coalesce(t.attributes::text, '')) in ${known})`;
    return `t.condition in (${names.map(literal).join(', ')}) and ${among} ${polarity === 'sure' ? 'is true' : 'is not true'}`;
  };
}

type Arrow = Extract<Expression, { kind: 'arrow' }>;

function arrowTest(
  builder: Builder,
  { type, expression: arrow }: Part<Arrow>,
  polarity: Polarity,
): Test {
  const { model } = builder;
  const subjects = model.get(type)?.relations.get(arrow.relation) ?? [];
  const leading = leadingSubjects(subjects, model.types());
  const place = ({ type: subjectType, via }: Leading, as: Polarity): ArmPlace => ({
    type,
    relation: arrow.relation,
    polarity: as,
    as: { type: subjectType, id: '', relation: via },
  });
  const holders = ({ type: subjectType }: Leading) => {
    const target = model.action(subjectType, arrow.target);
    return target ? holdersOf(builder, target, polarity) : { ids: [] };
  };
  if (!arrow.all)
    return tupleTest(
      leading.flatMap((one) => armsFor(builder, place(one, polarity), holders(one))),
    );
  // Where nobody knows which tuples count, one that counts must have it: of those that do, the others tell.
  const isOpen = polarity === 'possible' && subjects.some((one) => one.condition !== undefined);
  const some = tupleTest(
    leading.flatMap((one) =>
      armsFor(builder, place(one, polarity), isOpen ? holders(one) : { ids: [], except: true }),
    ),
  );
  const outside = leading
    .map((one) => ({ one, held: holders(one) }))
    .filter(({ held }) => !('except' in held) || !held.except);
  const others = tupleTest(
    outside.flatMap(({ one, held }) =>
      armsFor(builder, place(one, opposite(polarity)), { ...held, except: true }),
    ),
  );
  return allOf([some, not(others)]);
}

/** Objects that an arrow looks at. */
type Leading = ReturnType<typeof leadingSubjects>[number];
