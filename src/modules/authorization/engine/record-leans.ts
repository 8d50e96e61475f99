/** On which other records the rights on records of a type hang, as the definitions say. */
import type { RecordLeans } from '../../../kernel/permissions.ts';
import { type Model, type Name, reachable } from '../model/model.ts';
import { rulesBelow } from './record-rules.ts';
import { originsBelow } from './rows/predicate-builder.ts';

const actionsOf = (model: Model, type: string): readonly Name[] =>
  [...(model.get(type)?.actions.keys() ?? [])].map((name) => ({ type, kind: 'action', name }));

/** Of all actions: which of them somebody listens to is not known here. */
export const leansOf = (model: Model, type: string): RecordLeans =>
  model.derived(`leans of ${type}`, () => {
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
