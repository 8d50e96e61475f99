/** What became of an import, as people read it. */
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

/** `answer`: what `POST /state/import` answers. */
export function resultLines(answer: unknown, paint: Paint): { readonly lines: readonly string[]; readonly complete: boolean } {
  const { configResults, moduleResults } = answer as Result;
  const failures: string[] = [];
  let done = 0;
  for (const [module, { success, error }] of Object.entries(configResults)) {
    if (!success) failures.push(`${module} configuration: ${error}`);
  }
  for (const [module, types] of Object.entries(moduleResults)) {
    for (const [type, { created, updated, deleted, errors }] of Object.entries(types)) {
      done += created + updated + deleted;
      failures.push(...errors.map((error) => `${module} ${type}: ${error}`));
    }
  }
  if (failures.length === 0) return { lines: [paint('green', `Applied: ${done} documents, and the configuration.`)], complete: true };
  const lines = [
    ...failures.map((failure) => paint('red', `FAILED  ${failure}`)),
    `${done} documents were changed before that. Mend it and apply again.`,
  ];
  return { lines, complete: false };
}
