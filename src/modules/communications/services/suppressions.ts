/** Who gets no messages of a channel any more, as operators keep it. */
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
