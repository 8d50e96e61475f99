/** Durations of requests by method, route template and status. */

import type { SurfaceName } from '../../kernel/operation.ts';
import type { Histogram, Metrics } from '../../kernel/telemetry/metrics.ts';
import type { ModuleMetrics } from './module-metrics.ts';
import type { Route } from './route-table.ts';

export type ObserveRequest = (route: Route | undefined, method: string, status: number, seconds: number) => void;

type Observer = (seconds: number) => void;

/** The label of requests that no route answers: one for all, whatever their paths. */
const NO_ROUTE = 'none';

/** Methods that may become a label; any other is `other`, so that callers cannot make series. */
const known: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

export function createRequestMetrics(surface: SurfaceName, histogram: Histogram, modules: ModuleMetrics): ObserveRequest {
  const byRoute = new WeakMap<Route, Map<string, Observer>>();
  const unrouted = new Map<string, Observer>();
  const observer = (measure: Observer, route: Route | undefined, status: number): Observer => {
    if (!route) return measure;
    const tell = modules.observerOf(route.compiled.operation, status);
    return (seconds) => {
      measure(seconds);
      tell(seconds);
    };
  };
  return (route, method, status, seconds) => {
    let observers = route ? byRoute.get(route) : unrouted;
    if (!observers) {
      observers = new Map();
      if (route) byRoute.set(route, observers);
    }
    const label = known.has(method) ? method : 'other';
    const key = status === 200 ? label : `${label} ${status}`;
    let observe = observers.get(key);
    if (!observe) {
      const measure = histogram.bind({ surface, method: label, route: route?.template ?? NO_ROUTE, code: String(status) });
      observe = observer(measure, route, status);
      observers.set(key, observe);
    }
    observe(seconds);
  };
}

/** Made once for all surfaces. */
export const requestHistogram = (metrics: Metrics): Histogram =>
  metrics.histogram('http_request_duration_seconds', 'Time from the request to its answer', ['surface', 'method', 'route', 'code']);
