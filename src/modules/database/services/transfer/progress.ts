/** An import that tells how far it is. */
import { setTimeout as sleep } from 'node:timers/promises';
import { PenstockError } from '../../../../kernel/errors.ts';
import type { ImportReport, Tally } from './report.ts';

const EVERY_MS = 500;

/** Lines of JSON. What fails before the first of them is thrown; after it, the last line says so. */
export async function* progressLines(work: () => Promise<ImportReport>, tally: Tally): AsyncGenerator<string> {
  const running = work();
  // Waited for below; until then its failure must not count as unhandled.
  running.catch(() => undefined);
  let told = false;
  while (!(await endsWithin(running, EVERY_MS))) {
    told = true;
    yield line({ progress: tally.counts });
  }
  try {
    yield line({ result: await running });
  } catch (error) {
    if (!told || !(error instanceof PenstockError)) throw error;
    const { name, status, message, code, errors } = error;
    yield line({ error: { name, status, message, code, errors } });
  }
}

const line = (value: unknown): string => `${JSON.stringify(value)}\n`;

async function endsWithin(work: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const timer = new AbortController();
  const pause = sleep(milliseconds, false, { signal: timer.signal }).catch(() => false);
  const ended = work.then(
    () => true,
    () => true,
  );
  const first = await Promise.race([ended, pause]);
  timer.abort();
  return first;
}
