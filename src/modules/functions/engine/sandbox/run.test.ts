/** How a run ends whose time is over, by whether its code had begun. */
import { expect, it } from 'vitest';
import type { FromSandbox } from '../protocol.ts';
import { SandboxRun } from './run.ts';
import type { Sandbox } from './sandbox.ts';

function outcomeOf(sandbox: Partial<Sandbox> | undefined): unknown {
  const told: FromSandbox[] = [];
  const run = new SandboxRun({
    ...{ id: 1, key: 'one', input: '', deadlineAt: performance.now() },
    source: { file: 'one.js', places: () => undefined },
    limits: { cpuMs: 100, memoryMb: 32, maxResultBytes: 100, maxLogBytes: 100 },
    send: (header) => void told.push(header),
    done: () => undefined,
    again: () => undefined,
  });
  run.sandbox = sandbox as Sandbox;
  run.watch(performance.now() + 1, 1, 0);
  return told.map((one) => (one.t === 'end' ? one.outcome : one.t));
}

it('is no timeout of code that has not begun: the machine had no room for it', () => {
  expect(outcomeOf(undefined)).toEqual(['unavailable']);
  expect(outcomeOf({ entered: false })).toEqual(['unavailable']);
});

it('is a timeout of code that has', () => {
  expect(outcomeOf({ entered: true })).toEqual(['timeout']);
});
