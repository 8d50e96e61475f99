/** Many small messages as one: collected under a key for some time, then written once with all of them. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import {
  addDigestItem,
  type DigestRow,
  deleteDigest,
  digestItems,
  lockDigest,
  openDigest,
} from '../chain-queries.ts';
import type { Channel } from '../queries.ts';
import type { Addresses, Composer, UnifiedMessage } from './composer.ts';

export interface Digests {
  /**
   * Adds to the digest of this key, or opens one; answers its id and how much it holds. What cannot be written at all is
   * said now: throws 400, 404 and 503.
   */
  add(
    channel: Channel,
    about: { readonly to: Addresses; readonly message: UnifiedMessage },
    digest: { readonly key: string; readonly windowSeconds: number },
  ): Promise<{ readonly digestId: string; readonly items: number }>;
  readonly job: JobDefinition;
}

interface Dependencies extends Pick<Kernel, 'database' | 'jobs' | 'secrets'> {
  readonly composer: Composer;
}

const jobName = 'communications.digest';
/** Items that one message names, and the bytes of them as they are stored; `count` tells how many there were. */
const maxItems = 500;
const maxBytes = 8_000_000;

const contextOf = (id: string): string => `communications:digest:${id}`;

export const createDigests = (dependencies: Dependencies): Digests => ({
  add: (channel, { to, message }, { key, windowSeconds }) => {
    const { database, jobs, secrets, composer } = dependencies;
    return database.transaction(async (transaction) => {
      const { variables = {}, ...rest } = message;
      const alone = { ...variables, items: [variables], count: 1 };
      const writer = await composer.writer(channel, { ...rest, variables: alone });
      await writer.write(transaction, { to, choices: undefined });
      const id = newId();
      const opened = await openDigest(transaction, {
        id,
        channel,
        // One mailbox, however its address is written.
        recipient: to.userId ?? (to.email ?? to.phone ?? '').toLowerCase(),
        userId: to.userId ?? null,
        contentSealed: secrets.seal(JSON.stringify({ to, message: rest }), contextOf(id)),
        key,
        windowSeconds,
      });
      if (opened.items <= maxItems)
        await addDigestItem(
          transaction,
          opened.id,
          secrets.seal(JSON.stringify(variables), contextOf(opened.id)),
        );
      if (opened.id === id)
        await jobs.enqueue(jobName, { id }, { transaction, startAfterSeconds: windowSeconds });
      return { digestId: opened.id, items: opened.items };
    });
  },
  job: defineJob({
    name: jobName,
    data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
    retries: 20,
    handler: ({ id }, { log }) =>
      dependencies.database.transaction(async (transaction) => {
        const digest = await lockDigest(transaction, id);
        if (!digest) return;
        const refusal = await writeOut(dependencies, transaction, digest);
        // Whoever opted out meanwhile gets no digest either.
        if (refusal) log.warn({ code: refusal.code }, 'A digest was not sent');
        await deleteDigest(transaction, id);
      }),
  }),
});

/** Stores the message of all that was collected, or of as much of it as one message can say; answers why there is none. */
async function writeOut(
  { database, secrets, composer }: Dependencies,
  transaction: Transaction,
  { id, channel, contentSealed, items: count }: DigestRow,
): Promise<PenstockError | undefined> {
  const open = (sealed: string) => JSON.parse(secrets.open(sealed, contextOf(id)));
  const { to, message } = open(contentSealed) as { to: Addresses; message: UnifiedMessage };
  const kept = await digestItems(transaction, id, { limit: maxItems, bytes: maxBytes });
  const items = kept.map(open);
  for (;;) {
    const variables = { ...items.at(-1), items, count };
    const refusal = await database
      .part((part) => composer.store(part, channel, { to, message: { ...message, variables } }))
      .then(() => undefined, refusalOf);
    // A text message has 1,600 characters: better half of it than nothing.
    if (refusal?.status !== 400 || items.length < 2) return refusal;
    items.length = Math.ceil(items.length / 2);
  }
}

/** What is over with the next hour, or when a channel is on again, is thrown: the job comes again. */
function refusalOf(error: unknown): PenstockError {
  if (!(error instanceof PenstockError) || error.status >= 500 || error.status === 429) throw error;
  return error;
}
