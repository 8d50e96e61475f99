/**
 * A message that tries one channel after the other until one has reached its recipient. Where a chain stands is one row,
 * which is locked, looked at and moved on in one transaction with the message of the next step: a crash anywhere
 * neither loses nor doubles a step. A job comes at the end of each step's time, whatever else happens.
 */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import {
  type ChainAttempt,
  type ChainRow,
  type ChainStep,
  chainById,
  insertChain,
  lockChain,
  moveChain,
  stepState,
} from '../chain-queries.ts';
import { messageErrors } from '../errors.ts';
import { cancelMessage } from '../queries.ts';
import type { Addresses, Composer, UnifiedMessage } from './composer.ts';
import type { DeliverNow } from './delivery.ts';
import { inboxAlone } from './push/delivery.ts';

export interface ChainOrder {
  /** Under which its steps are kept, where they are. */
  readonly name?: string | null | undefined;
  readonly to: Addresses;
  readonly message: UnifiedMessage;
  /** Goes on also where nobody knows whether a step was taken. */
  readonly allowDuplicate?: boolean | undefined;
}

export type ChainView = Omit<ChainRow, 'contentSealed' | 'notificationId'>;

export interface Chains {
  /**
   * Begins a chain and follows it as long as its steps only wait for a provider, at most `waitMs`; in a transaction of
   * the caller not at all: jobs go on once that is committed.
   */
  run(order: ChainOrder, steps: readonly ChainStep[], waitMs: number): Promise<ChainView>;
  /** Throws CHAIN_NOT_FOUND. */
  get(id: string): Promise<ChainView>;
  /** What has gone out stays; nothing more goes out. */
  cancel(id: string): Promise<void>;
  /** Looks whether a chain goes on: something happened to its message. Never throws. */
  nudge(id: string): Promise<void>;
  readonly job: JobDefinition;
}

interface Dependencies extends Pick<Kernel, 'database' | 'jobs' | 'secrets' | 'metrics'> {
  readonly composer: Composer;
  readonly deliverNow: DeliverNow;
  readonly log: Logger;
}

const jobName = 'communications.chain';
/** How often a chain that is waited for is looked at, and how much longer a message that is being sent gets. Milliseconds. */
const lookEveryMs = 200;
const sendingMs = 30_000;

const contextOf = (id: string): string => `communications:chain:${id}`;
const viewOf = ({
  contentSealed: _content,
  notificationId: _entry,
  ...chain
}: ChainRow): ChainView => chain;

export function createChains(dependencies: Dependencies): Chains {
  const { database, jobs, secrets, metrics, deliverNow, log } = dependencies;
  const used = metrics.counter('fallback_chain_used_total', 'Chains by how they ended', [
    'outcome',
  ]);

  const advance = async (id: string, driven: boolean): Promise<ChainRow | undefined> => {
    const before = await database.transaction((transaction) =>
      moveOn({ ...dependencies, transaction, driven }, id),
    );
    if (before?.ended) used.inc({ outcome: before.chain.status });
    return before?.chain;
  };
  const required = (chain: ChainRow | undefined): ChainRow => {
    if (!chain) throw messageErrors.CHAIN_NOT_FOUND();
    return chain;
  };

  return {
    async run(order, steps, waitMs) {
      const id = newId();
      await database.transaction(async (transaction) => {
        await insertChain(transaction, {
          id,
          name: order.name ?? null,
          userId: order.to.userId ?? null,
          contentSealed: secrets.seal(JSON.stringify(order), contextOf(id)),
          steps,
        });
        // Whoever began it may be lost before the first step.
        await jobs.enqueue(jobName, { id }, { transaction, startAfterSeconds: 2 });
      });
      const follows = !database.inTransaction();
      const look = async () => required(await advance(id, follows));
      return viewOf(await follow(deliverNow, look, follows ? Date.now() + waitMs : 0));
    },
    get: async (id) => viewOf(required(await chainById(database, id))),
    cancel: (id) =>
      database.transaction(async (transaction) => {
        const chain = required(await lockChain(transaction, id));
        if (chain.status !== 'running') return;
        if (chain.messageId !== null) await cancelMessage(transaction, chain.messageId);
        await moveChain(transaction, { ...chain, status: 'cancelled' });
        database.afterCommit(() => used.inc({ outcome: 'cancelled' }));
      }),
    async nudge(id) {
      try {
        await advance(id, false);
      } catch (error) {
        log.warn({ err: error }, 'A chain could not be moved on; its job does that later');
      }
    },
    job: defineJob({
      name: jobName,
      data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
      retries: 20,
      handler: async ({ id }) => void (await advance(id, false)),
    }),
  };
}

/** As long as its steps only wait for a provider: makes the attempt of each, and looks what came of it. */
async function follow(
  deliverNow: DeliverNow,
  look: () => Promise<ChainRow>,
  until: number,
): Promise<ChainRow> {
  let chain = await look();
  let tried = '';
  while (isWaitedFor(chain) && Date.now() < until) {
    const { messageId } = chain;
    if (messageId !== null && messageId !== tried) {
      tried = messageId;
      const over = pause(left(chain, until)).then(() => 'over' as const);
      const outcome = await Promise.race([deliverNow(messageId), over]);
      chain = await look();
      if (outcome === undefined && beginOf(chain) > until) return chain;
      continue;
    }
    await pause(Math.min(lookEveryMs, left(chain, until)));
    chain = await look();
  }
  return chain;
}

/** When the step may go out: later than now where it waits for the end of quiet hours. ms. */
const beginOf = ({ stepUntil, steps, position }: ChainRow): number =>
  (stepUntil?.getTime() ?? 0) - (steps[position]?.timeout ?? 0);

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.max(ms, 1)));

