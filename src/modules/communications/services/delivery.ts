/** The jobs that send stored messages, many at a time, and remove old ones. */
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { HealthResult } from '../../../kernel/health.ts';
import { defineBatchJob, defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { lostAfterMs, whileHeld } from '../../../kernel/jobs/while-held.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { purgeBroadcasts } from '../broadcast-queries.ts';
import { purgeChains } from '../chain-queries.ts';
import type { CommunicationsConfig } from '../config.ts';
import {
  type ClaimedMessage,
  claimMessages,
  overtakenOf,
  releaseMessages,
  renewClaims,
  suppressedOf,
} from '../delivery-queries.ts';
import { purgeReports } from '../feedback-queries.ts';
import { purgeNotifications } from '../inbox-queries.ts';
import { type Channel, purgeMessages } from '../queries.ts';
import { type Attempt, type Attempts, createAttempts, type Transports } from './attempts.ts';
import { deliveryJob, enqueueAgain, type Lane, togetherJob } from './delivery-lanes.ts';
import { measureMessages, type ProviderState } from './metrics.ts';
import { type Pace, providersOf } from './providers/in-order.ts';
import type { Delivery } from './providers/outcome.ts';
import type { Relevance } from './relevance.ts';

/** When a message is lost whose first attempt is made by whoever stored it. */
export const lostAfterSeconds = 60;
/** When the queue gives up on an attempt and starts the next. */
const expireInSeconds = 5 * 60;
/** For what breaks here; how often a provider is asked is configured. */
const queueRetries = 60;
const purgeBatch = 5000;

/** Jobs of messages that go together, taken at once. */
const togetherBatch = 2;
/** Messages that are taken at once, and of those, how many are on their way at a time. */
const batchSize = 64;
const atATime = 8;
/** Batches of a node: while one is fetched or put away, the others keep the connections busy. */
const batches = 3;
/** What was not begun by then goes back to the queue: whoever waits behind slow providers is not lost with them. Milliseconds. */
const beginWithinMs = 30_000;

interface Dependencies
  extends Pick<
    Kernel,
    'database' | 'events' | 'secrets' | 'metrics' | 'jobs' | 'hooks' | 'schemas'
  > {
  readonly transports: Transports;
  readonly pace: Pace;
  readonly config: () => CommunicationsConfig;
  readonly log: Logger;
  readonly relevance: Pick<Relevance, 'overtaken'>;
  /** Told when the last attempt of a step of a chain has ended. */
  readonly onStep: (chainId: string) => Promise<void>;
}

/** One attempt while somebody waits. Answers how it ended, or the error of an attempt that failed; nothing when a job has it, or will have it at its time. */
export type DeliverNow = (id: string) => Promise<Delivery | Error | undefined>;

export interface DeliveryHealth {
  readonly waiting: number;
  readonly providers: readonly (ProviderState & {
    readonly channel: Channel;
    readonly provider: string;
  })[];
}

interface DeliveryService {
  readonly deliverNow: DeliverNow;
  /** Channels whose provider refuses our credentials, or failed several times running, as this node saw it; nothing is asked. */
  failing(): HealthResult;
  /** The providers of all channels in the order in which they are asked, and how each did lately. */
  health(): Promise<DeliveryHealth>;
  readonly jobs: readonly JobDefinition[];
}

export function createDelivery(dependencies: Dependencies): DeliveryService {
  const { database, jobs } = dependencies;
  const waiting = async (): Promise<number> =>
    (await jobs.waiting(deliveryJob)) + (await jobs.waiting(togetherJob, 'ids'));
  const measures = measureMessages(dependencies, waiting);
  const attempts = createAttempts({ ...dependencies, measures });
  const sender = { ...dependencies, attempts };
  const providers = (): DeliveryHealth['providers'] =>
    (['email', 'sms', 'push'] as const).flatMap((channel) =>
      providersOf(dependencies.config(), channel).map((provider) => ({
        channel,
        provider,
        ...measures.stateOf(channel, provider),
      })),
    );

  return {
    async deliverNow(id) {
      // What a provider took cannot be taken back with the caller's transaction: a job sends it once that is committed.
      if (database.inTransaction()) {
        await jobs.enqueue(deliveryJob, { id });
        return undefined;
      }
      const [message] = (await claimMessages(database, [id], { lostAfterMs, onlyDue: true }))
        .claimed;
      if (!message) return undefined;
      const ended = await whileTaken(dependencies, [id], async () => {
        const suppressed = await stoppedOf(dependencies, [message]);
        const { ended: end, noted } = await attempts.make(message, suppressed.get(id));
        await noted();
        return end;
      });
      if (!('error' in ended)) return ended;
      const { error, last, pauseSeconds: startAfterSeconds } = ended;
      if (!last) await jobs.enqueue(deliveryJob, { id }, { startAfterSeconds });
      return error instanceof Error ? error : new Error('The delivery failed');
    },
    failing() {
      const { email, sms, pushNotifications: push } = dependencies.config();
      const switches = { email, sms, push };
      return healthOf(providers().filter(({ channel }) => switches[channel].active));
    },
    health: async () => ({ waiting: await waiting(), providers: providers() }),
    jobs: [...deliveryJobs(sender), purgeJob(dependencies)],
  };
}

const Id = Type.String({ format: 'uuid' });

function deliveryJobs(sender: Sender): readonly JobDefinition[] {
  const facts = { retries: queueRetries, expireInSeconds };
  return [
    defineBatchJob({
      ...facts,
      name: deliveryJob,
      data: Type.Object({ id: Id }),
      batch: {
        size: batchSize,
        atOnce: batches,
        async handler(all, { signal }) {
          const ids = all.map(({ id }) => id);
          await deliverAll(sender, { ids, lane: 'alone', signal });
          return new Map();
        },
      },
    }),
    defineBatchJob({
      ...facts,
      name: togetherJob,
      data: Type.Object({ ids: Type.Array(Id) }),
      batch: {
        size: togetherBatch,
        atOnce: batches,
        async handler(all, { signal }) {
          const ids = all.flatMap((one) => one.ids);
          await deliverAll(sender, { ids, lane: 'together', signal });
          return new Map();
        },
      },
    }),
  ];
}

/** So many failures running are no accident any more. Refused credentials never are. */
const failingAfter = 3;

/** Messages wait in the queue meanwhile, so that the platform stays ready. What a provider said may hold addresses. */
function healthOf(providers: DeliveryHealth['providers']): HealthResult {
  const failing = providers.filter(
    ({ failures, refusesKey }) => refusesKey || failures >= failingAfter,
  );
  if (failing.length === 0) return { status: 'pass' };
  const list = failing.map(
    ({ channel, provider, failures, refusesKey }) =>
      `${channel} by ${provider} (${failures}${refusesKey ? ', our credentials are refused' : ''})`,
  );
  return { status: 'warn', message: `failures running: ${list.join(', ')}` };
}

interface Sender extends Dependencies {
  readonly attempts: Attempts;
}

interface Batch {
  readonly ids: readonly string[];
  readonly lane: Lane;
  readonly signal: AbortSignal;
}

/** Does something with messages that were taken. */
const whileTaken = <T>(
  { database, log }: Pick<Dependencies, 'database' | 'log'>,
  ids: readonly string[],
  work: () => Promise<T>,
): Promise<T> => whileHeld({ renew: () => renewClaims(database, ids), log }, work);

/** Why some of these do not go out. Much may have changed since they were written: they wait for their time, or are tried again. */
async function stoppedOf(
  { database, schemas, relevance }: Pick<Dependencies, 'database' | 'schemas' | 'relevance'>,
  messages: readonly ClaimedMessage[],
): Promise<ReadonlyMap<string, string>> {
  const withUsers = schemas.get('User') !== undefined;
  const [overtaken, suppressed] = await Promise.all([
    overtakenOf(database, messages, withUsers),
    suppressedOf(database, messages),
  ]);
  const asked = overtaken.flatMap((one) => (one.reason === null ? [one] : []));
  const reasons = new Map((await relevance.overtaken(asked)).map((id) => [id, noConcern]));
  for (const { id, reason } of overtaken) if (reason !== null) reasons.set(id, reason);
  return new Map([...reasons, ...suppressed]);
}

const noConcern = 'it does not concern them any more';

/** One attempt of each. What failed waits in the queue for the next one. */
async function deliverAll(sender: Sender, batch: Batch): Promise<void> {
  const taken = await claimMessages(sender.database, batch.ids, { lostAfterMs });
  const ids = taken.claimed.map(({ id }) => id);
  await whileTaken(sender, ids, () => deliverTaken(sender, batch, taken));
}

async function deliverTaken(
  sender: Sender,
  { lane, signal }: Omit<Batch, 'ids'>,
  { claimed, busy }: Awaited<ReturnType<typeof claimMessages>>,
): Promise<void> {
  const { database, jobs, attempts } = sender;
  const suppressed = await stoppedOf(sender, claimed);
  const { turns, later } = await takeTurns(sender, claimed, lane);
  const wait = (seconds: number, some: readonly string[]): void =>
    void later.set(seconds, [...(later.get(seconds) ?? []), ...some]);
  // Whoever has these may be lost.
  if (busy.length > 0) wait(lostAfterSeconds, busy);
  const beginBy = Date.now() + beginWithinMs;
  const untouched: string[] = [];
  const notes: Attempt['noted'][] = [];

  const work = async (): Promise<void> => {
    for (let turn = turns.shift(); turn; turn = turns.shift()) {
      const { message, at } = turn;
      if (signal.aborted || Date.now() > beginBy) {
        untouched.push(message.id);
        continue;
      }
      if (at > Date.now()) await sleep(at - Date.now());
      const { ended, noted } = await attempts.make(message, suppressed.get(message.id));
      notes.push(noted);
      if ('error' in ended && !ended.last) wait(ended.pauseSeconds, [message.id]);
    }
  };

  const working = await Promise.allSettled(Array.from({ length: atATime }, work));
  const noting = await Promise.allSettled(notes.map((noted) => noted()));
  const [broken] = [...working, ...noting].filter((one) => one.status === 'rejected');
  if (broken && turns.length > 0) untouched.push(...turns.map(({ message }) => message.id));
  if (untouched.length > 0) {
    await releaseMessages(database, untouched);
    wait(1, untouched);
  }
  await enqueueAgain(jobs, lane, later);
  if (broken) throw broken.reason;
}

interface Turn {
  readonly message: ClaimedMessage;
  /** Not before. */
  readonly at: number;
}

/**
 * When each message may go, by the limits of the providers. What does not fit into the next seconds goes back to the
 * queue, by the seconds until there is room.
 */
async function takeTurns(
  { database, pace, config }: Sender,
  claimed: readonly ClaimedMessage[],
  lane: Lane,
): Promise<{ readonly turns: Turn[]; readonly later: Map<number, string[]> }> {
  const turns: Turn[] = [];
  const later = new Map<number, string[]>();
  for (const [channel, messages] of Map.groupBy(claimed, (message) => message.channel)) {
    const [provider = ''] = providersOf(config(), channel);
    const { waits, laterSeconds } = await pace.reserve(provider, messages.length, lane);
    const now = Date.now();
    for (const [place, wait] of waits.entries()) {
      const message = messages[place];
      if (message) turns.push({ message, at: now + wait });
    }
    const rest = messages.slice(waits.length).map(({ id }) => id);
    if (rest.length === 0) continue;
    await releaseMessages(database, rest);
    later.set(laterSeconds, [...(later.get(laterSeconds) ?? []), ...rest]);
  }
  turns.sort((one, other) => one.at - other.at);
  return { turns, later };
}

const purgeJob = ({ database, config }: Dependencies): JobDefinition =>
  defineJob({
    name: 'communications.purge-messages',
    data: Type.Object({}),
    schedule: '47 * * * *',
    async handler(_data, { signal, log }) {
      const { messages, pushNotifications } = config();
      const inBatches = async (purge: () => Promise<number>): Promise<number> => {
        let total = 0;
        for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; total += gone)
          gone = await purge();
        return total;
      };
      const rows = await inBatches(() => purgeMessages(database, messages.retention, purgeBatch));
      const entries = await inBatches(() =>
        purgeNotifications(database, pushNotifications.inbox.retention, purgeBatch),
      );
      await purgeBroadcasts(database, messages.retention);
      await purgeReports(database);
      await purgeChains(database, messages.retention);
      if (rows + entries > 0) log.info({ rows, entries }, 'Purged old messages');
    },
  });
