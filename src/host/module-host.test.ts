import Type from 'typebox';
import { expect, it } from 'vitest';
import { silentLog } from '../../test/support/quiet.ts';
import type { ConfigHandle } from '../kernel/config/config-definition.ts';
import { defineConfig } from '../kernel/config/config-definition.ts';
import { createPromptRegistry } from '../kernel/operations/prompts.ts';
import { createOperationRegistry } from '../kernel/operations/registry.ts';
import type { Kernel } from './kernel.ts';
import { type AnyModule, defineModule } from './module.ts';
import { createModuleHost, inDependencyOrder } from './module-host.ts';

/** A kernel with what the host itself uses: configuration that a test can change, and jobs that may fail. */
function fakeKernel() {
  const active = new Map<string, boolean>();
  const listeners: (() => void | Promise<void>)[] = [];
  const jobs = { fail: false, names: new Set<string>(), left: [] as string[] };
  const handle = (name: string): Partial<ConfigHandle> => ({
    current: () => ({ active: active.get(name) ?? true }),
    onChange: (listener) => {
      listeners.push(() => listener({}, {}));
      return () => undefined;
    },
  });
  const kernel = {
    log: silentLog,
    operations: createOperationRegistry(),
    prompts: createPromptRegistry(),
    schemas: { install: async () => undefined },
    config: { register: async (name: string) => handle(name) },
    jobs: {
      register: async ({ name }: { name: string }) => {
        if (jobs.fail) throw new Error('no queue');
        jobs.names.add(name);
      },
      unregister: async (name: string) => void jobs.names.delete(name),
      leave: async (name: string) => {
        jobs.names.delete(name);
        jobs.left.push(name);
      },
    },
  } as unknown as Kernel;
  const setActive = async (name: string, value: boolean): Promise<void> => {
    active.set(name, value);
    for (const listener of listeners) await listener();
  };
  return { kernel, jobs, setActive };
}

const config = defineConfig({ schema: Type.Object({}) });

/** A module that writes down when it starts and stops. */
const recorded = (
  name: string,
  seen: string[],
  requires: Record<string, AnyModule> = {},
): AnyModule =>
  defineModule({
    name,
    description: name,
    requires,
    config,
    async start() {
      seen.push(`+${name}`);
      return {
        service: {},
        operations: [],
        jobs: [{ name: `${name}.job`, data: Type.Object({}), handler: async () => undefined }],
        async stop() {
          seen.push(`-${name}`);
        },
      };
    },
  });

it('starts modules after what they require, and stops them before', async () => {
  const seen: string[] = [];
  const below = recorded('below', seen);
  const above = recorded('above', seen, { below });
  const { kernel, jobs, setActive } = fakeKernel();
  const host = createModuleHost();
  await host.start(kernel, [above, below], async () => undefined);
  expect(seen).toEqual(['+below', '+above']);
  await setActive('below', false);
  expect(seen.slice(2)).toEqual(['-above', '-below']);
  expect(host.list()).toEqual([
    { name: 'below', serving: false, note: 'switched off' },
    { name: 'above', serving: false, note: 'switched off' },
  ]);
  expect(jobs.names.size).toBe(0);
  expect(jobs.left).toEqual([]);
  await setActive('below', true);
  expect(seen.slice(4)).toEqual(['+below', '+above']);
  await host.stop();
  expect(seen.slice(6)).toEqual(['-above', '-below']);
  // Other nodes go on with them.
  expect(jobs.left).toEqual(['above.job', 'below.job']);
});

it('undoes a start that fails half-way', async () => {
  const seen: string[] = [];
  const module = recorded('half', seen);
  const { kernel, jobs, setActive } = fakeKernel();
  const host = createModuleHost();
  await host.start(kernel, [module], async () => undefined);
  await setActive('half', false);
  jobs.fail = true;
  await expect(setActive('half', true)).rejects.toThrow('no queue');
  expect(seen).toEqual(['+half', '-half', '+half', '-half']);
  expect(host.list()).toEqual([
    { name: 'half', serving: false, note: 'it failed to start; see the log' },
  ]);
});

it('refuses modules that require each other, or one that is not there', () => {
  const lonely = recorded('lonely', [], { missing: recorded('missing', []) });
  expect(() => inDependencyOrder([lonely])).toThrow('lonely requires missing');
  const ring = { name: 'ring', requires: {} as Record<string, unknown> };
  ring.requires.ring = ring;
  expect(() => inDependencyOrder([ring as unknown as AnyModule])).toThrow('ring -> ring');
});

it('runs a module with or without those that it uses, and tells it when they come and go', async () => {
  const { kernel, setActive } = fakeKernel();
  const used = defineModule({
    name: 'used',
    description: 'used',
    requires: {},
    config,
    start: async () => ({ service: 'here', operations: [] }),
  });
  const seen: (string | undefined)[] = [];
  const user = defineModule({
    name: 'user',
    description: 'user',
    requires: {},
    uses: { used },
    config,
    async start({ optional }) {
      seen.push(optional.used.current());
      const stop = optional.used.onChange(() => seen.push(optional.used.current()));
      return { service: {}, operations: [], stop: async () => stop() };
    },
  });
  const host = createModuleHost();
  // Named first, and yet started second.
  await host.start(kernel, [user, used] as unknown as readonly AnyModule[], async () => undefined);
  await setActive('used', false);
  await setActive('used', true);
  await setActive('user', false);
  await setActive('used', false);
  expect(seen).toEqual(['here', undefined, 'here']);
  await host.stop();
});
