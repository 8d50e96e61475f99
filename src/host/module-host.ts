/**
 * Runs the modules: installs their data, starts them in dependency order,
 * switches them off and on when their configuration says so, and stops them in
 * reverse order. All transitions of one node happen one after the other.
 */
import Type, { type TObject } from 'typebox';
import {
  type ConfigDefinition,
  type ConfigHandle,
  defineConfig,
} from '../kernel/config/config-definition.ts';
import type { MigrationSet } from '../kernel/database/migrate.ts';
import type { Kernel, ModuleDirectory, ModuleState } from './kernel.ts';
import type { AnyModule, OptionalModule, RunningModule } from './module.ts';

export interface ModuleHost extends ModuleDirectory {
  /** Brings every module's schemas, tables and configuration up to date, then starts those that are switched on. */
  start(
    kernel: Kernel,
    modules: readonly AnyModule[],
    migrate: (sets: readonly MigrationSet[]) => Promise<void>,
  ): Promise<void>;
  /** The service of a running module, for the composition root. */
  service<S>(module: {
    readonly name: string;
    start(context: never): Promise<RunningModule<S>>;
  }): S | undefined;
  stop(): Promise<void>;
}

/** Every module but an essential one gets this key. */
const activeKey = Type.Boolean({
  default: true,
  description: 'Whether the module serves. Off: its routes are withdrawn, its data stays.',
});

interface Entry {
  readonly module: AnyModule;
  readonly config: ConfigHandle;
  running: RunningModule<unknown> | undefined;
  note: string | undefined;
  /** Takes its types of state away. */
  withdrawState: (() => void) | undefined;
  /** Modules that use this one, to be told when it starts and stops. */
  readonly followers: Set<() => void>;
}

type FindEntry = (module: { readonly name: string }) => Entry | undefined;

export function createModuleHost(): ModuleHost {
  const entries: Entry[] = [];
  let kernel: Kernel | undefined;
  let transitions: Promise<void> = Promise.resolve();

  const entryOf = (module: { readonly name: string }): Entry | undefined =>
    entries.find((e) => e.module.name === module.name);
  const requested = (entry: Entry): boolean =>
    (entry.module.essential === true || entry.config.current().active !== false) &&
    Object.values(entry.module.requires).every((required) => {
      const other = entryOf(required);
      return other !== undefined && requested(other);
    });

  /** Runs after all earlier transitions, whatever became of them. */
  const serially = (work: () => Promise<void>): Promise<void> => {
    const next = transitions.then(work);
    transitions = next.catch(() => undefined);
    return next;
  };

  const reconcile = async (): Promise<void> => {
    if (!kernel) return;
    for (const entry of entries.toReversed())
      if (entry.running && !requested(entry)) await stopModule(kernel, entry, 'everywhere');
    for (const entry of entries)
      if (!entry.running && requested(entry)) await startModule(kernel, entry, entryOf);
  };

  return {
    async start(theKernel, modules, migrate) {
      kernel = theKernel;
      const ordered = inDependencyOrder(modules);
      for (const module of ordered)
        if (module.schemas?.length) await kernel.schemas.install(module.name, module.schemas);
      await migrate(
        ordered.flatMap((m) => (m.migrations ? [{ owner: m.name, migrations: m.migrations }] : [])),
      );
      for (const module of ordered) {
        const config = await kernel.config.register<Record<string, unknown>>(
          module.name,
          configOf(module, kernel),
        );
        entries.push(newEntry(module, config));
        config.onChange(() => serially(reconcile));
      }
      await serially(reconcile);
    },
    service<S>(module: { readonly name: string }) {
      return entryOf(module)?.running?.service as S | undefined;
    },
    list: () => entries.map(stateOf),
    stop: () =>
      serially(async () => {
        if (!kernel) return;
        for (const entry of entries.toReversed())
          if (entry.running) await stopModule(kernel, entry, 'here');
      }),
  };
}

const newEntry = (module: AnyModule, config: Entry['config']): Entry => ({
  module,
  config,
  running: undefined,
  note: undefined,
  withdrawState: undefined,
  followers: new Set(),
});

