/** Prometheus metrics of this process, in a registry of our own. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client';
import type { Settings } from '../settings/settings.ts';
import { StartError } from '../start-error.ts';
import type { GaugeReading, Histogram, Metrics } from './metrics.ts';

/*
 * A histogram that costs nanoseconds per observation: each label set has its
 * own counters, looked up once (`bind`); text is made when it is scraped.
 */

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** One per bucket, not cumulative; the last one is beyond all bounds. */
  readonly counts: Float64Array;
  sum: number;
}

interface Sample {
  readonly metricName: string;
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
}

interface CollectableHistogram extends Histogram {
  samples(): readonly Sample[];
}

/** `bounds`: upper bounds in seconds, ascending. */
function createHistogram(
  name: string,
  labelNames: readonly string[],
  bounds: readonly number[],
): CollectableHistogram {
  const all = new Map<string, Series>();

  const seriesOf = (labels: Record<string, string>): Series => {
    const key = JSON.stringify(labelNames.map((label) => labels[label] ?? ''));
    const known = all.get(key);
    if (known) return known;
    const clean = Object.fromEntries(labelNames.map((label) => [label, labels[label] ?? '']));
    const series: Series = { labels: clean, counts: new Float64Array(bounds.length + 1), sum: 0 };
    all.set(key, series);
    return series;
  };

  const observe = (series: Series, seconds: number): void => {
    let bucket = 0;
    while (bucket < bounds.length && seconds > (bounds[bucket] ?? 0)) bucket++;
    series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
    series.sum += seconds;
  };

  return {
    observe: (labels, seconds) => observe(seriesOf(labels), seconds),
    bind(labels) {
      const series = seriesOf(labels);
      return (seconds) => observe(series, seconds);
    },
    samples: () => [...all.values()].flatMap((series) => samplesOf(name, bounds, series)),
  };
}

function samplesOf(
  name: string,
  bounds: readonly number[],
  { labels, counts, sum }: Series,
): readonly Sample[] {
  let total = 0;
  const buckets = [...bounds, '+Inf' as const].map((le, i): Sample => {
    total += counts[i] ?? 0;
    return { metricName: `${name}_bucket`, value: total, labels: { ...labels, le } };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, value: sum, labels },
    { metricName: `${name}_count`, value: total, labels },
  ];
}

/** Seconds. From a cached read to the deadline of a handler. */
const defaultBuckets: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];

/**
 * Names get `metricsPrefix`; those of the process itself too. Asking twice for a name answers the
 * same metric, so that a module may be switched off and on; a gauge then reads through its new reader.
 */
export function createMetrics(settings: Pick<Settings, 'metricsPrefix' | 'metricsPort'>): Metrics {
  const registry = new Registry();
  const prefix = settings.metricsPrefix;
  // These start observers that cost a little all the time: only when somebody can read them.
  if (settings.metricsPort !== undefined) collectDefaultMetrics({ register: registry, prefix });
  const counters = new Map<string, Counter>();
  const histograms = new Map<string, Histogram>();
  const readers = new Map<string, () => GaugeReading | Promise<GaugeReading>>();

  return {
    counter(name, help, labels = []) {
      const counter =
        counters.get(name) ??
        new Counter({ name: prefix + name, help, labelNames: [...labels], registers: [registry] });
      counters.set(name, counter);
      return { inc: (values, by = 1) => (values ? counter.inc(values, by) : counter.inc(by)) };
    },
    histogram(name, help, labels = [], buckets = defaultBuckets) {
      const histogram =
        histograms.get(name) ??
        registerHistogram(registry, { name: prefix + name, help, labels, buckets });
      histograms.set(name, histogram);
      return histogram;
    },
    gauge(name, help, read, labels = []) {
      const known = readers.has(name);
      readers.set(name, read);
      if (!known)
        registerGauge(
          registry,
          { name: prefix + name, help, labels },
          async () => readers.get(name)?.() ?? 0,
        );
    },
    total(name, help, read, labels = []) {
      const known = readers.has(name);
      readers.set(name, read);
      if (!known)
        registerTotal(
          registry,
          { name: prefix + name, help, labels },
          async () => readers.get(name)?.() ?? 0,
        );
    },
    expose: () => registry.metrics(),
  };
}

