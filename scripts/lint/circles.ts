/**
 * Circles between the files and folders that stand beside each other in one folder of src. Whoever is part of one
 * cannot be read, tested or moved alone. Type imports count too. A circle between files of different folders shows
 * in the folder that holds both.
 */
import type { SourceFile } from './imports.ts';

export interface Circle {
  /** The folder whose entries go in a circle. */
  readonly folder: string;
  /** Files and folders in it that reach each other. */
  readonly members: readonly string[];
  /** An import for each arrow between two members, as `from -> to`. */
  readonly imports: readonly string[];
}

/** For each entry of a folder, the entries beside it that it imports, with one import as an example. */
type Arrows = Map<string, Map<string, string>>;

export function findCircles(files: readonly SourceFile[]): Circle[] {
  const folders = new Map<string, Arrows>();
  for (const { path, imports } of files.filter(isProduct)) {
    for (const to of imports) addArrow(folders, path, to);
  }
  return [...folders].flatMap(([folder, arrows]) =>
    circlesOf(arrows).map((members) => ({
      folder,
      members,
      imports: members.flatMap((one) =>
        [...(arrows.get(one) ?? [])].flatMap(([other, example]) =>
          members.includes(other) ? [example] : [],
        ),
      ),
    })),
  );
}

const isProduct = ({ path }: SourceFile): boolean =>
  path.startsWith('src/') && !/\.test\.ts$|\/(test-support|property)\//.test(path);

function addArrow(folders: Map<string, Arrows>, from: string, to: string): void {
  const [left, right] = [from.split('/'), to.split('/')];
  const depth = left.findIndex((part, index) => part !== right[index]);
  const [one, other] = [left[depth], right[depth]];
  if (depth < 1 || one === undefined || other === undefined) return;
  const folder = left.slice(0, depth).join('/');
  const arrows = folders.get(folder) ?? new Map();
  folders.set(folder, arrows);
  for (const entry of [one, other]) if (!arrows.has(entry)) arrows.set(entry, new Map());
  const targets = arrows.get(one);
  if (!targets.has(other)) targets.set(other, `${from} -> ${to}`);
}

/** Sets of entries that all reach each other. */
function circlesOf(arrows: Arrows): string[][] {
  const reached = new Map([...arrows.keys()].map((entry) => [entry, reachedFrom(entry, arrows)]));
  const circles = new Map<string, string[]>();
  for (const [entry, targets] of reached) {
    if (!targets.has(entry)) continue;
    const members = [...targets].filter((other) => reached.get(other)?.has(entry)).sort();
    circles.set(members.join(), members);
  }
  return [...circles.values()];
}

function reachedFrom(entry: string, arrows: Arrows): Set<string> {
  const reached = new Set<string>();
  const waiting = [entry];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const target of arrows.get(next)?.keys() ?? []) {
      if (reached.has(target)) continue;
      reached.add(target);
      waiting.push(target);
    }
  }
  return reached;
}
