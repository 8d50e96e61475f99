/**
 * Which tuples a question can touch at all: computed once per model and name,
 * so that one statement can load everything an answer hangs on and nothing else.
 */
import { childrenOf, type Expression } from './expression.ts';
import { grantRelation, keyOf, type Model, type Name, plainTypes, reachable } from './model.ts';

export interface Footprint {
  /** Relations in which the subject itself is looked for. */
  readonly probes: readonly (readonly [type: string, relation: string])[];
  /** Relations whose objects of a type lead on (arrows). */
  readonly follows: readonly (readonly [type: string, relation: string, subjectType: string])[];
  /** Relations whose subject sets lead on. */
  readonly sets: readonly (readonly [type: string, relation: string])[];
}

/** The footprint of a name, with everything below it. */
export const footprintOf = (model: Model, name: Name): Footprint => model.derived(`footprint ${keyOf(name)}`, () => compute(model, name));

/** One footprint for several questions at once. */
export function mergeFootprints(footprints: readonly Footprint[]): Footprint {
  return {
    probes: unique(footprints.flatMap((f) => f.probes)),
    follows: unique(footprints.flatMap((f) => f.follows)),
    sets: unique(footprints.flatMap((f) => f.sets)),
  };
}

const unique = <T extends readonly string[]>(rows: readonly T[]): readonly T[] => [
  ...new Map(rows.map((row) => [row.join(' '), row])).values(),
];

function compute(model: Model, start: Name): Footprint {
  const names = new Map([[keyOf(start), start]]);
  for (const { on } of reachable(start, model.dependencies).edges) names.set(keyOf(on), on);
  const probes: [string, string][] = [];
  const follows: [string, string, string][] = [];
  const sets: [string, string][] = [];
  for (const name of names.values()) {
    probes.push([name.type, name.kind === 'relation' ? name.name : grantRelation(name.name)]);
    if (name.kind === 'action') follows.push(...arrowRows(model, name));
    else if (takesSets(model, name)) sets.push([name.type, name.name]);
  }
  return { probes: unique(probes), follows: unique(follows), sets: unique(sets) };
}

const takesSets = (model: Model, { type, name }: Name): boolean =>
  (model.get(type)?.relations.get(name) ?? []).some((allowed) => allowed.relation !== '');

function arrowRows(model: Model, name: Name): [string, string, string][] {
  const expression = model.expression(name);
  if (!expression) return [];
  return arrowsIn(expression).flatMap(({ relation, target, all }) => {
    const types = plainTypes(model.get(name.type)?.relations.get(relation) ?? [], model.types());
    // "every" must also see the objects that cannot have the action: they make it false.
    const leading = all ? types : types.filter((type) => model.action(type, target) !== undefined);
    return leading.map((type): [string, string, string] => [name.type, relation, type]);
  });
}

/** All arrows of an expression. */
export function arrowsIn(expression: Expression): readonly Extract<Expression, { kind: 'arrow' }>[] {
  return expression.kind === 'arrow' ? [expression] : childrenOf(expression).flatMap(arrowsIn);
}
