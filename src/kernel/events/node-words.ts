/** What modules tell their own kind on the other nodes, and what may be lost with a node. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Bus } from './bus.ts';

/** What waits while the bus is busy; beyond that it is dropped. */
const MAX_WORDS = 5_000;
const MAX_BYTES = 4_000_000;

export interface NodeWordsOptions<Word> {
  readonly bus: Pick<Bus, 'publish' | 'subscribe'>;
  readonly topic: string;
  /** A word of another node. */
  readonly hear: (word: Word) => void;
  /** So many did not get to the others. */
  readonly onDropped: (count: number) => void;
}

/**
 * Words of one turn of the loop go together, and so does what comes while the last ones are on their way. `size`: bytes,
 * about. Listening to the bus cannot be ended: once per process.
 */
export function createNodeWords<Word>({
  bus,
  topic,
  hear,
  onDropped,
}: NodeWordsOptions<Word>): (word: Word, size: number) => void {
  const outside = AsyncLocalStorage.snapshot();
  let waiting: Word[] = [];
  let bytes = 0;
  let busy = false;
  const flush = async (): Promise<void> => {
    while (waiting.length > 0) {
      const words = waiting;
      waiting = [];
      bytes = 0;
      await bus.publish(topic, words).catch(() => onDropped(words.length));
    }
    busy = false;
  };
  bus.subscribe(topic, (payload) => {
    for (const word of payload as readonly Word[]) hear(word);
  });
  return (word, size) => {
    if (waiting.length >= MAX_WORDS || bytes + size > MAX_BYTES) {
      onDropped(1);
      return;
    }
    waiting.push(word);
    bytes += size;
    if (busy) return;
    busy = true;
    setImmediate(() => outside(() => void flush()));
  };
}
