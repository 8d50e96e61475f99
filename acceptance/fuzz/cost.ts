/**
 * What requests cost the process that answers them. The platform of a fuzz run works in the thread of the test, so its
 * event loop and heap are those of the server; only sending and receiving is added.
 */
import { performance } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';

export interface Cost {
  /** Milliseconds for which the event loop was busy with the request. */
  readonly busyMs: number;
  /** Of the answer. */
  readonly bytes: number;
  /** Bytes by which the heap has grown. Garbage counts. */
  readonly heap: number;
}

/** The attacks of the reviews took seconds to centuries, answered 100 MB, and grew the process by gigabytes. */
const most: Cost = { busyMs: 1_000, bytes: 64 * 1024 * 1024, heap: 256 * 1024 * 1024 };

/** Milliseconds that `calibration` takes on a quick machine with nothing else to do. */
const CALIBRATION_MS = 40;

/** A fixed piece of work: how much slower this machine is at this moment. */
function slowness(): number {
  const begin = performance.now();
  let sum = 0;
  for (let i = 0; i < 300_000; i++) sum += JSON.stringify({ i, text: `${i}` }).length;
  return Math.max(1, ((performance.now() - begin) / CALIBRATION_MS) * Math.min(1, sum));
}

export interface Measured<T> {
  readonly answer: T;
  readonly cost: Cost;
  /** What was above the limits; empty when nothing was. */
  readonly problems: readonly string[];
}

/** Sends and measures. What is above the limits is sent once more: only what is dear twice is a problem. */
export async function measured<T extends { readonly text: string }>(
  send: () => Promise<T>,
): Promise<Measured<T>> {
  const first = await once(send);
  if (first.problems.length === 0) return first;
  const again = await once(send);
  return again.problems.length === 0 ? { ...first, problems: [] } : first;
}

/** `process.memoryUsage()` would ask the system for the rest too, which takes ten times as long. */
const heapBytes = (): number => getHeapStatistics().used_heap_size;

async function once<T extends { readonly text: string }>(
  send: () => Promise<T>,
): Promise<Measured<T>> {
  const heapUsed = heapBytes();
  const before = performance.eventLoopUtilization();
  const answer = await send();
  const busyMs = performance.eventLoopUtilization(before).active;
  const cost = {
    busyMs,
    bytes: answer.text.length,
    heap: Math.max(0, heapBytes() - heapUsed),
  };
  return { answer, cost, problems: problemsOf(cost) };
}

function problemsOf({ busyMs, bytes, heap }: Cost): string[] {
  const megabytes = (value: number): string => `${Math.round(value / 1024 / 1024)} MB`;
  return [
    ...(busyMs > most.busyMs && busyMs > most.busyMs * slowness()
      ? [`kept the event loop busy for ${Math.round(busyMs)} ms`]
      : []),
    ...(bytes > most.bytes ? [`answered ${megabytes(bytes)}`] : []),
    ...(heap > most.heap ? [`grew the heap by ${megabytes(heap)}`] : []),
  ];
}

/** The dearest requests of a run, by operation. */
export function createRanking(): {
  note(operation: string, cost: Cost): void;
  worst(count: number): readonly string[];
} {
  const dearest = new Map<string, Cost>();
  return {
    note(operation, cost) {
      if (cost.busyMs > (dearest.get(operation)?.busyMs ?? -1)) dearest.set(operation, cost);
    },
    worst: (count) =>
      [...dearest]
        .sort(([, a], [, b]) => b.busyMs - a.busyMs)
        .slice(0, count)
        .map(
          ([operation, { busyMs, bytes, heap }]) =>
            `${operation}: ${Math.round(busyMs)} ms, ${bytes} bytes, heap +${Math.round(heap / 1024)} KB`,
        ),
  };
}
