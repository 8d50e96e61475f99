/** What a push about a room shows. */
import { expect, it } from 'vitest';
import type { ChatParts } from './chat-parts.ts';
import { pushJob } from './push.ts';

it('shows the beginning of a message, and never half a character', async () => {
  const told: { readonly title: string; readonly body: string }[] = [];
  const row = {
    ...{ roomName: `${'r'.repeat(139)}😀`, isDirect: false, messageId: 'm', type: 'text' },
    ...{
      sender: 'ann',
      senderName: null,
      content: `${'x'.repeat(139)}😀 more`,
      receivers: ['bob'],
    },
  };
  const transaction = { query: async () => ({ rows: [row], count: 1 }) };
  const parts = {
    database: { transaction: (work: (own: unknown) => unknown) => work(transaction) },
    communications: {
      notifier: { broadcast: async (_to: unknown, input: never) => void told.push(input) },
    },
  } as unknown as ChatParts;
  await pushJob(parts).handler({ room: 'room' } as never, {} as never);
  expect(told).toMatchObject([{ title: 'r'.repeat(139), body: 'x'.repeat(139) }]);
});
