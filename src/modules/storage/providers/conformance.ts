/** What every provider must do: the same cases run against each of them, on a server where there is one. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Bench, OpenedProvider, ProviderTraits } from './conformance/bench.ts';
import { failureCases } from './conformance/failures.ts';
import { keyCases } from './conformance/keys.ts';
import { bucketCases, listCases } from './conformance/lists.ts';
import { multipartCases } from './conformance/multipart.ts';
import { objectCases } from './conformance/objects.ts';
import { signedCases } from './conformance/signed.ts';

/** Declares the cases; `open` starts whatever the provider talks to. */
/** Emulators of stores take their time on a busy machine. */
const SLOW_MS = 60_000;

export function describeProvider(
  name: string,
  open: () => Promise<OpenedProvider>,
  traits: ProviderTraits,
): void {
  describe(name, () => {
    let opened: OpenedProvider;
    beforeAll(async () => {
      opened = await open();
    });
    afterAll(async () => {
      await opened?.provider.close();
      await opened?.close();
    });
    const bench: Bench = {
      traits,
      check(title, run) {
        if (!traits.lacks?.some((beginning) => title.startsWith(beginning)))
          test(title, run, SLOW_MS);
      },
      get provider() {
        return opened.provider;
      },
      async bucket() {
        const bucket = `case-${randomUUID()}`;
        await opened.provider.createBucket(bucket);
        return bucket;
      },
    };
    objectCases(bench);
    keyCases(bench);
    failureCases(bench);
    listCases(bench);
    bucketCases(bench);
    multipartCases(bench);
    signedCases(bench);
  });
}
