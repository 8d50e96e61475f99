/**
 * The direction of dependencies (ARCHITECTURE.md): main -> surfaces, modules -> host -> data -> kernel. Type imports
 * count too: a type that is known is a thing that is known. Tests may import anything.
 */
import type { SourceFile } from './imports.ts';

export interface Violation {
  readonly from: string;
  readonly to: string;
  readonly rule: string;
}

type Room =
  | { readonly kind: 'kernel' | 'data' | 'host' | 'surface' | 'composition' | 'outside' }
  | { readonly kind: 'module'; readonly name: string; readonly isIndex: boolean };

export function findViolations(files: readonly SourceFile[]): Violation[] {
  const requires = new Map(
    files
      .filter((file) => file.path.endsWith('/index.ts'))
      .map((file) => [file.path, file.requires]),
  );
  return files
    .filter((file) => !/\.test\.ts$|\/test-support\//.test(file.path))
    .flatMap((file) =>
      file.imports.flatMap((to) => {
        const rule = broken(roomOf(file.path), roomOf(to), requires);
        return rule ? [{ from: file.path, to, rule }] : [];
      }),
    );
}

function roomOf(path: string): Room {
  const [top, area, name, ...rest] = path.split('/');
  if (top !== 'src') return { kind: 'outside' };
  if (area === 'kernel' || area === 'data' || area === 'host') return { kind: area };
  if (area === 'surfaces') return { kind: 'surface' };
  if (area === 'modules' && name)
    return { kind: 'module', name, isIndex: rest.join('/') === 'index.ts' };
  return { kind: 'composition' };
}

/** The zones below modules and surfaces, from the lowest. */
const levels: readonly string[] = ['kernel', 'data', 'host'];

/** The rule that an arrow breaks, or undefined. */
function broken(
  from: Room,
  to: Room,
  requires: ReadonlyMap<string, readonly string[]>,
): string | undefined {
  if (from.kind === 'outside' || from.kind === 'composition' || to.kind === 'kernel')
    return undefined;
  if (to.kind === 'outside') return 'product code imports nothing from outside src/';
  if (to.kind === 'composition') return 'only the composition root knows the composition root';
  const [level, target] = [levels.indexOf(from.kind), levels.indexOf(to.kind)];
  if (level >= 0)
    return target >= 0 && target <= level
      ? undefined
      : 'kernel, data and host know no zone above them';
  if (target >= 0) return undefined;
  if (from.kind === 'surface')
    return to.kind === 'module' ? 'a surface knows operations, never modules' : undefined;
  if (to.kind === 'surface') return 'a module knows no surface';
  if (from.kind !== 'module' || to.kind !== 'module') return undefined;
  return betweenModules(from, to, requires);
}

type ModuleRoom = Extract<Room, { kind: 'module' }>;

function betweenModules(
  from: ModuleRoom,
  to: ModuleRoom,
  requires: ReadonlyMap<string, readonly string[]>,
): string | undefined {
  if (from.name === to.name) return undefined;
  if (!to.isIndex) return 'a module imports another module only through its index.ts';
  const declared = requires.get(`src/modules/${from.name}/index.ts`) ?? [];
  return declared.includes(to.name)
    ? undefined
    : `module ${from.name} does not name ${to.name} under "requires"`;
}
