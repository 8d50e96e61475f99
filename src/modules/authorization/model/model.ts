/**
 * All definitions of one revision, with what follows from them: which names an
 * action depends on across types, which tuples a question can touch, and in
 * which order exclusions must be resolved.
 */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Condition } from './condition.ts';
import type { AllowedSubject, Definition, RecordField } from './definition.ts';
import type { Expression } from './expression.ts';

/** A relation or an action of a type: what a question or an arrow is about. */
export interface Name {
  readonly type: string;
  readonly kind: 'relation' | 'action';
  readonly name: string;
}

/** A name that another name is made of. */
export interface Dependency {
  readonly on: Name;
  /** It counts against: the right side of an exclusion. */
  readonly negative: boolean;
  /** The relation that leads to another object, if it is about another object. */
  readonly through: string | undefined;
  /** Reached through a subject set in `through`, not through an arrow. */
  readonly set: boolean;
  /** For arrows: the relation of the sets whose objects it looks at; empty for plain objects. */
  readonly via: string;
}

/** Relation name under which a direct grant of an action is stored. Not a valid name, so it clashes with none. */
export const grantRelation = (action: string): string => `${grantPrefix}${action}`;

/** The action that a relation name grants, if it is the name of a grant. */
export const grantedAction = (relation: string): string | undefined =>
  relation.startsWith(grantPrefix) ? relation.slice(grantPrefix.length) : undefined;

const grantPrefix = 'can:';

/** A relation that is a field of the records of its type. */
export interface FieldRelation {
  readonly type: string;
  readonly relation: string;
  readonly field: RecordField;
}

export interface Model {
  /** Counts up with each change of any definition. */
  readonly revision: number;
  get(type: string): Definition | undefined;
  types(): readonly string[];
  /** What an arrow or a check means by `name` on a type: the action, else the relation. */
  action(type: string, name: string): Name | undefined;
  /** What a subject set means by `name`: the relation, else the action. */
  member(type: string, name: string): Name | undefined;
  dependencies(name: Name): readonly Dependency[];
  expression(name: Name): Expression | undefined;
  /** Exclusions that must be resolved before this name. */
  stratum(name: Name): number;
  condition(type: string, name: string): Condition | undefined;
  /** The field that the relation is, if it is one. */
  fieldOf(type: string, relation: string): RecordField | undefined;
  /** All relations that are fields. */
  readonly fieldRelations: readonly FieldRelation[];
  /** The columns in which one subject of the relation stands beside stored tuples, if the records have them. */
  columnOf(type: string, relation: string): RecordField | undefined;
  /** All relations that records say something about: by a field alone, or by columns beside stored tuples. */
  readonly recordRelations: readonly FieldRelation[];
  /** True when the database notes each change of what records say about the relation, as it does of stored tuples. */
  isFollowed(type: string, relation: string): boolean;
  /** The schema of the records of a type, as it is now. */
  schemaOf(type: string): CompiledSchema | undefined;
  /** What follows from the model alone, computed once per key. */
  derived<T>(key: string, compute: () => T): T;
}

export const keyOf = (name: Name): string => `${name.type}#${name.kind}:${name.name}`;

