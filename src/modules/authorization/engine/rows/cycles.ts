/** Names that refer to themselves through other objects: by which ways, and what each object on a way must let through. */
import { namesOfObject } from '../../model/expansion-rules.ts';
import { childrenOf, type Expression } from '../../model/expression.ts';
import type { SubjectRef } from '../../model/grammar.ts';
import { keyOf, leadingSubjects, type Model, type Name, reachable } from '../../model/model.ts';
import { arrowsIn } from '../tuple-loading.ts';

/** Names by their keys. */
export type Cycle = ReadonlyMap<string, Name>;

/** The names that lead to this one and that it leads to, itself among them; none where it does not refer to itself. */
export const cycleOf = (model: Model, name: Name): Cycle =>
  model.derived(`cycle ${keyOf(name)}`, () => {
    const { edges, canReach } = reachable(name, model.dependencies);
    const key = keyOf(name);
    if (!edges.some(({ on }) => keyOf(on) === key)) return new Map<string, Name>();
    const all = edges.map(({ on }) => [keyOf(on), on] as const);
    return new Map(all.filter(([one]) => canReach(one, key)));
  });

/** From an object to those of another one that stand in a relation to it, where the object lets them through. */
export interface Step {
  readonly relation: string;
  /** Form of the subjects. */
  readonly as: SubjectRef;
  readonly target: Name;
  readonly filters: readonly { readonly expression: Expression; readonly against?: true }[];
}

/** The steps of a name within its cycle; `undefined` when it needs two of them at once. Each action is looked at once. */
export function stepsOf(model: Model, name: Name, cycle: Cycle): readonly Step[] | undefined {
  if (name.kind === 'relation') return setSteps(model, name, cycle);
  return model.derived(`steps ${keyOf(name)} in ${[...cycle.keys()].sort().join(' ')}`, () => {
    const expression = model.expression(name) ?? { kind: 'none' };
    const steps = expressionSteps(model, name.type, expression, cycle);
    return steps && [...new Map(steps.map((step) => [JSON.stringify(step), step])).values()];
  });
}

function expressionSteps(
  model: Model,
  type: string,
  expression: Expression,
  cycle: Cycle,
): readonly Step[] | undefined {
  const steps = (part: Expression) => expressionSteps(model, type, part, cycle);
  switch (expression.kind) {
    case 'none':
    case 'everyone':
    case 'rule':
      return [];
    case 'relation':
      return stepsOf(model, { type, kind: 'relation', name: expression.relation }, cycle);
    case 'action':
      return stepsOf(model, { type, kind: 'action', name: expression.action }, cycle);
    case 'arrow': {
      const found = arrowSteps(model, type, expression, cycle);
      return expression.all && found.length > 0 ? undefined : found;
    }
    case 'union': {
      const all = childrenOf(expression).map(steps);
      return all.every((one) => one !== undefined) ? all.flat() : undefined;
    }
    case 'intersection': {
      const all = expression.of.map((part) => ({ part, found: steps(part) }));
      const [leading, ...more] = all.filter(({ found }) => found?.length !== 0);
      if (!leading) return [];
      if (!leading.found || more.length > 0) return undefined;
      const filters = all.flatMap(({ part }) =>
        part === leading.part ? [] : [{ expression: part }],
      );
      return leading.found.map((step) => ({ ...step, filters: [...step.filters, ...filters] }));
    }
    case 'exclusion': {
      const found = steps(expression.base);
      if (!found || steps(expression.subtract)?.length !== 0) return undefined;
      const filter = { expression: expression.subtract, against: true as const };
      return found.map((step) => ({ ...step, filters: [...step.filters, filter] }));
    }
  }
}

/** By members of sets that may stand in a relation. */
function setSteps(model: Model, { type, name: relation }: Name, cycle: Cycle): readonly Step[] {
  const sets = (model.get(type)?.relations.get(relation) ?? []).flatMap((allowed) => {
    const meant =
      allowed.relation === '' ? undefined : model.member(allowed.type, allowed.relation);
    if (!meant || !cycle.has(keyOf(meant))) return [];
    const as = { type: allowed.type, id: '', relation: allowed.relation };
    return [{ relation, as, target: meant, filters: [] }];
  });
  return [...new Map(sets.map((step) => [`${step.as.type}#${step.as.relation}`, step])).values()];
}

function arrowSteps(
  model: Model,
  type: string,
  arrow: Extract<Expression, { kind: 'arrow' }>,
  cycle: Cycle,
): readonly Step[] {
  const subjects = model.get(type)?.relations.get(arrow.relation) ?? [];
  return leadingSubjects(subjects, model.types()).flatMap(({ type: subjectType, via }) => {
    const target = model.action(subjectType, arrow.target);
    if (!target || !cycle.has(keyOf(target))) return [];
    const as = { type: subjectType, id: '', relation: via };
    return [{ relation: arrow.relation, as, target, filters: [] }];
  });
}

/** All steps of a name within its cycle, whatever each of them counts for. */
export const hopsOf = (model: Model, start: Name, cycle: Cycle): readonly Step[] =>
  namesOfObject(model, start, true).flatMap((name) =>
    name.kind === 'relation'
      ? setSteps(model, name, cycle)
      : arrowsIn(model.expression(name) ?? { kind: 'none' }).flatMap((arrow) =>
          arrowSteps(model, name.type, arrow, cycle),
        ),
  );
