/** A message on a socket is a request: it has an account of its own, and shares the bound of calls at once with its user's requests. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { document, openRealtime, user } from '../../../test/support/realtime.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import {
  createAccounts,
  createCallGates,
  defaultRequestSettings,
  type RequestSettings,
} from '../../kernel/pipeline/request-limits.ts';
import {
  currentAccount,
  type RequestAccount,
} from '../../kernel/request-account/request-account.ts';

const settings: RequestSettings = {
  ...defaultRequestSettings,
  statements: 7,
  heavyCallsPerCaller: 1,
  maxWaitMs: 50,
};
const bounds = { accounts: createAccounts(() => settings), gates: createCallGates(() => settings) };

let fixture: Awaited<ReturnType<typeof openRealtime>>;
/** Whatever account the record engine was asked on. */
const seen: (RequestAccount | undefined)[] = [];
beforeEach(async () => {
  fixture = await openRealtime({ pipeline: bounds });
  seen.length = 0;
  const { records } = fixture.kernel;
  const { readable, mayRead } = records;
  const noting =
    <A extends unknown[], R>(ask: (...args: A) => R) =>
    (...args: A): R => {
      seen.push(currentAccount());
      return ask(...args);
    };
  Object.assign(records, { readable: noting(readable), mayRead: noting(mayRead) });
});
afterEach(() => fixture.close());

test('each message and each delivery is worked on with an account of its own', async () => {
  fixture.readable.add(`Private:${document(1)}`);
  const { ask, changes } = await fixture.connected();
  const target = { schema: 'Private', documentId: document(1) };
  await ask('subscribe', target);
  await ask('subscribe', target);
  await fixture.change('Private', document(1));
  await waitFor(() => changes.length > 0);
  expect(seen.length).toBeGreaterThanOrEqual(3);
  for (const account of seen) expect(account?.limits.statements).toBe(7);
  expect(new Set(seen).size).toBeGreaterThanOrEqual(3);
});

test('a message waits for what its user has running elsewhere, and hears when that takes too long', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const running = bounds.gates.inTurn(
    { key: `user:${user}`, heavy: true, bytes: 0 },
    () => promise,
  );
  const { ask } = await fixture.connected();
  expect(await ask('subscribe', { schema: 'Post' })).toMatchObject({
    ok: false,
    error: { status: 429 },
  });
  resolve();
  await running;
  expect(await ask('subscribe', { schema: 'Post' })).toMatchObject({ ok: true });
});