const stateOf = ({ module, running, note }: Entry): ModuleState => ({
  name: module.name,
  ...(module.formerly === undefined ? {} : { formerly: module.formerly }),
  serving: running !== undefined,
  ...(running === undefined && module.whenOff === 'missing' && isOff(note)
    ? { missing: true }
    : {}),
  ...(note === undefined ? {} : { note }),
});

function configOf(module: AnyModule, { settings }: Kernel): ConfigDefinition {
  const config = module.configFor?.(settings) ?? module.config;
  if (module.essential) return config;
  return defineConfig({
    ...config,
    schema: Type.Object({ active: activeKey, ...config.schema.properties }) as TObject,
  });
}

async function startModule(kernel: Kernel, entry: Entry, entryOf: FindEntry): Promise<void> {
  const { module } = entry;
  const services = Object.fromEntries(
    Object.entries(module.requires).map(([alias, required]) => [
      alias,
      entryOf(required)?.running?.service,
    ]),
  );
  const optional = Object.fromEntries(
    Object.entries(module.uses ?? {}).map(([alias, used]) => [
      alias,
      optionalModule(entryOf, used),
    ]),
  );
  try {
    const running = await module.start({
      kernel,
      config: entry.config,
      services,
      optional,
      log: kernel.log.child({ module: module.name }),
    });
    entry.running = running;
    for (const job of running.jobs ?? []) await kernel.jobs.register(job);
    kernel.operations.describe(module.name, module.description);
    kernel.operations.replace(module.name, running.operations);
    kernel.prompts.replace(module.name, running.prompts ?? []);
    if (running.state) entry.withdrawState = kernel.state.register(running.state);
    entry.note = undefined;
    tellFollowers(entry);
  } catch (error) {
    // What had started by then must not stay behind without an owner.
    await stopModule(kernel, entry, 'here').catch((failure: unknown) =>
      kernel.log.error({ err: failure, module: module.name }, 'A failed start could not be undone'),
    );
    entry.note = 'it failed to start; see the log';
    throw error;
  }
}

const switchedOff = 'switched off';
/** By its operator, now or before the platform started; not by a failure. */
const isOff = (note: string | undefined): boolean => note === undefined || note === switchedOff;

/** `here`: this node stops, or could not start it, and others go on; `everywhere`: the module is switched off. */
async function stopModule(
  kernel: Kernel,
  entry: Entry,
  where: 'here' | 'everywhere',
): Promise<void> {
  const { running, module } = entry;
  if (!running) return;
  entry.running = undefined;
  entry.note = switchedOff;
  tellFollowers(entry);
  kernel.operations.replace(module.name, []);
  kernel.prompts.replace(module.name, []);
  entry.withdrawState?.();
  entry.withdrawState = undefined;
  for (const { name } of running.jobs ?? [])
    await (where === 'here' ? kernel.jobs.leave(name) : kernel.jobs.unregister(name));
  await running.stop?.();
}

/** A module as those see it that can do without it. */
const optionalModule = (
  entryOf: FindEntry,
  module: { readonly name: string },
): OptionalModule<unknown> => ({
  current: () => entryOf(module)?.running?.service,
  onChange(listener) {
    const followers = entryOf(module)?.followers;
    followers?.add(listener);
    return () => void followers?.delete(listener);
  },
});

function tellFollowers({ followers }: Entry): void {
  for (const follow of [...followers]) follow();
}

/** Modules sorted so that each comes after all that it requires or uses; throws on a cycle or a gap. */
export function inDependencyOrder(modules: readonly AnyModule[]): readonly AnyModule[] {
  const known = new Map(modules.map((module) => [module.name, module]));
  const done = new Set<string>();
  const ordered: AnyModule[] = [];
  const visit = (module: AnyModule, path: readonly string[]): void => {
    if (done.has(module.name)) return;
    if (path.includes(module.name))
      throw new Error(`Modules require each other: ${[...path, module.name].join(' -> ')}`);
    for (const required of [
      ...Object.values(module.requires),
      ...Object.values(module.uses ?? {}),
    ]) {
      const other = known.get(required.name);
      if (!other)
        throw new Error(
          `Module ${module.name} requires ${required.name}, which is not part of this platform`,
        );
      visit(other, [...path, module.name]);
    }
    done.add(module.name);
    ordered.push(module);
  };
  for (const module of modules) visit(module, []);
  return ordered;
}
