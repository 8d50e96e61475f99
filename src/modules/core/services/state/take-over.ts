/**
 * Configurations of modules that are part of another one today, as older lines kept them: each is taken over once, into
 * what nobody has set here so far.
 */
import type { Caller } from '../../../../kernel/caller.ts';
import { sameValue } from '../../../../kernel/canonical.ts';
import type { ConfigService } from '../../../../kernel/config/config-service.ts';
import { fillDefaults, isTree, type SchemaNode } from '../../../../kernel/config/tree.ts';
import { placed } from '../../../../kernel/state.ts';
import type { StateContent } from './document.ts';

type Tree = Readonly<Record<string, unknown>>;

/** The document with what its former modules say in the place where that stands today. Throws 400. */
export async function takeOver(
  config: ConfigService,
  caller: Caller,
  content: StateContent,
): Promise<{ readonly content: StateContent; readonly warnings: readonly string[] }> {
  const configs = new Map(content.configs);
  const warnings: string[] = [];
  for (const [name, document] of content.configs) {
    const heir = config.definition(name) ? undefined : heirOf(config, name);
    if (!heir) continue;
    const place = `configs.modules.${name}`;
    configs.delete(name);
    const taken = await placed(place, async () => heir.take(document));
    const untouched = await untouchedKeys(config, caller, heir.module);
    const own = configs.get(heir.module) ?? {};
    const free = Object.entries(taken).filter(([key]) => untouched.has(key) && !(key in own));
    for (const key of Object.keys(taken))
      if (!free.some(([one]) => one === key))
        warnings.push(`${place}: ${heir.module}.${key} has been set already, and stays as it is`);
    if (free.length > 0) configs.set(heir.module, { ...own, ...Object.fromEntries(free) });
  }
  return { content: { ...content, configs }, warnings };
}

interface Heir {
  readonly module: string;
  readonly take: (document: Record<string, unknown>) => Tree;
}

function heirOf(config: ConfigService, name: string): Heir | undefined {
  for (const module of config.modules()) {
    const take = config.definition(module)?.formerly?.get(name);
    if (take) return { module, take };
  }
  return undefined;
}

/** The keys of a configuration that are as they were in the beginning. */
async function untouchedKeys(
  config: ConfigService,
  caller: Caller,
  module: string,
): Promise<ReadonlySet<string>> {
  const { config: current } = await config.read(caller, module);
  const initial = fillDefaults(config.definition(module)?.schema as SchemaNode, {});
  if (!isTree(initial)) return new Set();
  return new Set(Object.keys(initial).filter((key) => sameValue(initial[key], current[key])));
}
