/** The report of `/ready` (spec/core.md 5.1): all checks in parallel, bounded in time, at most once a second. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { ModuleDirectory, ModuleState } from '../../../host/kernel.ts';
import type { Health, HealthCheck, HealthResult, HealthStatus } from '../../../kernel/health.ts';
import type { ReadySettings } from '../../../kernel/settings/settings.ts';

export interface CheckReport {
  readonly name: string;
  readonly status: HealthStatus;
  readonly message?: string;
  readonly latencyMs: number;
}

export interface ReadyReport {
  readonly status: 'ready' | 'not_ready';
  readonly message: string;
  readonly checks: readonly CheckReport[];
  /** ISO 8601, of the moment the checks ended. */
  readonly timestamp: string;
}

export interface Readiness {
  /** Everything; answered from memory for a second. */
  full(): Promise<ReadyReport>;
  /** Only whether the required modules serve: asks nothing of the database or the cache store. */
  shallow(): ReadyReport;
}

export interface ReadinessOptions {
  readonly health: Health;
  readonly modules: ModuleDirectory;
  readonly settings: ReadySettings;
  /** Looks at what the checks tell of and nobody is asked about otherwise. It may fail. */
  readonly look?: (() => Promise<void>) | undefined;
}

const CACHE_MS = 1_000;
/** Milliseconds after which `look` looks again, when somebody asks. */
const LOOK_AGAIN_MS = 30_000;
const MODULE_PREFIX = 'modules.';

export function createReadiness(options: ReadinessOptions): Readiness {
  let cached: { readonly report: Promise<ReadyReport>; readonly until: number } | undefined;
  let lookAgain = 0;
  /** Later looks go on while the answer is given. */
  const looked = async (): Promise<void> => {
    const isFirst = lookAgain === 0;
    if (!options.look || performance.now() < lookAgain) return;
    lookAgain = performance.now() + LOOK_AGAIN_MS;
    const looking = options.look().catch(() => undefined);
    const tooLong = sleep(options.settings.totalTimeoutMs / 2, undefined, { ref: false });
    if (isFirst) await Promise.race([looking, tooLong]);
  };
  return {
    full() {
      if (options.health.isStopping()) return Promise.resolve(reportOf([stopping]));
      const now = performance.now();
      if (!cached || cached.until <= now)
        cached = { report: looked().then(() => fullReport(options)), until: now + CACHE_MS };
      return cached.report;
    },
    shallow: () =>
      options.health.isStopping()
        ? reportOf([stopping])
        : reportOf(
            [initialized, ...moduleReports(options)].filter(({ status }) => status !== 'warn'),
          ),
  };
}

const stopping: CheckReport = {
  name: 'core.stopping',
  status: 'fail',
  message: 'the platform stops',
  latencyMs: 0,
};
const initialized: CheckReport = { name: 'core.initialized', status: 'pass', latencyMs: 0 };

async function fullReport(options: ReadinessOptions): Promise<ReadyReport> {
  const { health, settings } = options;
  const requested = health.checks().filter((check) => isRequested(check, settings));
  const whole = AbortSignal.timeout(settings.totalTimeoutMs);
  const ran = await Promise.all(requested.map((check) => runCheck(check, settings, whole)));
  const probed = new Set(ran.map(({ name }) => name));
  return reportOf([
    initialized,
    ...ran,
    ...moduleReports(options).filter(({ name }) => !probed.has(name)),
  ]);
}

function isRequested({ name }: HealthCheck, settings: ReadySettings): boolean {
  if (name === 'redis') return settings.checkRedis;
  return settings.probeModulesActive || !name.startsWith(MODULE_PREFIX);
}

function limitOf(name: string, settings: ReadySettings): number {
  if (name === 'redis') return settings.redisTimeoutMs;
  return name.startsWith(MODULE_PREFIX) ? settings.moduleTimeoutMs : settings.totalTimeoutMs;
}

async function runCheck(
  check: HealthCheck,
  settings: ReadySettings,
  whole: AbortSignal,
): Promise<CheckReport> {
  const started = performance.now();
  const signal = AbortSignal.any([whole, AbortSignal.timeout(limitOf(check.name, settings))]);
  const { status, message } = await Promise.race([check.run(signal), timedOut(signal)]).catch(
    failed,
  );
  return {
    name: check.name,
    status,
    ...(message === undefined ? {} : { message }),
    latencyMs: Math.round((performance.now() - started) * 10) / 10,
  };
}

const timedOut = (signal: AbortSignal): Promise<HealthResult> =>
  new Promise((resolve) => {
    signal.addEventListener(
      'abort',
      () => resolve({ status: 'fail', message: 'did not answer in time' }),
      { once: true },
    );
  });

/** The reason is in the log of whoever owns the dependency; it may hold addresses, so it stays out of here. */
const failed = (): HealthResult => ({ status: 'fail', message: 'does not answer' });

function moduleReports({ modules, settings }: ReadinessOptions): readonly CheckReport[] {
  const states = modules.list();
  const missing = settings.requiredModules.filter(
    (name) => !states.some((state) => state.name === name),
  );
  return [
    ...states.map((state) => moduleReport(state, settings)),
    ...missing.map((name) => ({
      name: MODULE_PREFIX + name,
      status: 'fail' as const,
      message: 'not registered',
      latencyMs: 0,
    })),
  ];
}

function moduleReport({ name, serving, note }: ModuleState, settings: ReadySettings): CheckReport {
  const bad = settings.strict || settings.requiredModules.includes(name) ? 'fail' : 'warn';
  const degraded = note === undefined ? 'pass' : 'warn';
  const message = serving
    ? note
    : ['not serving', note].filter((part) => part !== undefined).join(': ');
  return {
    name: MODULE_PREFIX + name,
    status: serving ? degraded : bad,
    ...(message === undefined ? {} : { message }),
    latencyMs: 0,
  };
}

function reportOf(checks: readonly CheckReport[]): ReadyReport {
  const failing = checks.filter(({ status }) => status === 'fail').map(({ name }) => name);
  return {
    status: failing.length === 0 ? 'ready' : 'not_ready',
    message:
      failing.length === 0 ? 'Penstock is ready' : `Penstock is not ready: ${failing.join(', ')}`,
    checks,
    timestamp: new Date().toISOString(),
  };
}
