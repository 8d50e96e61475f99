/**
 * What a definition may not say about other types: a type, subject set or
 * arrow target that does not exist, or an action that hangs on its own
 * exclusion. Found before anything is stored, with the place in the definition.
 */
import type { Problem } from '../../../kernel/errors.ts';
import type { AllowedSubject, Definition } from './definition.ts';
import { childrenOf, type Expression } from './expression.ts';
import { buildModel, keyOf, leadingSubjects, type Model, type Name, reachable } from './model.ts';

/** Problems of `definition` beside the other definitions (its own older form left out of them). */
export function checkAgainst(
  definition: Definition,
  others: readonly Definition[],
): readonly Problem[] {
  const model = buildModel([...others.filter((o) => o.name !== definition.name), definition], 0);
  const problems = [
    ...[...definition.relations].flatMap(([relation, subjects]) =>
      subjects.flatMap((subject, i) =>
        subjectProblems(
          model,
          subject,
          `relations.${relation}${definition.fields.has(relation) ? '.from' : `[${i}]`}`,
        ),
      ),
    ),
    ...[...definition.actions].flatMap(([action, expression]) =>
      arrowProblems(model, definition, expression, `permissions.${action}`),
    ),
  ];
  return problems.length > 0 ? problems : ownExclusions(model, definition);
}

function subjectProblems(model: Model, subject: AllowedSubject, path: string): readonly Problem[] {
  if (subject.type === '*') return [];
  if (!model.get(subject.type))
    return [
      { path, rule: 'type', message: `no type is called "${subject.type}"; define it first` },
    ];
  if (subject.relation !== '' && !model.member(subject.type, subject.relation)) {
    return [
      {
        path,
        rule: 'relation',
        message: `"${subject.relation}" is neither a relation nor an action of ${subject.type}`,
      },
    ];
  }
  return [];
}

function arrowProblems(
  model: Model,
  definition: Definition,
  expression: Expression,
  path: string,
): readonly Problem[] {
  if (expression.kind !== 'arrow') {
    return placedChildren(expression).flatMap(([child, place]) =>
      arrowProblems(model, definition, child, `${path}${place}`),
    );
  }
  if (definition.pending.has(expression.relation)) return [];
  const subjects = definition.relations.get(expression.relation) ?? [];
  const leading = leadingSubjects(subjects, model.types());
  const types = [...new Set(leading.map(({ type }) => type))];
  if (types.some((type) => model.action(type, expression.target))) return [];
  const message =
    types.length === 0
      ? `"${expression.relation}" holds no objects that could have the action "${expression.target}"`
      : `none of ${types.join(', ')} has an action "${expression.target}"`;
  return [{ path, rule: 'arrow', message }];
}

/** Parts of an expression with their places as an author wrote them; a list of one entry was parsed to that entry. */
function placedChildren(expression: Expression): readonly (readonly [Expression, string])[] {
  if (expression.kind === 'exclusion')
    return [
      [expression.base, '.exclusion.base'],
      [expression.subtract, '.exclusion.subtract'],
    ];
  const prefix = expression.kind === 'intersection' ? '.intersection' : '';
  return childrenOf(expression).map((child, i) => [child, `${prefix}[${i}]`]);
}

function ownExclusions(model: Model, definition: Definition): readonly Problem[] {
  const names: readonly (Name & { readonly path: string })[] = [
    ...[...definition.actions.keys()].map((name) => ({
      type: definition.name,
      kind: 'action' as const,
      name,
      path: `permissions.${name}`,
    })),
    ...[...definition.relations.keys()].map((name) => ({
      type: definition.name,
      kind: 'relation' as const,
      name,
      path: `relations.${name}`,
    })),
  ];
  for (const { path, ...name } of names) {
    const graph = reachable(name, model.dependencies);
    for (const { negative, on, from } of graph.edges) {
      if (negative && graph.canReach(keyOf(on), keyOf(from))) {
        return [
          {
            path,
            rule: 'exclusion',
            message: `${from.type}.${from.name} excludes ${on.type}.${on.name}, which depends on it again`,
          },
        ];
      }
    }
  }
  return [];
}
