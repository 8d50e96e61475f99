import { describe, expect, it } from 'vitest';
import { authorizationErrors } from '../errors.ts';
import { createChangeStreams, type StreamLine } from './change-stream.ts';
import type { Changes } from './changelog.ts';

const nobody = { subscribe: () => () => undefined };
const { signal } = new AbortController();
const request = { after: 5, lifetimeMs: 60_000, signal, callerNow: () => undefined };

/** The first lines of a stream. */
async function linesOf(stream: AsyncGenerator<StreamLine, void>, count: number) {
  const lines: StreamLine[] = [];
  for await (const line of stream) {
    lines.push(line);
    if (lines.length === count) break;
  }
  return lines;
}

const change = (sequence: number) => ({
  topic: 'authorization:create:relation',
  sequence,
  occurredAt: '2026-01-01T00:00:00.000Z',
  actor: 'system',
});

/** Keeps what happened from position 100 on. */
const changes: Changes = {
  position: () => Promise.resolve(100),
  after: (sequence) =>
    sequence < 100
      ? Promise.reject(authorizationErrors.CHANGES_GONE())
      : Promise.resolve({
          changes: sequence < 102 ? [change(sequence + 1)] : [],
          next: Math.min(sequence + 1, 102),
          more: sequence < 101,
        }),
};

describe('a stream of changes', () => {
  it('tells of the gap when the position is too old, and goes on from the present', async () => {
    const { open } = createChangeStreams(changes, nobody);
    expect(await linesOf(open(request), 6)).toEqual([
      { kind: 'position', position: 5 },
      { kind: 'gap', after: 5, position: 100 },
      { kind: 'change', change: change(101) },
      { kind: 'position', position: 101 },
      { kind: 'change', change: change(102) },
      { kind: 'position', position: 102 },
    ]);
  });

  it('wakes up with an event', async () => {
    let ring = (): void => undefined;
    let last = 100;
    const events = {
      subscribe(_pattern: string, handler: () => void) {
        ring = handler;
        return () => undefined;
      },
    } as unknown as Parameters<typeof createChangeStreams>[1];
    const live: Changes = {
      position: () => Promise.resolve(last),
      after: (sequence) =>
        Promise.resolve({
          changes: sequence < last ? [change(last)] : [],
          next: last,
          more: false,
        }),
    };
    const stream = createChangeStreams(live, events).open({ ...request, after: undefined });
    expect((await stream.next()).value).toEqual({ kind: 'position', position: 100 });
    const next = stream.next();
    last = 101;
    ring();
    expect((await next).value).toEqual({ kind: 'change', change: change(101) });
    await stream.return();
  });

  it('tells nothing any more once the credential has ended, whatever was read before', async () => {
    let ended = false;
    const callerNow = (): void => {
      if (ended) throw new Error('revoked');
    };
    const stream = createChangeStreams(changes, nobody).open({ ...request, after: 100, callerNow });
    expect(await stream.next()).toMatchObject({ value: { kind: 'position' } });
    expect(await stream.next()).toMatchObject({ value: { kind: 'change' } });
    expect(await stream.next()).toMatchObject({ value: { kind: 'position', position: 101 } });
    ended = true;
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  it('says where it is also while only other things happen', async () => {
    let last = 100;
    const live: Changes = {
      position: () => Promise.resolve(last),
      after() {
        last += 1;
        return Promise.resolve({ changes: [], next: last, more: false });
      },
    };
    const always = {
      subscribe(_pattern: string, handler: () => void) {
        const timer = setInterval(handler, 1);
        return () => clearInterval(timer);
      },
    } as unknown as Parameters<typeof createChangeStreams>[1];
    const { open } = createChangeStreams(live, always, 0);
    const [begin, ...lines] = await linesOf(open(request), 3);
    expect(begin).toEqual({ kind: 'position', position: 5 });
    expect(lines).toEqual([101, 102].map((position) => ({ kind: 'position', position })));
  });

  it('is not opened without end, and frees its place', async () => {
    const { open } = createChangeStreams(changes, nobody);
    const streams = Array.from({ length: 50 }, () => open(request));
    for (const stream of streams) await stream.next();
    await expect(open(request).next()).rejects.toMatchObject({ code: 'STREAM_LIMIT_EXCEEDED' });
    await streams[0]?.return();
    expect((await open(request).next()).done).toBe(false);
    for (const stream of streams) await stream.return();
  });
});
