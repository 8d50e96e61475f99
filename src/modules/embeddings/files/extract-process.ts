/**
 * The process in which files are read. Limits of a heap do not count buffers, and a page of a few kilobytes can unpack to
 * gigabytes of them: the thread that reads has the memory of this process alone, which looks how much that is.
 */
import { writeFileSync } from 'node:fs';
import { giveWayAsProcess, type Serve, serveCalls } from '../../../kernel/threads/serve-calls.ts';
import { createWorkerLink } from '../../../kernel/threads/worker-link.ts';
import type { ExtractInput } from './extract-thread.ts';

/** Behind the platform and PostgreSQL, as passages of records are. */
const PRIORITY = 10;
const HEAP_MEGABYTES = 512;
const LOOK_MS = 20;
/** Of 1,000: on a machine without memory, this process goes first. */
const GOES_FIRST = '900';

export interface BoundedInput extends ExtractInput {
  /** Of this process, beside what the file itself takes. */
  readonly maxMegabytes: number;
}

giveWayAsProcess(PRIORITY);
try {
  writeFileSync('/proc/self/oom_score_adj', GOES_FIRST);
} catch {
  // Only Linux has it.
}
// The thread may be busy when the platform ends.
process.once('disconnect', () => process.exit());

const thread = createWorkerLink({
  file: new URL('extract-thread.ts', import.meta.url),
  idleMs: 0,
  heapMegabytes: HEAP_MEGABYTES,
});

/** How often a file stands in memory: as it came, as it was handed over, and taken apart. */
const COPIES = 4;

const extract: Serve = async (given) => {
  const { maxMegabytes, ...input } = given as BoundedInput;
  const max = maxMegabytes * 1_000_000 + COPIES * input.bytes.length;
  let isLarge = false;
  const look = setInterval(() => {
    if (isLarge || process.memoryUsage.rss() < max) return;
    isLarge = true;
    void thread.close();
  }, LOOK_MS);
  try {
    return { result: await thread.call<string>('extract', input) };
  } catch (error) {
    throw isLarge ? new Error(`It takes more than ${maxMegabytes} MB of memory`) : error;
  } finally {
    clearInterval(look);
  }
};

serveCalls(new Map([['extract', extract]]));
