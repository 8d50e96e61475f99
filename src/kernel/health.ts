/** Checks that `/ready` runs (spec/core.md 5). Whoever owns a dependency registers its check. */
export type HealthStatus = 'pass' | 'warn' | 'fail';

export interface HealthResult {
  readonly status: HealthStatus;
  readonly message?: string;
}

export interface HealthCheck {
  /** `database`, `redis`, `config.sync`, `modules.<name>`. */
  readonly name: string;
  run(signal: AbortSignal): Promise<HealthResult>;
}

export interface Health {
  register(check: HealthCheck): void;
  checks(): readonly HealthCheck[];
  /** From now on the platform is not ready: it is about to stop. */
  beginStop(): void;
  isStopping(): boolean;
}

export function createHealth(): Health {
  const checks = new Map<string, HealthCheck>();
  let stopping = false;
  return {
    register: (check) => void checks.set(check.name, check),
    checks: () => [...checks.values()],
    beginStop() {
      stopping = true;
    },
    isStopping: () => stopping,
  };
}
