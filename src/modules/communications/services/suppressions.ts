/**
 * Who gets no messages of a channel any more: as operators keep it, and by one click in a mail (RFC 8058), whose address
 * holds, sealed, who says no to what.
 */
import type { Kernel } from '../../../host/kernel.ts';
import { messageErrors } from '../errors.ts';
import {
  allButCritical,
  deleteSuppressions,
  insertSuppression,
  listSuppressions,
  type SuppressionFilter,
  type SuppressionRow,
} from '../feedback-queries.ts';
import { lockUser, savePreferences } from '../preference-queries.ts';
import type { Channel } from '../queries.ts';
import { requireMailbox, requireNumber } from '../recipients.ts';

export interface Suppressions {
  list(
    filter: SuppressionFilter,
  ): Promise<{ readonly rows: readonly SuppressionRow[]; readonly count: number }>;
  /** Again is the same as once; answers whether it is new. Throws INVALID_RECIPIENT. */
  add(suppression: {
    readonly channel: Channel;
    readonly address: string;
    readonly scope?: string | undefined;
    readonly detail?: string | undefined;
  }): Promise<boolean>;
  /** Throws SUPPRESSION_NOT_FOUND. */
  remove(channel: Channel, address: string, scope: string | undefined): Promise<void>;
}

/** Words of requests for the scopes that have no name of their own. */
const scopeWords: ReadonlyMap<string, string> = new Map([
  ['all', ''],
  ['non-critical', allButCritical],
]);
export const storedScope = (word: string): string => scopeWords.get(word) ?? word;
export const scopeWord = (stored: string): string =>
  [...scopeWords].find(([, scope]) => scope === stored)?.[0] ?? stored;

export const createSuppressions = ({ database }: Pick<Kernel, 'database'>): Suppressions => ({
  list: (filter) => listSuppressions(database, filter),
  add({ channel, address, scope = 'all', detail }) {
    if (channel === 'email') requireMailbox(address, 'address');
    if (channel === 'sms') requireNumber(address, 'address');
    return insertSuppression(database, {
      channel,
      address,
      scope: storedScope(scope),
      reason: 'manual',
      detail: detail ?? null,
    });
  },
  async remove(channel, address, scope) {
    const stored = scope === undefined ? undefined : storedScope(scope);
    if ((await deleteSuppressions(database, { channel, address, scope: stored })) === 0)
      throw messageErrors.SUPPRESSION_NOT_FOUND();
  },
});

interface Refusal {
  readonly channel: Channel;
  readonly address: string;
  readonly userId?: string | undefined;
  readonly category: string;
}

export interface Unsubscribe {
  /** Where whoever gets this message says no to more of its kind; nothing while the client surface has no address. */
  linkFor(refusal: Refusal): string | undefined;
  /** Throws UNSUBSCRIBE_INVALID. */
  read(token: string): Pick<Refusal, 'channel' | 'category'>;
  /** Again is the same as once. Throws UNSUBSCRIBE_INVALID. */
  act(token: string): Promise<void>;
}

const context = 'communications:unsubscribe';

export function createUnsubscribe({
  database,
  secrets,
  clientUrl,
}: Pick<Kernel, 'database' | 'secrets'> & { readonly clientUrl: () => string }): Unsubscribe {
  const open = (token: string): Refusal => {
    try {
      const [channel, address, userId, category] = JSON.parse(secrets.open(token, context));
      return { channel, address, userId: userId ?? undefined, category };
    } catch (error) {
      throw messageErrors.UNSUBSCRIBE_INVALID({ cause: error });
    }
  };
  return {
    linkFor({ channel, address, userId, category }) {
      const base = clientUrl();
      if (base === '') return undefined;
      const token = secrets.seal(
        JSON.stringify([channel, address, userId ?? null, category]),
        context,
      );
      return `${base}/hook/communications/unsubscribe/${token}`;
    },
    read(token) {
      const { channel, category } = open(token);
      return { channel, category };
    },
    async act(token) {
      const { channel, address, userId, category } = open(token);
      await database.transaction(async (transaction) => {
        // An account that has gone since has nothing to choose any more.
        if (userId !== undefined && (await lockUser(transaction, userId)))
          await savePreferences(transaction, userId, [{ category, channel, enabled: false }]);
        // The address is somebody's without an account, or will be somebody else's account.
        await insertSuppression(transaction, {
          channel,
          address,
          scope: category,
          reason: 'unsubscribe',
          detail: null,
        });
      });
    },
  };
}
