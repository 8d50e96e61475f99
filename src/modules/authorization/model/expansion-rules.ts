/**
 * The rules of the way up: from a subject to everything it may act on. They
 * are the dependencies of a model read backwards. Where actions are unions they
 * are exact; where they exclude, intersect or depend on conditions they give
 * candidates, which are then evaluated one by one.
 */
import { childrenOf, type Expression } from './expression.ts';
import {
  type Dependency,
  grantRelation,
  keyOf,
  type Model,
  type Name,
  reachable,
} from './model.ts';

/** A tuple of this relation in which the subject itself stands gives `name` on the resource. */
export interface DirectRule {
  readonly type: string;
  readonly relation: string;
  readonly name: string;
  /** `name` is exact: tuples with a condition do not fit the model and count for nothing. */
  readonly exact: boolean;
}

/** Whoever has `fromName` on an object has `name` on resources in which that object stands in `relation`. */
export interface StepRule extends DirectRule {
  readonly fromType: string;
  readonly fromName: string;
  /** Relation of the subject set; empty for plain objects of an arrow. */
  readonly setRelation: string;
}

interface Rules {
  readonly direct: readonly DirectRule[];
  readonly steps: readonly StepRule[];
}

/** `name` fields are keys (`keyOf`). */
export interface ExpansionRules extends Rules {
  /** The names on the way, goals included, by key. */
  readonly names: ReadonlyMap<string, Name>;
  /** Those that a subject may have without any tuple: every object is a candidate. */
  readonly open: readonly Name[];
}

/** Rules that lead to the names in `goals`, through everything that hangs on another object. */
export function expansionTo(model: Model, goals: readonly Name[]): ExpansionRules {
  return model.derived(`expansion ${goals.map(keyOf).join(' ')}`, () => {
    const names = new Map(goals.map((g) => [keyOf(g), g]));
    for (const name of names.values()) {
      for (const { on } of outward(model, name)) names.set(keyOf(on), on);
    }
    const rules = [...names.values()].map((name) => rulesTo(model, name));
    return {
      names,
      direct: rules.flatMap((r) => r.direct),
      steps: rules.flatMap((r) => r.steps),
      open: [...names.values()].filter((name) => mayBeOpen(model, name)),
    };
  });
}

/** The last step of the way: rules that give `goal` itself. */
export function rulesTo(model: Model, goal: Name): Rules {
  return model.derived(`rules ${keyOf(goal)}`, () => {
    const common = { name: keyOf(goal), exact: isExact(model, goal) };
    const direct = namesOfObject(model, goal).map((inner) => ({
      ...common,
      type: inner.type,
      relation: inner.kind === 'relation' ? inner.name : grantRelation(inner.name),
    }));
    const steps = outward(model, goal).flatMap(({ inner, on, through, set, via }) =>
      (set ? setNames(model, inner, { on, through }) : [via]).map((setRelation) => ({
        ...common,
        type: inner.type,
        relation: through,
        fromType: on.type,
        fromName: keyOf(on),
        setRelation,
      })),
    );
    return { direct: uniqueRows(direct), steps: uniqueRows(steps) };
  });
}

/** Names of other objects that the steps of these rules start from. */
export function originsOf(model: Model, goal: Name): readonly Name[] {
  return [...new Map(outward(model, goal).map(({ on }) => [keyOf(on), on])).values()];
}

/** The name and every name of the same object that counts towards it; `against` takes in those that count against it. */
export function namesOfObject(model: Model, start: Name, against = false): readonly Name[] {
  const found = new Map([[keyOf(start), start]]);
  for (const name of found.values()) {
    for (const { on, through, negative } of model.dependencies(name)) {
      if (through === undefined && (against || !negative)) found.set(keyOf(on), on);
    }
  }
  return [...found.values()];
}

interface Outward {
  readonly inner: Name;
  readonly on: Name;
  readonly through: string;
  readonly set: boolean;
  readonly via: string;
}

/** What counts towards a name from other objects. */
function outward(model: Model, start: Name): readonly Outward[] {
  return namesOfObject(model, start).flatMap((inner) =>
    model
      .dependencies(inner)
      .flatMap(({ on, through, negative, set, via }) =>
        through === undefined || negative ? [] : [{ inner, on, through, set, via }],
      ),
  );
}

