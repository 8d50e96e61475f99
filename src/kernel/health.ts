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
}

export function createHealth(): Health {
  const checks = new Map<string, HealthCheck>();
  return {
    register: (check) => void checks.set(check.name, check),
    checks: () => [...checks.values()],
  };
}
