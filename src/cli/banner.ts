/** What the operator sees once, when the platform is ready. */
import { join } from 'node:path';
import { version } from '../kernel/version.ts';
import type { startPlatform } from '../platform.ts';

/* The running platform, as far as the command line needs it. */

export type StartedPlatform = Awaited<ReturnType<typeof startPlatform>>;

/**
 * @param seconds how long the start took.
 * @param isTerminal whether a person reads this; elsewhere (a container's log) secrets would be kept by strangers.
 */
export function bannerText(
  platform: StartedPlatform,
  seconds: number,
  { isTerminal }: { isTerminal: boolean },
): string {
  const { addresses, database, dataDir, firstStart } = platform;
  const rows: [string, string][] = [
    ['Client surface', `${addresses.client}   (API: ${addresses.clientDocs})`],
    ['Admin surface', `${addresses.admin}   (API: ${addresses.adminDocs})`],
    ['Realtime', addresses.realtime ?? 'off'],
    ['Database', `PostgreSQL ${database.version}, ${database.kind} (${database.location})`],
    ['Data', dataDir],
  ];
  const made: [string, string][] = [];
  if (firstStart.masterKey !== undefined) made.push(['Master key', firstStart.masterKey]);
  if (firstStart.adminPassword !== undefined)
    made.push(['Admin', `${firstStart.adminUsername ?? 'admin'} / ${firstStart.adminPassword}`]);
  const file = join(dataDir, 'secrets.json');
  const printed = `\nMade at the first start, and kept in ${file} (readable only by you):\n${table(made)}\n`;
  const named = `\nMade at the first start: ${made.map(([label]) => label.toLowerCase()).join(' and ')}. Read ${file} (readable only by you).\n`;
  const secrets = made.length === 0 ? '' : isTerminal ? printed : named;
  return `\nPenstock ${version} is ready (${seconds.toFixed(1)} s)\n${table(rows)}\n${secrets}\nStop it with Ctrl-C.\n\n`;
}

function table(rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`).join('\n');
}
