/** How many apps there are, by platform; 0 from the start. */
import type { Kernel } from '../../../kernel/kernel.ts';
import type { GaugeReading } from '../../../kernel/telemetry/metrics.ts';
import { remembered } from '../../../kernel/telemetry/remembered.ts';
import { countClients, type Platform, platforms } from '../queries.ts';

const RENEW_MS = 30_000;

export function measureClients({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>): void {
  const shown = (counts: ReadonlyMap<Platform, number>): GaugeReading =>
    platforms.map((platform) => ({ labels: { module_name: 'router', platform }, value: counts.get(platform) ?? 0 }));
  const read = remembered(RENEW_MS, shown(new Map()), async () => shown(await countClients(database)));
  metrics.gauge('security_clients_total', 'Registered apps, as of the last half minute', read, ['module_name', 'platform']);
}
