/**
 * Traces: how long each part of a request took, for a collector that speaks
 * OTLP. Off (no collector configured) there is no tracing object at all, and
 * nobody pays for it.
 */

/** Facts about a span. Names follow OpenTelemetry's semantic conventions; never values of users. */
export type SpanFacts = Readonly<Record<string, string | number | boolean>>;

/** The span that is running. */
export interface ActiveSpan {
  add(facts: SpanFacts): void;
  /** For what is known only when the work is done, such as the route of a request. */
  rename(name: string): void;
  /** Marks it as failed without an error being thrown (a 5xx that was answered). */
  fail(): void;
}

export interface Tracing {
  /** Runs `work` as a part of what is running, found through the asynchronous flow; where nothing is, nothing is noted. */
  span<T>(name: string, facts: SpanFacts, work: (span: ActiveSpan) => Promise<T>): Promise<T>;
  /**
   * Runs `work` as a request from outside. Where `headers` name a trace of the caller (W3C Trace Context), the one of the
   * request is linked to it, or goes on with it where callers are trusted.
   */
  request<T>(
    name: string,
    headers: Readonly<Record<string, string | readonly string[] | undefined>>,
    work: (span: ActiveSpan) => Promise<T>,
  ): Promise<T>;
  /** Sends what is left. */
  close(): Promise<void>;
}
