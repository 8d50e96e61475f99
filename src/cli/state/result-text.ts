/** What became of an import, as people read it. */
import { changesOf, type Plan, things } from './plan-text.ts';
import type { Paint } from './terminal.ts';

interface Result {
  readonly configResults: Readonly<Record<string, { readonly success: boolean; readonly error?: string }>>;
  readonly moduleResults: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          {
            readonly created: number;
            readonly updated: number;
            readonly deleted: number;
            readonly failed: number;
            readonly errors: readonly string[];
          }
        >
      >
    >
  >;
}

/** `answer`: what `POST /state/import` answers to the import of `plan`. */
export function resultLines(answer: unknown, plan: Plan, paint: Paint): { readonly lines: readonly string[]; readonly complete: boolean } {
  const { configResults, moduleResults } = answer as Result;
  const failures: string[] = [];
  const changed = new Set(changesOf(plan).flatMap(({ type, module }) => (type === 'config' ? [module] : [])));
  let configs = 0;
  let done = 0;
  for (const [module, { success, error }] of Object.entries(configResults)) {
    if (!success) failures.push(`${module} configuration: ${error}`);
    else if (changed.has(module)) configs += 1;
  }
  for (const [module, types] of Object.entries(moduleResults)) {
    for (const [type, { created, updated, deleted, errors }] of Object.entries(types)) {
      done += created + updated + deleted;
      failures.push(...errors.map((error) => `${module} ${type}: ${error}`));
    }
  }
  const what = [...(done > 0 ? [things(done, 'document')] : []), ...(configs > 0 ? [things(configs, 'configuration')] : [])].join(' and ');
  if (failures.length === 0) return { lines: [paint('green', `Applied: ${what}.`)], complete: true };
  const lines = [
    ...failures.map((failure) => paint('red', `FAILED  ${failure}`)),
    `Changed before that: ${what || 'nothing'}. Mend it and apply again.`,
  ];
  return { lines, complete: false };
}
