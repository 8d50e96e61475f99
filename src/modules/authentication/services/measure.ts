/** Figures of authentication for monitoring, 0 from the start. */
import type { Kernel } from '../../../kernel/kernel.ts';
import { remembered } from '../../../kernel/telemetry/remembered.ts';
import { countSignedIn } from '../session-queries.ts';

/** Existing panels ask by module. */
const labels = { module_name: 'authentication' };
/** Milliseconds; the count reads every session that goes on. */
const RENEW_MS = 30_000;

export function measureUsers({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>): void {
  const read = remembered(RENEW_MS, [{ labels, value: 0 }], async () => [{ labels, value: await countSignedIn(database) }]);
  metrics.gauge('logged_in_users_total', 'Users with a session that goes on, as of the last half minute', read, ['module_name']);
}

/** Counts logins by how they ended. */
export function loginCounter({ metrics }: Pick<Kernel, 'metrics'>): (strategy: string, outcome: string) => void {
  const logins = metrics.counter('login_requests_total', 'Logins by how they ended', ['module_name', 'strategy', 'outcome']);
  logins.inc({ ...labels, strategy: 'local', outcome: 'success' }, 0);
  return (strategy, outcome) => logins.inc({ ...labels, strategy, outcome });
}
