/** Durations of requests by method, route template and status, and of the operations that GraphQL requests hold. */

import { moduleOfOperation } from '../../kernel/authority.ts';
import { isValidation } from '../../kernel/errors.ts';
import type { Operation, SurfaceName } from '../../kernel/operations/operation.ts';
import { moduleOf, type OperationRegistry } from '../../kernel/operations/registry.ts';
import type { GaugeReading, Histogram, Metrics } from '../../kernel/telemetry/metrics.ts';
import type { Route } from './route-table.ts';

/*
 * Figures of the work of each module, under the names by which an existing panel asks for them
 * (admin-panel-calls.md, section 8). Modules are parts of one process here: what counts as a call of a module is a
 * request that one of its operations answers, and modules send each other no requests at all.
 */

/** Weight of the newest request in the mean. */
const WEIGHT = 0.05;

interface Calls {
  well: number;
  /** Answered with 4xx or 5xx. */
  badly: number;
}

interface Work {
  readonly calls: Readonly<Record<SurfaceName, Calls>>;
  /** Seconds; a moving mean. */
  latency: number;
}

interface ModuleMetrics {
  /** Whom to tell about each request of an operation that ends with this status. */
  observerOf(operation: Operation, status: number): (seconds: number) => void;
}

export function createModuleMetrics(metrics: Metrics, registry: OperationRegistry): ModuleMetrics {
  const works = new Map<string, Work>();
  const workOf = (module: string): Work => {
    const known = works.get(module);
    if (known) return known;
    const made: Work = {
      calls: { client: { well: 0, badly: 0 }, admin: { well: 0, badly: 0 } },
      latency: 0,
    };
    works.set(module, made);
    return made;
  };
  /** Every module from the start: a query without a result is an error to those who draw it. */
  const reading = (value: (work: Work) => number): GaugeReading => {
    for (const { owner } of registry.all()) workOf(moduleOf(owner));
    return [...works].map(([module, work]) => ({
      labels: { module_name: module },
      value: value(work),
    }));
  };
  const labels = ['module_name'];
  for (const surface of ['admin', 'client'] as const) {
    const on = `on the ${surface} surface by module`;
    const requests = () => reading(({ calls }) => calls[surface].well + calls[surface].badly);
    const failures = () => reading(({ calls }) => calls[surface].badly);
    metrics.total(`${surface}_grpc_requests_total`, `Requests ${on}`, requests, labels);
    metrics.total(
      `${surface}_grpc_errors_total`,
      `Requests answered with 4xx or 5xx ${on}`,
      failures,
      labels,
    );
  }
  metrics.total(
    'internal_grpc_requests_total',
    'Requests between modules; in one process there are none',
    () => reading(() => 0),
    labels,
  );
  metrics.gauge(
    'grpc_request_latency_seconds',
    'Moving mean of the time of requests by module',
    () => reading((work) => work.latency),
    labels,
  );

  return {
    observerOf(operation, status) {
      const work = workOf(moduleOfOperation(operation));
      const outcome = status < 400 ? 'well' : 'badly';
      return (seconds) => {
        work.calls[operation.surface][outcome] += 1;
        work.latency += (seconds - work.latency) * WEIGHT;
      };
    },
  };
}

export type ObserveRequest = (
  route: Route | undefined,
  method: string,
  status: number,
  seconds: number,
) => void;

type Observer = (seconds: number) => void;

/** The label of requests that no route answers: one for all, whatever their paths. */
const NO_ROUTE = 'none';

/** Methods that may become a label; any other is `other`, so that callers cannot make series. */
const known: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
]);

export function createRequestMetrics(
  surface: SurfaceName,
  histogram: Histogram,
  modules: ModuleMetrics,
): ObserveRequest {
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
      const measure = histogram.bind({
        surface,
        method: label,
        route: route?.template ?? NO_ROUTE,
        code: String(status),
      });
      observe = observer(measure, route, status);
      observers.set(key, observe);
    }
    observe(seconds);
  };
}

/** Made once for all surfaces. */
export const requestHistogram = (metrics: Metrics): Histogram =>
  metrics.histogram('http_request_duration_seconds', 'Time from the request to its answer', [
    'surface',
    'method',
    'route',
    'code',
  ]);

/** Told of each operation that a GraphQL request held and that ran; `error`: what refused it. */
export type MeasureField = (operation: string, seconds: number, error?: unknown) => void;

/** Time of root fields, which are operations; a document has as many as it likes. */
export function measureFields(metrics: Metrics): MeasureField {
  const durations = metrics.histogram(
    'graphql_operation_duration_seconds',
    'Time of the operations that GraphQL requests ask for',
    ['operation', 'outcome'],
  );
  const invalid = countInvalid(metrics, 'graphql');
  const succeeded = new Map<string, (seconds: number) => void>();
  return (operation, seconds, error) => {
    if (error !== undefined) {
      durations.observe({ operation, outcome: 'error' }, seconds);
      if (isValidation(error)) invalid(operation);
      return;
    }
    const observe = succeeded.get(operation) ?? durations.bind({ operation, outcome: 'ok' });
    succeeded.set(operation, observe);
    observe(seconds);
  };
}

/** Calls whose input does not fit, whichever way they came. */
export function countInvalid(metrics: Metrics, transport: string) {
  const invalid = metrics.counter(
    'validation_failures_total',
    'Calls that were refused because their input does not fit',
    ['operation', 'transport'],
  );
  return (operation: string): void => invalid.inc({ operation, transport });
}
