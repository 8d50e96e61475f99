/** Saying no with one click (RFC 8058): the address in a mail holds, sealed, who says no to what. */
import type { Kernel } from '../../../host/kernel.ts';
import { messageErrors } from '../errors.ts';
import { insertSuppression } from '../feedback-queries.ts';
import { savePreferences } from '../preference-queries.ts';
import type { Channel } from '../queries.ts';

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
        if (userId !== undefined)
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
