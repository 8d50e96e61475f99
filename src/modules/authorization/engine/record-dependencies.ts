/** On which other records the permissions on records of a type depend, according to the definitions. */
import type { RecordDependencies } from '../../../kernel/permissions.ts';
import { type Model, type Name, reachable } from '../model/model.ts';
import { rulesBelow } from './record-rules.ts';
import { originsBelow } from './rows/predicate-builder.ts';

const actionsOf = (model: Model, type: string): readonly Name[] =>
  [...(model.get(type)?.actions.keys() ?? [])].map((name) => ({ type, kind: 'action', name }));

/** For all actions: which of them a listener needs is not known here. */
export const recordDependencies = (model: Model, type: string): RecordDependencies =>
  model.derived(`record dependencies of ${type}`, () => {
    const origins = actionsOf(model, type).flatMap((goal) => originsBelow(model, goal));
    return {
      values: new Set(origins.flatMap((name) => [...rulesBelow(model, name).keys()])),
      presence: new Set(
        origins.flatMap((name) => [
          name.type,
          ...reachable(name, model.dependencies).edges.map(({ on }) => on.type),
        ]),
      ),
    };
  });
