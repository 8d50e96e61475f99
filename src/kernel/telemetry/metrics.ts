/** Prometheus metrics of this process. Names get the configured prefix. Labels hold templates and names, never ids or secrets. */
export interface Metrics {
  counter(name: string, help: string, labels?: readonly string[]): { inc(labels?: Record<string, string>, by?: number): void };
  histogram(
    name: string,
    help: string,
    labels?: readonly string[],
    buckets?: readonly number[],
  ): { observe(labels: Record<string, string>, seconds: number): void };
  /** Read when scraped. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void;
  /** Text exposition format. */
  expose(): Promise<string>;
}
