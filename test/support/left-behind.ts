/**
 * What tests have started and not ended: a test that throws before its own clean-up, or a start that a time-out has cut
 * short, would leave its platform behind for all files that follow. `test/setup.ts` ends it after each file.
 */
const open = new Map<object, () => Promise<unknown>>();

/** Ends `started` after the file unless what this answers is called before: it has ended by itself. */
export function endAfterFile(started: object, end: () => Promise<unknown>): () => void {
  open.set(started, end);
  return () => void open.delete(started);
}

/** Ends everything that is left, the latest first. What fails to end is told once all was tried. */
export async function endLeftBehind(): Promise<void> {
  const ends = [...open.values()].reverse();
  open.clear();
  const failures: unknown[] = [];
  for (const end of ends) await end().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw new AggregateError(failures, 'What was left behind did not end');
}
