/** What sockets of a user are told, when several nodes say so at once. */
import { expect, it } from 'vitest';
import { waitFor } from '../../../test/support/wait-for.ts';
import { createUserSignals } from './bus.ts';

it('tells what is there when the last word has come, however they come in, and looks for nobody in vain', async () => {
  let receive: (payload: unknown) => unknown = () => undefined;
  const signals = createUserSignals({
    publish: async () => undefined,
    subscribe: (_topic, handler) => {
      receive = handler;
      return () => undefined;
    },
  });
  const kind = { namespace: '/inbox/', event: 'count' };
  const [stored, looks, told] = [{ count: 2 }, [] as (() => void)[], [] as unknown[]];
  signals.find(kind, async () => {
    const { count } = stored;
    await new Promise<void>((resolve) => looks.push(resolve));
    return count;
  });
  signals.subscribe({
    hears: (namespace, userId) => namespace === '/inbox/' && userId === 'ann',
    tell: ({ event, data }) => void told.push([event, data]),
  });
  signals.send({ ...kind, userIds: ['ann', 'bob'], data: {} });
  // Others have read the rest meanwhile, and the word of one node comes late.
  stored.count = 0;
  receive({ ...kind, userIds: ['ann'], data: 0 });
  receive({ ...kind, userIds: ['ann'], data: 1 });
  expect(looks).toHaveLength(1);
  looks[0]?.();
  await waitFor(() => looks.length === 2);
  looks[1]?.();
  await waitFor(() => told.length === 2);
  expect(told).toEqual([
    ['count', 2],
    ['count', 0],
  ]);
  signals.send({ ...kind, event: 'other', userIds: ['bob'], data: 'as it is' });
  expect(told.at(-1)).toEqual(['other', 'as it is']);
});
