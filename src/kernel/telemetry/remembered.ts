/**
 * A figure that costs a query, asked for at most once in `forMs`: scrapes come as often as they like. While it
 * cannot be had, the last one stands, so that monitoring goes on when the database does not.
 */
import type { GaugeReading } from './metrics.ts';

export function remembered(forMs: number, first: GaugeReading, read: () => Promise<GaugeReading>): () => Promise<GaugeReading> {
  let known = first;
  let until = 0;
  return async () => {
    const now = performance.now();
    if (until > now) return known;
    until = now + forMs;
    known = await read().catch(() => known);
    return known;
  };
}