const left = ({ stepUntil }: ChainRow, until: number): number =>
  Math.max(1, Math.min(stepUntil?.getTime() ?? until, until) - Date.now());

/** Whether a caller who waits will soon know more. */
const isWaitedFor = ({ status, steps, position }: ChainRow): boolean =>
  status === 'running' && steps[position]?.until === 'accepted';

interface Moving extends Dependencies {
  readonly transaction: Transaction;
  /** Somebody waits, and makes the first attempt of each message. */
  readonly driven: boolean;
}

type Moved = { readonly chain: ChainRow; readonly ended: boolean } | undefined;

/** As far as it goes now. One transaction. */
async function moveOn(moving: Moving, id: string): Promise<Moved> {
  const { transaction } = moving;
  const stored = await lockChain(transaction, id);
  if (stored?.status !== 'running') return stored && { chain: stored, ended: false };
  let chain = stored;
  for (;;) {
    const next: ChainRow =
      chain.messageId === null ? await begin(moving, chain) : await judge(moving, chain);
    const waits = next === chain || next.messageId !== null;
    chain = next;
    if (chain.status !== 'running' || waits) break;
  }
  if (chain !== stored) await moveChain(transaction, chain);
  return { chain, ended: chain.status !== 'running' };
}

/** Without its step: the attempt is told, and the next one is begun. */
const failed = (chain: ChainRow, attempt: Omit<ChainAttempt, 'success' | 'channel'>): ChainRow => {
  const channel = chain.steps[chain.position]?.channel ?? 'email';
  return {
    ...chain,
    attempts: [...chain.attempts, { channel, success: false, ...attempt }],
    position: chain.position + 1,
    messageId: null,
    notificationId: null,
    stepUntil: null,
  };
};

async function begin(moving: Moving, chain: ChainRow): Promise<ChainRow> {
  const { database, jobs, secrets, composer, transaction, driven } = moving;
  const step = chain.steps[chain.position];
  if (!step) return { ...chain, status: 'failed' };
  const { to, message } = JSON.parse(
    secrets.open(chain.contentSealed, contextOf(chain.id)),
  ) as ChainOrder;
  try {
    const { messageId, notificationId = null } = await database.part((part) =>
      composer.store(
        part,
        step.channel,
        { to, message },
        { chainId: chain.id, firstAttempt: driven && step.until === 'accepted' },
      ),
    );
    await jobs.enqueue(
      jobName,
      { id: chain.id },
      { transaction, startAfterSeconds: Math.ceil(step.timeout / 1000) },
    );
    const stepUntil = new Date(Date.now() + step.timeout);
    return { ...chain, messageId, notificationId, stepUntil };
  } catch (error) {
    if (!(error instanceof PenstockError) || error.status === 500) throw error;
    return failed(chain, { error: error.message });
  }
}

const reached: Readonly<Record<ChainStep['until'], ReadonlySet<string>>> = {
  accepted: new Set(['sent', 'captured', 'delivered', 'opened', 'clicked', 'complained']),
  delivered: new Set(['delivered', 'opened', 'clicked', 'complained']),
  read: new Set(['opened', 'clicked', 'complained']),
};
const lost: ReadonlySet<string> = new Set(['failed', 'bounced', 'cancelled']);

/** Looks how the message of the step stands. The same chain: it waits. */
async function judge(moving: Moving, chain: ChainRow): Promise<ChainRow> {
  const { transaction } = moving;
  const { messageId, notificationId, stepUntil, steps, position } = chain;
  const step = steps[position];
  if (!step || messageId === null) return { ...chain, status: 'failed' };
  const state = await stepState(transaction, messageId, notificationId);
  const { status, error, provider, read, dueAt } = state;
  if (provider === inboxAlone && step.until !== 'read' && !read)
    return failed(chain, { messageId, error: 'no device: it is in the inbox alone' });
  if (read || (status !== null && reached[step.until].has(status)))
    return {
      ...chain,
      status: 'done',
      attempts: [...chain.attempts, { channel: step.channel, success: true, messageId }],
    };
  if (status === null || lost.has(status))
    return failed(chain, { messageId, error: error ?? status ?? 'the message is no longer kept' });
  // The time of a step begins when its message may go out.
  const end = Math.max(stepUntil?.getTime() ?? 0, (dueAt?.getTime() ?? 0) + step.timeout);
  if (Date.now() >= end) return overdue(moving, chain, { messageId, status });
  return end === stepUntil?.getTime() ? chain : waitUntil(moving, chain, end);
}

async function waitUntil(
  { transaction, jobs }: Moving,
  chain: ChainRow,
  time: number,
): Promise<ChainRow> {
  const startAfterSeconds = Math.ceil((time - Date.now()) / 1000);
  await jobs.enqueue(jobName, { id: chain.id }, { transaction, startAfterSeconds });
  return { ...chain, stepUntil: new Date(time) };
}

/** Its time is over. What waits is taken back; what is on its way may arrive, and is not doubled unless that is requested. */
async function overdue(
  moving: Moving,
  chain: ChainRow,
  { messageId, status }: { readonly messageId: string; readonly status: string },
): Promise<ChainRow> {
  const { transaction, secrets } = moving;
  if (status === 'queued' && (await cancelMessage(transaction, messageId)))
    return failed(chain, { messageId, error: 'no provider took it in time' });
  if (status !== 'sending' && status !== 'queued')
    return failed(chain, { messageId, error: 'it was sent, and nothing more was heard in time' });
  const { allowDuplicate } = JSON.parse(
    secrets.open(chain.contentSealed, contextOf(chain.id)),
  ) as ChainOrder;
  if (allowDuplicate)
    return failed(chain, { messageId, error: 'unknown: it is being sent, and may arrive too' });
  return waitUntil(moving, chain, Date.now() + sendingMs);
}