export function buildModel(
  definitions: readonly Definition[],
  revision: number,
  schemaOf: Model['schemaOf'] = () => undefined,
): Model {
  const byType = new Map(definitions.map((d) => [d.name, d]));
  const dependencies = new Map<string, readonly Dependency[]>();

  const action = (type: string, name: string): Name | undefined =>
    nameOf(byType.get(type), ['action', 'relation'], name);
  const member = (type: string, name: string): Name | undefined =>
    nameOf(byType.get(type), ['relation', 'action'], name);
  const lookUp: LookUp = { byType, action, member };

  const dependenciesOf = (name: Name): readonly Dependency[] => {
    const key = keyOf(name);
    let found = dependencies.get(key);
    if (!found) {
      found = computeDependencies(lookUp, name);
      dependencies.set(key, found);
    }
    return found;
  };
  const relationsIn = (part: 'fields' | 'columns'): readonly FieldRelation[] =>
    definitions.flatMap((definition) =>
      [...definition[part]].map(([relation, field]) => ({
        type: definition.name,
        relation,
        field,
      })),
    );
  const fieldRelations = relationsIn('fields');
  const strata = new Map<string, number>();
  const derivedValues = new Map<string, unknown>();

  return {
    revision,
    get: (type) => byType.get(type),
    types: () => [...byType.keys()],
    action,
    member,
    dependencies: dependenciesOf,
    expression: (name) =>
      name.kind === 'action' ? byType.get(name.type)?.actions.get(name.name) : undefined,
    stratum: (name) => stratumOf(name, dependenciesOf, strata),
    condition: (type, name) => byType.get(type)?.conditions.get(name),
    fieldOf: (type, relation) => byType.get(type)?.fields.get(relation),
    fieldRelations,
    columnOf: (type, relation) => byType.get(type)?.columns.get(relation),
    recordRelations: [...fieldRelations, ...relationsIn('columns')],
    isFollowed: (type, relation) => byType.get(type)?.followed.has(relation) === true,
    schemaOf,
    derived<T>(key: string, compute: () => T): T {
      const known = derivedValues.get(key);
      if (known !== undefined || derivedValues.has(key)) return known as T;
      const value = compute();
      derivedValues.set(key, value);
      return value;
    },
  };
}

interface LookUp {
  readonly byType: ReadonlyMap<string, Definition>;
  action(type: string, name: string): Name | undefined;
  member(type: string, name: string): Name | undefined;
}

function nameOf(
  definition: Definition | undefined,
  order: readonly Name['kind'][],
  name: string,
): Name | undefined {
  if (!definition) return undefined;
  for (const kind of order) {
    const has = kind === 'action' ? definition.actions.has(name) : definition.relations.has(name);
    if (has) return { type: definition.name, kind, name };
  }
  return undefined;
}

/** The types that may stand in a relation as plain objects. */
export const plainTypes = (
  subjects: readonly AllowedSubject[],
  all: readonly string[],
): readonly string[] =>
  subjects.some((s) => s.type === '*')
    ? all
    : [...new Set(subjects.filter((s) => s.relation === '' && !s.wildcard).map((s) => s.type))];

/** Objects that an arrow along a relation looks at: by themselves (`via` is empty), or as those of sets. */
export const leadingSubjects = (
  subjects: readonly AllowedSubject[],
  all: readonly string[],
): readonly { readonly type: string; readonly via: string }[] => {
  const sets = subjects.filter(({ strict, relation }) => strict && relation !== '');
  const named = new Map(sets.map((s) => [`${s.type}#${s.relation}`, s]));
  return [
    ...plainTypes(subjects, all).map((type) => ({ type, via: '' })),
    ...[...named.values()].map(({ type, relation }) => ({ type, via: relation })),
  ];
};

/** True when an arrow along the relation of a tuple looks at the object of its subject. */
export function leadsArrows(model: Model, { subject, relation, resource }: LeadingTuple): boolean {
  if (subject.relation === '') return subject.id !== '*';
  return (model.get(resource.type)?.relations.get(relation) ?? []).some(
    (allowed) =>
      allowed.strict && allowed.type === subject.type && allowed.relation === subject.relation,
  );
}

interface LeadingTuple {
  readonly subject: { readonly type: string; readonly id: string; readonly relation: string };
  readonly relation: string;
  readonly resource: { readonly type: string };
}

/** Sets whose objects some arrow of the model looks at, as `Type#relation`. */
export const arrowSets = (model: Model): ReadonlySet<string> =>
  model.derived(
    'arrow sets',
    () =>
      new Set(
        model
          .types()
          .flatMap((type) => [...(model.get(type)?.relations.values() ?? [])])
          .flatMap((subjects) => leadingSubjects(subjects, []))
          .flatMap(({ type, via }) => (via === '' ? [] : [`${type}#${via}`])),
      ),
  );

function computeDependencies(lookUp: LookUp, name: Name): readonly Dependency[] {
  const definition = lookUp.byType.get(name.type);
  if (!definition) return [];
  if (name.kind === 'relation')
    return setDependencies(lookUp, definition.relations.get(name.name) ?? [], name.name);
  const expression = definition.actions.get(name.name);
  return expression ? expressionDependencies(lookUp, definition, expression, false) : [];
}

