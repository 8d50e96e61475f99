/** One run: write, hurt, let it heal, compare. */
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '../../test/support/wait-for.ts';
import type { Cluster } from './cluster.ts';
import { type Failure, failures } from './failures.ts';
import { createJournal, type Findings, type Journal, verify, writesOf } from './journal.ts';
import { prepare, startWorkload } from './workload.ts';

export interface RunOptions {
  /** Seconds after which nothing new is begun, whatever else is requested. */
  readonly seconds: number;
  /** It goes on until each failure happened, so many processes were ended and so many writes acknowledged, if there is time. */
  readonly kills: number;
  readonly writes: number;
  readonly writers: number;
  /** Milliseconds between the end of a failure and the next one. */
  readonly restMs: number;
  readonly say?: (text: string) => void;
}

export interface Outcome extends Findings {
  readonly cluster: string;
  readonly seconds: number;
  readonly journal: Journal;
  readonly kills: number;
  /** How often each failure happened. */
  readonly failures: Readonly<Record<string, number>>;
}

export async function runNemesis(cluster: Cluster, options: RunOptions): Promise<Outcome> {
  const { say = () => undefined } = options;
  const journal = createJournal();
  await prepare(cluster);
  const begin = Date.now();
  const workload = await startWorkload({ cluster, journal, writers: options.writers });
  const happened = await hurt(cluster, journal, { ...options, say });
  await cluster.caughtUp();
  await workload.stop();
  await cluster.caughtUp();
  say('comparing');
  const findings = await compare(cluster, journal);
  const kills = failures
    .filter(({ kills }) => kills)
    .reduce((sum, { name }) => sum + (happened[name] ?? 0), 0);
  return {
    ...findings,
    cluster: cluster.name,
    seconds: Math.round((Date.now() - begin) / 1_000),
    journal,
    kills,
    failures: happened,
  };
}

/** All failures in turn, until there was enough of everything. */
async function hurt(
  cluster: Cluster,
  journal: Journal,
  options: RunOptions & { say: (text: string) => void },
): Promise<Record<string, number>> {
  const happened: Record<string, number> = {};
  const possible = failures.filter((failure) => failure.possible(cluster));
  const until = Date.now() + options.seconds * 1_000;
  let kills = 0;
  const isUnfinished = (turn: number) =>
    turn < possible.length || kills < options.kills || writesOf(journal) < options.writes;
  for (let turn = 0; Date.now() < until && isUnfinished(turn); turn += 1) {
    await sleep(options.restMs);
    const failure = possible[turn % possible.length] as Failure;
    options.say(`${failure.name} (${writesOf(journal)} writes acknowledged, ${kills} kills)`);
    await failure.run(cluster, Math.floor(turn / possible.length));
    happened[failure.name] = (happened[failure.name] ?? 0) + 1;
    if (failure.kills) kills += 1;
    await cluster.caughtUp();
  }
  return happened;
}

async function compare(cluster: Cluster, journal: Journal): Promise<Findings> {
  for (const token of journal.endedTokens) {
    for (const [index, node] of cluster.nodes.entries()) {
      const { status } = await node.client
        .with({ authorization: `Bearer ${token}` })
        .get('/authentication/user');
      if (status === 200) journal.stale.push(`a session that had ended, node ${index}, at the end`);
    }
  }
  const database = await cluster.connect();
  try {
    const waiting = `select from penstock.outbox o, penstock.outbox_state s where not pg_visible_in_snapshot(o.xid, s.snapshot) limit 1`;
    const published = async () => (await database.query(waiting)).rows.length === 0;
    await waitFor(published, { timeoutMs: 60_000, what: 'the relay to publish everything' });
    return await verify(journal, database);
  } finally {
    await database.end();
  }
}

const examples = (found: readonly string[]): string =>
  found
    .slice(0, 5)
    .map((text) => `\n    ${text}`)
    .join('');

/** A few lines that say what was done and found. */
export function report(outcome: Outcome): string {
  const { journal, lost, doubled, events } = outcome;
  const acknowledged = Object.entries(journal.acknowledged).map(
    ([kind, count]) => `${kind} ${count}`,
  );
  const happened = Object.entries(outcome.failures).map(([name, count]) => `${name} ${count}`);
  const open = [...journal.entries].filter((entry) => entry.open).length;
  return [
    `${outcome.cluster}: ${outcome.seconds} s, ${writesOf(journal)} acknowledged writes, ${outcome.kills} kills`,
    `  writes   ${acknowledged.join(', ')}; ${open} without an answer`,
    `  failures ${happened.join(', ')}`,
    `  beside   ${journal.hostile} hostile requests, ${journal.probes} questions after a revocation`,
    `  lost     ${lost.length}${examples(lost)}`,
    `  doubled  ${doubled.length}${examples(doubled)}`,
    `  stale    ${journal.stale.length}${examples(journal.stale)}`,
    `  events   ${events.length} wrong${examples(events)}`,
    `  500      ${journal.internal.length}${examples(journal.internal)}`,
  ].join('\n');
}

/** Whether everything that was promised was kept. */
export const isClean = ({ lost, doubled, events, journal }: Outcome): boolean =>
  [lost, doubled, events, journal.stale].every((found) => found.length === 0);
