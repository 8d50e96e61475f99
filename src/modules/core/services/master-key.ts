/** The master key: compared by digest in constant time, guesses limited per address. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { addressKey } from '../../../kernel/operations/limits.ts';
import { coreErrors } from '../errors.ts';
import { type Budgets, tooMany } from './budgets.ts';

/** Nothing when the key is right; otherwise throws, or rejects with, 401 or 429. */
export type MasterKeyCheck = (presented: string, address: string) => undefined | Promise<never>;

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/**
 * `keys`: the key in force and, during a rotation, the one before. An address that used up its
 * budget is refused without a look at the key; that it did is remembered on this node, so that a
 * right key costs no question to the limits.
 */
export function createMasterKeyCheck(keys: readonly string[], budgets: Budgets): MasterKeyCheck {
  const digests = keys.map(digest);
  /** Address to the time (ms since the epoch) until which it is refused. */
  const refusedUntil = new LRUCache<string, number>({ max: 10_000 });

  const matches = (presented: string): boolean => {
    const given = digest(presented);
    return digests.reduce((found, key) => timingSafeEqual(key, given) || found, false);
  };
  const fail = async (address: string): Promise<never> => {
    const state = await budgets.masterKeyFailed(address);
    if (state.allowed) throw coreErrors.MASTER_KEY_INVALID();
    refusedUntil.set(addressKey(address), Date.now() + state.resetMs);
    throw tooMany(state.resetMs);
  };

  return (presented, address) => {
    const wait = refusedUntil.size === 0 ? 0 : (refusedUntil.get(addressKey(address)) ?? 0) - Date.now();
    if (wait > 0) throw tooMany(wait);
    return matches(presented) ? undefined : fail(address);
  };
}
