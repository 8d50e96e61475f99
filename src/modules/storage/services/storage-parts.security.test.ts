/** What callers hear of a store that fails: a status that fits, and nothing of what the store said. */
import { describe, expect, it } from 'vitest';
import { silentLog } from '../../../../test/support/log.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { ProviderError, type ProviderProblem } from '../providers/provider.ts';
import { onStore } from './storage-parts.ts';

const refusalOf = (problem: ProviderProblem): Promise<unknown> =>
  onStore(silentLog, async () => {
    throw new ProviderError(problem, 'key AKIA-secret in /srv/files');
  }).catch((error: unknown) => error);

describe('a store that fails', () => {
  it.each([
    ['NO_SPACE', 503, 'STORAGE_FULL', 30],
    ['UNAVAILABLE', 503, 'PROVIDER_UNAVAILABLE', 5],
    ['REFUSED', 502, 'PROVIDER_ERROR', undefined],
    ['NOT_FOUND', 502, 'PROVIDER_ERROR', undefined],
    ['INVALID_PLACE', 502, 'PROVIDER_ERROR', undefined],
    ['LENGTH_MISMATCH', 400, 'LENGTH_MISMATCH', undefined],
  ] as const)('with %s is %d', async (problem, status, code, retryAfter) => {
    const error = await refusalOf(problem);
    expect(error).toBeInstanceOf(PenstockError);
    expect(error).toMatchObject({ status, code, retryAfter });
    expect((error as Error).message).not.toMatch(/AKIA|srv/);
  });

  it('leaves other failures as they are', async () => {
    const mine = new Error('mine');
    await expect(
      onStore(silentLog, async () => {
        throw mine;
      }),
    ).rejects.toBe(mine);
  });
});
