/** Which parts of a run go on, on the thread of its process, and what becomes of it where one takes too long there. */
import { expect, it } from 'vitest';
import type { RunEnd } from './protocol.ts';
import { SandboxRun } from './sandbox/run.ts';
import { Sandbox, type SandboxEvents } from './sandbox/sandbox.ts';

/** A run that has begun there and asked for one thing, what it did, and a sandbox in which nothing takes too long. */
function begun(inTime: () => boolean = () => true) {
  const did: string[] = [];
  const ends: RunEnd[] = [];
  const sandbox = {
    ...{
      cpuMs: 1,
      isIdle: true,
      isEnding: false,
      events: undefined as SandboxEvents | undefined,
    },
    beginNow: () => true,
    answerNow: () => did.push('here') > 0 && inTime(),
    answer: () => void did.push('there'),
    isMeasureDue: () => true,
    measureNow: () => did.push('looked here') > 0,
    measure: async () => void did.push('looked there'),
    fire: () => void did.push('fired'),
  };
  const limits = { cpuMs: 1_000, memoryMb: 16, maxResultBytes: 1_000, maxLogBytes: 1_000 };
  const one = new SandboxRun({
    ...{ id: 1, key: 'f', input: '', limits, deadlineAt: performance.now() + 60_000 },
    source: { file: 'f.js', places: () => undefined },
    send(header) {
      did.push(header.t);
      if (header.t === 'end') ends.push(header);
    },
    done: () => undefined,
    again: () => void did.push('again'),
  });
  one.beginNow(sandbox as unknown as Sandbox);
  one.post(1, 'db.get', '{}');
  const answer = (call: number, again: boolean) => one.answer({ call, ok: true, again }, '1');
  return { one, did, ends, answer, sandbox };
}

it('goes on there while it has only read, and nowhere else than there once it was away', () => {
  const { one, did, answer } = begun();
  answer(1, true);
  one.post(2, 'db.create', '{}');
  answer(2, false);
  one.post(3, 'db.get', '{}');
  answer(3, true);
  expect(did).toEqual(['call', 'here', 'call', 'there', 'call', 'there']);
});

it('begins again with nothing said where a part takes too long there', () => {
  const { one, did, ends, answer, sandbox } = begun(() => false);
  one.log('log', 'said before');
  answer(1, true);
  expect([did, one.sandbox, sandbox.events]).toEqual([
    ['call', 'here', 'again'],
    undefined,
    undefined,
  ]);
  const next = begun();
  one.begin({ ...next.sandbox, begin: async () => undefined } as unknown as Sandbox, undefined);
  one.log('log', 'said again');
  one.end('cancelled');
  expect(ends).toMatchObject([{ logs: [{ text: 'said again' }] }]);
  expect(ends[0]?.logs).toHaveLength(1);
});

it('leaves it for what waits for more than one thing, or has waited for a moment', () => {
  const two = begun();
  two.one.post(2, 'db.get', '{}');
  two.answer(1, true);
  const busy = begun();
  busy.sandbox.isIdle = false;
  busy.answer(1, true);
  expect([two.did, busy.did]).toEqual([
    ['call', 'call', 'there'],
    ['call', 'there'],
  ]);
});

it('leaves it after so many parts', () => {
  const { one, did, answer } = begun();
  for (let call = 1; call <= 40; call += 1) {
    answer(call, true);
    one.post(call + 1, 'db.get', '{}');
  }
  one.end('cancelled');
  expect(did.filter((what) => what === 'here').length).toBeLessThanOrEqual(20);
  expect(did.lastIndexOf('here')).toBeLessThan(did.indexOf('there'));
});

it('is looked at for its memory there as well, and its end is told at once', async () => {
  const here = begun();
  here.answer(1, true);
  here.one.done('{"ok":true}\n1');
  expect(here.did).toEqual(['call', 'here', 'looked here', 'end']);
  const away = begun();
  away.answer(1, false);
  away.one.done('{"ok":true}\n1');
  expect(away.did).toEqual(['call', 'there', 'looked there']);
  await expect.poll(() => away.did.at(-1)).toBe('end');
});

async function loaded(code: string): Promise<Sandbox> {
  const sandbox = new Sandbox(16);
  await sandbox.load({ code, packages: {}, form: 'body', file: 'f.js' }, {});
  return sandbox;
}

it('waits for no isolate that is busy with something else', async () => {
  const sandbox = await loaded('for (;;);');
  const input = JSON.stringify({ facts: { caller: {} }, req: { context: {} } });
  const before = sandbox.cpuMs;
  const end = sandbox.begin(input).catch(() => 'ended');
  // Until its thread has begun, this one may look first.
  await expect.poll(() => sandbox.cpuMs).toBeGreaterThan(before + 1);
  expect([sandbox.measureNow(performance.now()), await end]).toEqual([false, 'ended']);
  sandbox.dispose();
});

it('knows the memory of an isolate without its thread, and that there is none any more', async () => {
  const sandbox = await loaded('return 1');
  expect([sandbox.measureNow(performance.now()), sandbox.memoryBytes > 0]).toEqual([true, true]);
  expect(sandbox.isMeasureDue(performance.now())).toBe(false);
  sandbox.dispose();
  expect(sandbox.measureNow(performance.now())).toBe(false);
});