interface MetricDefinition {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
}

interface HistogramDefinition extends MetricDefinition {
  readonly buckets: readonly number[];
}

function registerHistogram(
  registry: Registry,
  { name, help, labels, buckets }: HistogramDefinition,
): Histogram {
  const histogram = createHistogram(name, labels, buckets);
  const facts = { name, help, type: 'histogram', aggregator: 'sum' };
  // The registry reads these members of a metric and no others.
  const metric = {
    ...facts,
    get: async () => ({ ...facts, values: histogram.samples() }),
    reset: () => undefined,
  };
  registry.registerMetric(metric as unknown as Metric);
  return histogram;
}

/** A figure that cannot be had now stays as it was: without the database all others are needed more than ever. */
const known = (read: () => Promise<GaugeReading>): Promise<GaugeReading | undefined> =>
  read().catch(() => undefined);

function registerTotal(
  registry: Registry,
  { name, help, labels }: MetricDefinition,
  read: () => Promise<GaugeReading>,
): void {
  new Counter({
    name,
    help,
    labelNames: [...labels],
    registers: [registry],
    async collect() {
      const reading = await known(read);
      if (reading === undefined) return;
      this.reset();
      if (typeof reading === 'number') return this.inc(reading);
      for (const { labels: values, value } of reading) this.inc(values, value);
    },
  });
}

function registerGauge(
  registry: Registry,
  { name, help, labels }: MetricDefinition,
  read: () => Promise<GaugeReading>,
): void {
  new Gauge({
    name,
    help,
    labelNames: [...labels],
    registers: [registry],
    async collect() {
      const reading = await known(read);
      if (reading === undefined) return;
      if (typeof reading === 'number') return this.set(reading);
      // What is no longer there is no longer shown.
      this.reset();
      for (const { labels: values, value } of reading) this.set(values, value);
    },
  });
}

/* `GET /metrics` on a port of its own, so that figures are never on a public surface by accident. */

export interface MetricsServer {
  /** Such as `http://127.0.0.1:9091`. */
  readonly address: string;
  close(): Promise<void>;
}

type MetricsSettings = Pick<Settings, 'metricsPort' | 'metricsHost' | 'metricsToken'>;

/** `undefined` unless METRICS_PORT is set. Throws `StartError` when the port cannot be used. */
export async function startMetricsServer(
  settings: MetricsSettings,
  metrics: Metrics,
): Promise<MetricsServer | undefined> {
  const { metricsPort, metricsHost, metricsToken } = settings;
  if (metricsPort === undefined) return undefined;
  const server = createServer(
    (request, response) => void answer(request, response, metrics, metricsToken),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new StartError(
          `Metrics cannot be served on ${metricsHost}:${metricsPort}: set METRICS_PORT or METRICS_HOST`,
          { cause },
        ),
      ),
    );
    server.listen(metricsPort, metricsHost, resolve);
  });
  const { address, port, family } = server.address() as AddressInfo;
  return {
    address: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  metrics: Metrics,
  token: string | undefined,
): Promise<void> {
  if (token !== undefined && !presents(request, token)) {
    response
      .writeHead(401, { 'www-authenticate': 'Bearer', 'content-type': 'text/plain' })
      .end('This needs the metrics token\n');
    return;
  }
  const path = request.url?.split('?', 1)[0];
  if (path !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('Metrics are at GET /metrics\n');
    return;
  }
  try {
    const text = await metrics.expose();
    response
      .writeHead(200, {
        'content-type': 'text/plain; version=0.0.4; charset=utf-8',
        'cache-control': 'no-store',
      })
      .end(text);
  } catch {
    response.writeHead(500, { 'content-type': 'text/plain' }).end('The figures cannot be shown\n');
  }
}

function presents(request: IncomingMessage, token: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(request.headers.authorization ?? ''), digest(`Bearer ${token}`));
}
