/**
 * The model that comes with the platform: English, 512 dimensions, with nothing to download. Who searches does not wait
 * for records, and records take nothing from requests: each has the model for itself, in memory while it is needed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  createProcessLink,
  createWorkerLink,
  type WorkerLink,
} from '../../../kernel/threads/worker-link.ts';
import { builtInDimensions, type Model, ModelError, normalise, type Purpose } from '../model.ts';
import { passagesOf } from '../passages.ts';

/** Texts and characters of one turn. */
const BATCH = 32;
const BATCH_LENGTH = 4_000;
/** Milliseconds for which passages give way at most, between two turns. */
const LONGEST_PAUSE_MS = 1_000;
/** Part of the time, 0 to 1, below which the event loop has nothing to do but ours. */
const IDLE = 0.1;
/** Queries that wait at the same time. */
const MAX_WAITING = 200;
const IDLE_MS = 120_000;
const HEAP_MEGABYTES = 512;
/** A sentence encoder: the more it is given at once, the less is left of each thought. */
const PASSAGE_LENGTH = 1_000;
/** Of a text that is searched for. What the model takes grows with the square of what it is given at once. */
const QUERY_PASSAGES = 4;

interface Work {
  readonly texts: readonly string[];
  readonly done: PromiseWithResolvers<readonly Float32Array[]>;
}

interface BuiltInModel extends Model {
  close(): Promise<void>;
}

export function createBuiltInModel(): BuiltInModel {
  const options = {
    file: new URL('sentence-encoder.ts', import.meta.url),
    idleMs: IDLE_MS,
    heapMegabytes: HEAP_MEGABYTES,
  };
  const lines: Readonly<Record<Purpose, Line>> = {
    query: createLine(createWorkerLink(options), async () => undefined),
    passage: createLine(createProcessLink(options), createGivingWay()),
  };
  return {
    passageLength: PASSAGE_LENGTH,
    pausedUntil: () => 0,
    async embed(texts, purpose) {
      const line = lines[purpose];
      if (purpose === 'query' && line.waiting() >= MAX_WAITING)
        throw new ModelError('busy', 'Too many searches wait for the model', 1);
      const vectors =
        purpose === 'query' ? await embedQueries(line, texts) : await line.embed(texts);
      return { vectors, tokens: 0 };
    },
    async close() {
      await Promise.all(Object.values(lines).map(({ close }) => close()));
    },
  };
}

/**
 * Who makes vectors of records takes a processor for a third of a second. Between such turns it rests, the longer the
 * busier the platform was meanwhile: half of the time at most.
 */
function createGivingWay(): (turnMs: number) => Promise<void> {
  let before = performance.eventLoopUtilization();
  return async (turnMs) => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    if (utilization > IDLE) {
      const pause = Math.min(turnMs * utilization, LONGEST_PAUSE_MS);
      await delay(pause, undefined, { ref: false });
    }
    before = performance.eventLoopUtilization();
  };
}

interface Line {
  embed(texts: readonly string[]): Promise<readonly Float32Array[]>;
  /** Turns that have not begun. */
  waiting(): number;
  close(): Promise<void>;
}

/** Whoever wrote a text that is searched for has not cut it: each of its first passages counts as much as the others. */
async function embedQueries(line: Line, texts: readonly string[]): Promise<Float32Array[]> {
  const cut = texts.map((text) => passagesOf(text, PASSAGE_LENGTH).slice(0, QUERY_PASSAGES));
  const vectors = await line.embed(cut.flat().map(({ text }) => text));
  let at = 0;
  return cut.map(({ length }) => {
    const own = vectors.slice(at, at + length);
    at += length;
    return own.length === 1 ? (own[0] as Float32Array) : meanOf(own);
  });
}

function meanOf(vectors: readonly Float32Array[]): Float32Array {
  const mean = new Float32Array(builtInDimensions);
  for (const vector of vectors) for (const [i, x] of vector.entries()) mean[i] = (mean[i] ?? 0) + x;
  normalise([mean]);
  return mean;
}

/** Turns of one model, one after the other. */
function createLine(link: WorkerLink, rest: (turnMs: number) => Promise<void>): Line {
  const line: Work[] = [];
  let busy = false;

  const run = async ({ texts, done }: Work): Promise<void> => {
    try {
      const all = await link.call<Float32Array>('embed', texts);
      done.resolve(
        texts.map((_, i) => all.slice(i * builtInDimensions, (i + 1) * builtInDimensions)),
      );
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      done.reject(new ModelError('unavailable', message));
    }
  };

  const turn = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    for (let work = line.shift(); work; work = line.shift()) {
      const begin = performance.now();
      await run(work);
      await rest(performance.now() - begin);
    }
    busy = false;
  };

  return {
    waiting: () => line.length,
    async embed(texts) {
      const parts: Work[] = turnsOf(texts).map((own) => ({
        texts: own,
        done: Promise.withResolvers(),
      }));
      line.push(...parts);
      void turn();
      return (await Promise.all(parts.map(({ done }) => done.promise))).flat();
    },
    close: link.close,
  };
}

/** Short texts go together, which is faster; long ones by themselves. */
function turnsOf(texts: readonly string[]): string[][] {
  const turns: string[][] = [];
  let length = 0;
  for (const text of texts) {
    const last = turns.at(-1);
    if (last && last.length < BATCH && length + text.length <= BATCH_LENGTH) {
      last.push(text);
      length += text.length;
    } else {
      turns.push([text]);
      length = text.length;
    }
  }
  return turns;
}
