import { expect, it } from 'vitest';
import { waitFor } from './wait-for.ts';

it('answers what the probe answers once it is truthy', async () => {
  const answers = [undefined, 0, 'ready'];
  expect(await waitFor(() => answers.shift(), { everyMs: 1 })).toBe('ready');
});

it('names what it waited for and keeps the last error', async () => {
  const refuse = () => {
    throw new Error('refused');
  };
  const waiting = waitFor(refuse, { timeoutMs: 10, everyMs: 1, what: 'the moon' });
  await expect(waiting).rejects.toMatchObject({
    message: 'Waited 10 ms in vain for the moon',
    cause: { message: 'refused' },
  });
});
