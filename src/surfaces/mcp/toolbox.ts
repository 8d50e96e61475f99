/** The tools of one request: what its address loads, less what its credential may not do. */
import { hasAuthority } from '../../kernel/authority/authority.ts';
import type { AdminCaller, Caller } from '../../kernel/caller.ts';
import { withinScopes } from '../../kernel/operations/scopes.ts';
import type { Catalogue } from './catalogue.ts';
import { type LoadedGroups, loadedGroups } from './groups.ts';
import type { Tool } from './tool.ts';

export interface Toolbox {
  /** In the order in which they are listed. */
  readonly loaded: readonly Tool[];
  /** Loaded or not. */
  readonly all: readonly Tool[];
  readonly dynamic: boolean;
  /** Modules that were asked for and do not exist. */
  readonly unknown: readonly string[];
  find(name: string): Tool | undefined;
  groups(): readonly { readonly name: string; readonly toolCount: number; readonly loaded: boolean }[];
}

export interface ToolboxParts {
  readonly catalogue: Catalogue;
  readonly caller: Caller;
  /** The query parameter `modules`. */
  readonly modules: string | undefined;
  readonly dynamic: boolean;
}

/** Tools that would answer 403 are no help to a model. */
const isWithin = (caller: AdminCaller, { operation, module }: Tool): boolean =>
  withinScopes(caller, operation) &&
  (operation.unscoped !== true || hasAuthority(caller, { kind: 'credentials' })) &&
  (module === undefined || hasAuthority(caller, { kind: 'module', module }));

export function createToolbox({ catalogue, caller, modules, dynamic }: ToolboxParts): Toolbox {
  const groups: LoadedGroups = loadedGroups(modules, catalogue.groups);
  const scoped = caller.kind === 'admin' && caller.scopes !== undefined;
  const allowed = (tool: Tool): boolean => !scoped || isWithin(caller, tool);
  const all = scoped ? catalogue.tools.filter(allowed) : catalogue.tools;
  return {
    all,
    dynamic,
    unknown: groups.unknown,
    get loaded() {
      return all.filter(({ group }) => groups.has(group));
    },
    find(name) {
      const tool = catalogue.byName.get(name);
      return tool && groups.has(tool.group) && allowed(tool) ? tool : undefined;
    },
    groups() {
      const counts = new Map<string, number>();
      for (const { group } of all) counts.set(group, (counts.get(group) ?? 0) + 1);
      return [...counts].map(([name, toolCount]) => ({ name, toolCount, loaded: groups.has(name) }));
    },
  };
}