/** The relation texts under which subject sets that mean `on` may be written in the relation. */
function setNames(
  model: Model,
  inner: Name,
  { on, through }: Pick<Dependency, 'on' | 'through'>,
): readonly string[] {
  const allowed = model.get(inner.type)?.relations.get(through ?? '') ?? [];
  const names = allowed.filter(({ type, relation }) => {
    const meant = relation === '' ? undefined : model.member(type, relation);
    return meant !== undefined && keyOf(meant) === keyOf(on);
  });
  return [...new Set(names.map((a) => a.relation))];
}

const uniqueRows = <T extends object>(rows: readonly T[]): readonly T[] => [
  ...new Map(rows.map((row) => [JSON.stringify(row), row])).values(),
];

/** True when following the rules to a name gives exactly the truth: it rests on nothing but alternatives. */
export function isExact(model: Model, name: Name): boolean {
  return model.derived(`exact ${keyOf(name)}`, () =>
    [name, ...reachable(name, model.dependencies).edges.map((edge) => edge.on)].every((n) =>
      isUnion(model, n),
    ),
  );
}

/**
 * What an action takes away from what following the rules to it gives exactly: its definition is one exclusion, of
 * alternatives from alternatives.
 */
export function takenAway(model: Model, goal: Name): Name | undefined {
  const expression = model.expression(goal);
  if (expression?.kind !== 'exclusion') return undefined;
  const { base, subtract } = expression;
  const isGiven =
    isPlainUnion(model, goal.type, base) &&
    model.dependencies(goal).every(({ negative, on }) => negative || isExact(model, on));
  if (!isGiven) return undefined;
  const taken: Name | undefined =
    subtract.kind === 'relation'
      ? { type: goal.type, kind: 'relation', name: subtract.relation }
      : subtract.kind === 'action'
        ? { type: goal.type, kind: 'action', name: subtract.action }
        : undefined;
  return taken && isExact(model, taken) && !mayBeOpen(model, taken) ? taken : undefined;
}

/** True when the name is nothing but alternatives: no exclusion, intersection, "every", or condition. */
function isUnion(model: Model, name: Name): boolean {
  const expression = model.expression(name);
  return expression
    ? isPlainUnion(model, name.type, expression)
    : isUnconditional(model, name.type, name.name);
}

function isPlainUnion(model: Model, type: string, expression: Expression): boolean {
  const inexact: readonly Expression['kind'][] = ['intersection', 'exclusion', 'rule'];
  if (inexact.includes(expression.kind)) return false;
  if (expression.kind === 'arrow')
    return !expression.all && isUnconditional(model, type, expression.relation);
  return childrenOf(expression).every((child) => isPlainUnion(model, type, child));
}

const isUnconditional = (model: Model, type: string, relation: string): boolean =>
  (model.get(type)?.relations.get(relation) ?? []).every(
    (allowed) => allowed.condition === undefined,
  );

/** True when the name may be had without any tuple, as by `*`. For an exact name: it is had by everybody. */
export const mayBeOpen = (model: Model, name: Name): boolean => isOpenName(model, name, 'rules');

/** True when it may be had without any tuple, whatever the record says. */
export const mayBeEverybodys = (model: Model, name: Name): boolean =>
  isOpenName(model, name, 'everyone');

/** What opens a name: `*` alone, or rules about records as well. */
type Opening = 'everyone' | 'rules';

function isOpenName(model: Model, name: Name, opening: Opening): boolean {
  const expression = model.expression(name);
  // Remembered: actions may refer to one another in more ways than anybody could follow.
  return (
    expression !== undefined &&
    model.derived(`open by ${opening} ${keyOf(name)}`, () =>
      isOpen(model, { type: name.type, opening }, expression),
    )
  );
}

interface OpenPart {
  readonly type: string;
  readonly opening: Opening;
}

function isOpen(model: Model, part: OpenPart, expression: Expression): boolean {
  const { type, opening } = part;
  switch (expression.kind) {
    case 'everyone':
      return true;
    case 'rule':
      return opening === 'rules';
    case 'action':
      return isOpenName(model, { type, kind: 'action', name: expression.action }, opening);
    case 'union':
      return expression.of.some((e) => isOpen(model, part, e));
    case 'intersection':
      return expression.of.every((e) => isOpen(model, part, e));
    case 'exclusion':
      return isOpen(model, part, expression.base);
    default:
      return false;
  }
}

/* Names that need no tuple. */

