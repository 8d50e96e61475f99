/**
 * A histogram that costs nanoseconds per observation: each label set has its
 * own counters, looked up once (`bind`); text is made when it is scraped.
 */
import type { Histogram } from './metrics.ts';

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

export interface CollectableHistogram extends Histogram {
  samples(): readonly Sample[];
}

/** `bounds`: upper bounds in seconds, ascending. */
export function createHistogram(name: string, labelNames: readonly string[], bounds: readonly number[]): CollectableHistogram {
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

function samplesOf(name: string, bounds: readonly number[], { labels, counts, sum }: Series): readonly Sample[] {
  let total = 0;
  const buckets = [...bounds, '+Inf' as const].map((le, i): Sample => {
    total += counts[i] ?? 0;
    return { metricName: `${name}_bucket`, value: total, labels: { ...labels, le } };
  });
  return [...buckets, { metricName: `${name}_sum`, value: sum, labels }, { metricName: `${name}_count`, value: total, labels }];
}
