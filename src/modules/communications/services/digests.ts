/** Many small messages as one: collected under a key for some time, then written once with all of them. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import {
  addDigestItem,
  deleteDigest,
  digestItems,
  lockDigest,
  openDigest,
} from '../chain-queries.ts';
import type { Channel } from '../queries.ts';
import type { Addresses, Composer, UnifiedMessage } from './composer.ts';

export interface Digests {
  /** Adds to the digest of this key, or opens one; answers its id and how much it holds. */
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
/** Items that one message names; `count` tells how many there were. */
const maxItems = 500;

const contextOf = (id: string): string => `communications:digest:${id}`;

export const createDigests = ({ database, jobs, secrets, composer }: Dependencies): Digests => ({
  add: (channel, { to, message }, { key, windowSeconds }) =>
    database.transaction(async (transaction) => {
      const { variables = {}, ...rest } = message;
      const id = newId();
      const opened = await openDigest(transaction, {
        id,
        channel,
        recipient: to.userId ?? to.email ?? to.phone ?? '',
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
    }),
  job: defineJob({
    name: jobName,
    data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
    retries: 20,
    handler: ({ id }, { log }) =>
      database.transaction(async (transaction) => {
        const digest = await lockDigest(transaction, id);
        if (!digest) return;
        const { to, message } = JSON.parse(secrets.open(digest.contentSealed, contextOf(id)));
        const items = (await digestItems(transaction, id, maxItems)).map((sealed) =>
          JSON.parse(secrets.open(sealed, contextOf(id))),
        );
        const variables = { ...items.at(-1), items, count: digest.items };
        try {
          await database.part((part) =>
            composer.store(part, digest.channel, { to, message: { ...message, variables } }),
          );
        } catch (error) {
          if (!(error instanceof PenstockError) || error.status >= 500) throw error;
          // Whoever opted out meanwhile gets no digest either.
          log.warn({ code: error.code }, 'A digest was not sent');
        }
        await deleteDigest(transaction, id);
      }),
  }),
});