/** True when everybody has the name on every object. */
export const isPublic = (model: Model, name: Name): boolean =>
  mayBeOpen(model, name) && isExact(model, name);

/** True when somebody without an account may have the name on some object: by the subject `*`, or because all have it. */
export const admitsVisitors = (model: Model, name: Name): boolean =>
  model.derived(`visitors ${keyOf(name)}`, () =>
    [name, ...reachable(name, model.dependencies).edges.map(({ on }) => on)].some(
      (one) =>
        mayBeOpen(model, one) ||
        (model.get(one.type)?.relations.get(one.name) ?? []).some(
          (allowed) => one.kind === 'relation' && allowed.type === '*' && allowed.relation === '',
        ),
    ),
  );

/**
 * True when whoever has an action has another: what gives this one, gives that one too, or on an object that stands in the
 * same relation. What was ever granted directly gives nothing else than what the definitions make of it.
 */
export const isIncluded = (model: Model, type: string, held: string, given: string): boolean =>
  model.derived(
    `${type} ${given} includes ${held}`,
    () =>
      // What is given by nothing else is granted directly.
      alternativesOf(model, type, { kind: 'action', action: held }).expressions.some(
        ({ kind }) => kind !== 'none',
      ) && includes(model, { type, held, given }, new Set()),
  );

interface Inclusion {
  readonly type: string;
  readonly held: string;
  readonly given: string;
}

/** `asked`: what leads back to itself says nothing. */
function includes(model: Model, asked: Inclusion, above: ReadonlySet<string>): boolean {
  const { type, held, given } = asked;
  if (held === given) return true;
  const key = `${type} ${held} ${given}`;
  if (above.has(key)) return false;
  const within = new Set([...above, key]);
  if (isGrantedWithout(model, asked)) return false;
  const gives = alternativesOf(model, type, { kind: 'action', action: given }).expressions;
  const isGiven = (one: Expression): boolean =>
    one.kind === 'none' ||
    gives.some((other) => {
      if (other.kind === 'everyone') return true;
      if (other.kind === 'relation')
        return one.kind === 'relation' && one.relation === other.relation;
      if (other.kind !== 'arrow' || one.kind !== 'arrow') return false;
      const isSame = one.relation === other.relation && one.all === other.all;
      return isSame && leadsToBoth(model, type, { one, other, within });
    });
  return alternativesOf(model, type, { kind: 'action', action: held }).expressions.every(isGiven);
}

/** Whether an action was granted directly that makes the one and not the other. */
function isGrantedWithout(model: Model, { type, held, given }: Inclusion): boolean {
  const granted = model.get(type)?.granted;
  if (!granted || granted.size === 0) return false;
  const makes = alternativesOf(model, type, { kind: 'action', action: held }).actions;
  const others = alternativesOf(model, type, { kind: 'action', action: given }).actions;
  return [...makes].some((action) => granted.has(action) && !others.has(action));
}

type Arrow = Extract<Expression, { kind: 'arrow' }>;

interface TwoArrows {
  readonly one: Arrow;
  readonly other: Arrow;
  readonly within: ReadonlySet<string>;
}

/** Whether on each object to which both lead whoever has the target of one has that of the other. */
const leadsToBoth = (model: Model, type: string, { one, other, within }: TwoArrows): boolean =>
  (model.get(type)?.relations.get(one.relation) ?? []).every((allowed) => {
    if (one.target === other.target) return true;
    const target = model.get(allowed.type);
    if (!target || target.relations.has(one.target)) return false;
    const through = { type: allowed.type, held: one.target, given: other.target };
    return !target.actions.has(one.target) || includes(model, through, within);
  });

interface Alternatives {
  readonly expressions: readonly Expression[];
  /** The actions whose expressions these are: each of them, granted directly, gives it too. */
  readonly actions: ReadonlySet<string>;
}

/** What gives an expression by itself, with what other actions of the type give in their place. */
function alternativesOf(model: Model, type: string, of: Expression): Alternatives {
  const found = new Set<Expression>();
  const names = new Set<string>();
  const take = (expression: Expression): void => {
    if (expression.kind === 'union') for (const one of expression.of) take(one);
    else if (expression.kind !== 'action') found.add(expression);
    else if (!names.has(expression.action)) {
      names.add(expression.action);
      take(model.expression({ type, kind: 'action', name: expression.action }) ?? { kind: 'none' });
    }
  };
  take(of);
  return { expressions: [...found], actions: names };
}
