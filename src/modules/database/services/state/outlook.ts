/** What changes of schemas and extensions mean for the records that are stored, as the plan of an import shows it. */
import type { Problem } from '../../../../kernel/errors.ts';
import type { StateChange, StateImport, StateOutlook } from '../../../../kernel/state/state.ts';
import type { PlanForAdmin } from '../shown-plan.ts';
import { databaseModule } from './declared.ts';

/** `changes`: those of one type, known by the names of their schemas. */
export function outlookOf(plan: PlanForAdmin, changes: readonly StateChange[], whole: StateImport): StateOutlook {
  const written = changes.filter(({ action }) => action !== 'delete');
  const isSchemas = written.some((change) => whole.changes(databaseModule, 'schemas').includes(change));
  // What an import does to a schema is told once: with the schema if that changes, else with its extension.
  const told = isSchemas ? [] : whole.changes(databaseModule, 'schemas').map(({ key }) => key);
  const own = written.filter(({ key }) => !told.includes(key));
  return {
    effects: new Map(
      own.map(({ key }) => [
        key,
        {
          renames: plan.renames.filter(({ schema }) => schema === key).map(({ from, to }) => ({ from, to })),
          hides: plan.hides.filter(({ schema }) => schema === key).map(({ field, records }) => ({ field, records })),
        },
      ]),
    ),
    obstacles: own.flatMap(({ key, place }) => obstaclesAt(plan, key, place)),
    warnings: isSchemas ? brokenWarnings(plan, whole) : [],
  };
}

const obstaclesAt = ({ obstacles }: PlanForAdmin, key: string, place: string): readonly Problem[] =>
  obstacles.filter(({ schema }) => schema === key).map(({ path, rule, message }) => ({ path: `${place}.${path}`, rule, message }));

/** Endpoints that neither come with the import nor go with it. */
function brokenWarnings({ endpoints }: PlanForAdmin, whole: StateImport): readonly string[] {
  const touched = new Set(whole.changes(databaseModule, 'customEndpoints').map(({ key }) => key));
  return endpoints
    .filter((name) => !touched.has(name))
    .map((name) => `The custom endpoint ${name} would no longer be served: its schema changes`);
}
