/** Groups of tools: what `?modules=` loads (interface 4.9, spec/core.md 9.4). */
import type { Operation } from '../../kernel/operation.ts';
import { moduleOf } from '../../kernel/registry.ts';

/** Loaded without being asked for. */
export const coreGroup = 'core';

/** The three channels were modules of their own once; their names still load their part. */
const channels: ReadonlySet<string> = new Set(['email', 'push', 'sms']);
const communications = 'communications';

/** The group of an operation: its module, not its path. */
export function groupOf(owner: string, { path }: Pick<Operation, 'path'>): string {
  const module = moduleOf(owner);
  if (module !== communications) return groupOfModule(module);
  const [, first = ''] = path.split('/');
  return channels.has(first) ? first : communications;
}

/** `admin` is a configuration document of core. */
export const groupOfModule = (module: string): string => (module === 'admin' ? coreGroup : module);

export interface LoadedGroups {
  has(group: string): boolean;
  /** Names that were asked for and that nobody has. */
  readonly unknown: readonly string[];
}

/** What the address of the request asks for: `modules=a,b`, or `modules=all`. */
export function loadedGroups(asked: string | undefined, existing: ReadonlySet<string>): LoadedGroups {
  const names = (asked ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
  if (names.includes('all')) return { has: () => true, unknown: [] };
  const loaded = new Set([coreGroup, ...names.flatMap((name) => (name === communications ? [communications, ...channels] : [name]))]);
  return { has: (group) => loaded.has(group), unknown: names.filter((name) => !existing.has(name) && name !== communications) };
}
