/** The other end of a worker link, for its tests. */
import { getPriority } from 'node:os';
import { giveWayAsProcess, type Serve, serveCalls } from '../../src/kernel/threads/serve-calls.ts';

const facts: Serve = (input) => {
  const { priority, vectors } = input as { priority?: number; vectors: Float32Array };
  if (priority !== undefined) giveWayAsProcess(priority);
  return {
    result: {
      pid: process.pid,
      priority: getPriority(),
      environment: Object.keys(process.env),
      doubled: vectors.map((x) => x * 2),
    },
  };
};

const fail: Serve = (input) => {
  throw new Error(String(input));
};

const die: Serve = () => process.exit(3);

const stay: Serve = () => new Promise(() => undefined);

serveCalls(new Map(Object.entries({ facts, fail, die, stay })));