function setDependencies(
  lookUp: LookUp,
  subjects: readonly AllowedSubject[],
  relation: string,
): readonly Dependency[] {
  return subjects.flatMap((subject) => {
    const on = subject.relation === '' ? undefined : lookUp.member(subject.type, subject.relation);
    return on ? [{ on, negative: false, through: relation, set: true, via: '' }] : [];
  });
}

function expressionDependencies(
  lookUp: LookUp,
  definition: Definition,
  expression: Expression,
  negative: boolean,
): readonly Dependency[] {
  const type = definition.name;
  switch (expression.kind) {
    case 'none':
    case 'everyone':
    case 'rule':
      return [];
    case 'relation':
      return [
        {
          on: { type, kind: 'relation', name: expression.relation },
          negative,
          through: undefined,
          set: false,
          via: '',
        },
      ];
    case 'action':
      return [
        {
          on: { type, kind: 'action', name: expression.action },
          negative,
          through: undefined,
          set: false,
          via: '',
        },
      ];
    case 'arrow':
      return arrowTargets(lookUp, definition, expression).map(({ on, via }) => ({
        on,
        negative,
        through: expression.relation,
        set: false,
        via,
      }));
    case 'union':
    case 'intersection':
      return expression.of.flatMap((e) => expressionDependencies(lookUp, definition, e, negative));
    case 'exclusion':
      return [
        ...expressionDependencies(lookUp, definition, expression.base, negative),
        ...expressionDependencies(lookUp, definition, expression.subtract, true),
      ];
  }
}

/** What an arrow leads to, for each type that may stand in its relation and knows the name. */
function arrowTargets(
  lookUp: LookUp,
  definition: Definition,
  arrow: { relation: string; target: string },
): readonly { readonly on: Name; readonly via: string }[] {
  const subjects = definition.relations.get(arrow.relation) ?? [];
  return leadingSubjects(subjects, [...lookUp.byType.keys()]).flatMap(({ type, via }) => {
    const on = lookUp.action(type, arrow.target);
    return on ? [{ on, via }] : [];
  });
}

/** Longest chain of exclusions below a name. Definitions where it would be endless are refused (reference-check.ts). */
function stratumOf(
  name: Name,
  dependencies: (name: Name) => readonly Dependency[],
  known: Map<string, number>,
): number {
  const found = known.get(keyOf(name));
  if (found !== undefined) return found;
  const below = reachable(name, dependencies);
  let stratum = 0;
  for (const { from, negative, on } of below.edges) {
    if (!negative || below.canReach(keyOf(on), keyOf(from))) continue;
    stratum = Math.max(stratum, stratumOf(on, dependencies, known) + 1);
  }
  known.set(keyOf(name), stratum);
  return stratum;
}

/** Every dependency edge below a name. */
export function reachable(
  start: Name,
  dependencies: (name: Name) => readonly Dependency[],
): {
  readonly edges: readonly (Dependency & { readonly from: Name })[];
  canReach(from: string, to: string): boolean;
} {
  const edges: (Dependency & { from: Name })[] = [];
  const next = new Map<string, string[]>();
  const queue: Name[] = [start];
  for (let name = queue.shift(); name; name = queue.shift()) {
    const key = keyOf(name);
    if (next.has(key)) continue;
    const out = dependencies(name);
    next.set(
      key,
      out.map((d) => keyOf(d.on)),
    );
    for (const dependency of out) {
      edges.push({ ...dependency, from: name });
      queue.push(dependency.on);
    }
  }
  return { edges, canReach: (from, to) => reaches(next, from, to) };
}

function reaches(next: ReadonlyMap<string, readonly string[]>, from: string, to: string): boolean {
  const seen = new Set<string>();
  const stack = [from];
  for (let key = stack.pop(); key !== undefined; key = stack.pop()) {
    if (key === to) return true;
    if (seen.has(key)) continue;
    seen.add(key);
    stack.push(...(next.get(key) ?? []));
  }
  return false;
}
