/** How the index of many vectors comes to be: in the thread that holds them, in turns between searches. */
import type { WorkerLink } from '../../../kernel/threads/worker-link.ts';
import type { EmbeddingsConfig } from '../config.ts';
import type { GrowInput, RecallInput } from './scan-thread.ts';
import type { TableFacts } from './table.ts';

/** What is known of a generation: everything up to a version. */
export interface Loaded {
  version: number;
  /** Reads that go on are waited for, not repeated. */
  reading: Promise<void> | undefined;
  bytes: number;
  table: TableFacts;
  /** The index is being made. */
  growing: boolean;
  recall: number | undefined;
}

interface GrowthParts {
  readonly thread: WorkerLink;
  readonly config: () => EmbeddingsConfig;
}

/** A search waits for one turn at most. */
const TURN_MS = 8;
/** Passages that are searched for to measure the recall. */
const SAMPLES = 20;
/** Growth after which the recall is measured anew. */
const GROWN = 1.2;

/** Begins to work on the index of a generation, when it has enough vectors and nobody works on it yet. */
export function growIndex(parts: GrowthParts, table: string, state: Loaded): void {
  const { index, exactUpTo } = parts.config().search;
  const { passages, indexed, unavailable } = state.table;
  const isLarge = indexed > 0 || (index !== 'exact' && passages > exactUpTo);
  if (state.growing || unavailable || !isLarge || indexed === passages) return;
  state.growing = true;
  void grow(parts.thread, table, state)
    // The thread has ended: who searches next begins anew.
    .catch(() => undefined)
    .finally(() => {
      state.growing = false;
    });
}

async function grow(thread: WorkerLink, table: string, state: Loaded): Promise<void> {
  const input: GrowInput = { table, milliseconds: TURN_MS };
  const before = state.recall === undefined ? 0 : state.table.indexed;
  for (;;) {
    const facts = await thread.call<TableFacts | undefined>('grow', input);
    if (!facts) return;
    state.table = facts;
    if (facts.unavailable || facts.indexed >= facts.passages) break;
  }
  if (state.table.indexed > before * GROWN) state.recall = await measure(thread, table);
}

async function measure(thread: WorkerLink, table: string): Promise<number | undefined> {
  const found: number[] = [];
  for (let i = 0; i < SAMPLES; i += 1) {
    const input: RecallInput = { table, at: (i + 0.5) / SAMPLES };
    const one = await thread.call<number | undefined>('recall', input);
    if (one !== undefined) found.push(one);
  }
  if (found.length === 0) return undefined;
  return found.reduce((sum, one) => sum + one, 0) / found.length;
}
