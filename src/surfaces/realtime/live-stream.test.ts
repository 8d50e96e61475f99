/** What waits for a reader of a stream is bounded: https://cwe.mitre.org/data/definitions/770.html. */
import { expect, test } from 'vitest';
import type { LiveMessage } from './live/live-messages.ts';
import type { LiveListener, LiveQuery } from './live/live-query.ts';
import { openLiveStream } from './live-stream.ts';

const message = (n: number): LiveMessage => ({
  event: 'records',
  data: { watch: 'w', position: `w.${n}`, changes: [] },
});

async function open(callerNow: () => unknown = () => undefined) {
  const heard = { slow: 0, left: 0 };
  let listener: LiveListener | undefined;
  const query = {
    id: 'w',
    leave: () => {
      heard.left += 1;
    },
  } as unknown as LiveQuery;
  const stream = await openLiveStream(
    async (given) => {
      listener = given;
      given.entered(query);
      return { query, beginning: { kind: 'records', position: 'w.0', rows: [] } };
    },
    {
      callerNow,
      onSlow: () => {
        heard.slow += 1;
      },
    },
  );
  return { stream, heard, tell: (n: number) => listener?.tell(message(n)) };
}

test('a reader that is fast enough gets every message in order', async () => {
  const { stream, heard, tell } = await open();
  for (let n = 1; n <= 1_000; n += 1) {
    tell(n);
    expect(await stream.next(1_000)).toEqual(message(n));
  }
  expect(heard).toEqual({ slow: 0, left: 0 });
});

test('one that is slow is told `gap`, and nothing else is kept for it', async () => {
  const { stream, heard, tell } = await open();
  for (let n = 1; n <= 10_000; n += 1) tell(n);
  expect(await stream.next(1_000)).toEqual({ event: 'gap', data: { watch: 'w', reason: 'slow' } });
  expect(await stream.next(1_000)).toBe('end');
  expect(heard.slow).toBe(1);
  stream.leave();
  expect(heard.left).toBe(1);
});

test('one whose session has ended gets the error and the end', async () => {
  const { stream } = await open(() => {
    throw new Error('over');
  });
  expect(await stream.admits()).toBe(false);
  expect(await stream.next(1_000)).toMatchObject({ event: 'error', data: { status: 500 } });
  expect(await stream.next(1_000)).toBe('end');
});

test('whoever leaves while they wait for a message is not kept waiting', async () => {
  const { stream } = await open();
  const waiting = stream.next(3_600_000);
  stream.leave();
  expect(await waiting).toBe('end');
});
