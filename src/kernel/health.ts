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

/** A stored definition that cannot be used, and why. */
export interface LeftOut {
  readonly name: string;
  readonly reason: string;
}

export interface Health {
  register(check: HealthCheck): void;
  /** Those of one kind (`schemas`, `functions`) that are left out now; takes the place of what was said of the kind before. */
  leaveOut(kind: string, found: readonly LeftOut[]): void;
  checks(): readonly HealthCheck[];
  /** From now on the platform is not ready: it is about to stop. */
  beginStop(): void;
  isStopping(): boolean;
}

export function createHealth(): Health {
  const checks = new Map<string, HealthCheck>();
  const leftOut = new Map<string, readonly LeftOut[]>();
  let stopping = false;
  return {
    register: (check) => void checks.set(check.name, check),
    leaveOut(kind, found) {
      leftOut.set(kind, found);
      if (found.length > 0)
        checks.set(storedDefinitions, {
          name: storedDefinitions,
          run: async () => leftOutResult(leftOut),
        });
    },
    checks: () => [...checks.values()],
    beginStop() {
      stopping = true;
    },
    isStopping: () => stopping,
  };
}

const storedDefinitions = 'stored.definitions';
/** Names that are told of one kind. */
const NAMED = 5;

function leftOutResult(leftOut: ReadonlyMap<string, readonly LeftOut[]>): HealthResult {
  const told = [...leftOut].flatMap(([kind, found]) => {
    if (found.length === 0) return [];
    const names = found.slice(0, NAMED).map(({ name }) => name);
    return [
      `${kind}: ${names.join(', ')}${found.length > NAMED ? ` and ${found.length - NAMED} more` : ''}`,
    ];
  });
  if (told.length === 0) return { status: 'pass' };
  return { status: 'warn', message: `stored definitions are left out: ${told.join('; ')}` };
}
