/** Prometheus metrics of this process. Names get the configured prefix. Labels hold templates and names, never ids or secrets. */
export interface Metrics {
  counter(
    name: string,
    help: string,
    labels?: readonly string[],
  ): { inc(labels?: Record<string, string>, by?: number): void };
  histogram(
    name: string,
    help: string,
    labels?: readonly string[],
    buckets?: readonly number[],
  ): Histogram;
  /** Read when scraped. */
  gauge(
    name: string,
    help: string,
    read: () => GaugeReading | Promise<GaugeReading>,
    labels?: readonly string[],
  ): void;
  /** A counter whose figures are kept elsewhere, read when scraped. */
  total(name: string, help: string, read: () => GaugeReading, labels?: readonly string[]): void;
  /** Text exposition format. */
  expose(): Promise<string>;
}

/** One figure, or one for each set of labels. */
export type GaugeReading =
  | number
  | readonly { readonly labels: Record<string, string>; readonly value: number }[];

export interface Histogram {
  observe(labels: Record<string, string>, seconds: number): void;
  /** Resolves the labels once; the answer costs next to nothing per call. For hot paths with known label values. */
  bind(labels: Record<string, string>): (seconds: number) => void;
}

/*
 * A figure that costs a query, asked for at most once in `forMs`: scrapes come as often as they like. While it
 * cannot be had, the last one stands, so that monitoring goes on when the database does not.
 */

export function remembered<T = GaugeReading>(
  forMs: number,
  first: T,
  read: () => Promise<T>,
): () => Promise<T> {
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
