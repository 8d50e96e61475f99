/** Rules about files that no off-the-shelf tool checks. */
import { homedir } from 'node:os';

export interface TextFile {
  readonly path: string;
  readonly text: string;
}

/** Folders that exist on one machine only. Spelled in parts, so that this file passes its own rule. */
const machineFolders = ['root', 'work', 'mnt', 'Users'].map((folder) => `/${folder}/`);

export interface Problem {
  readonly path: string;
  readonly message: string;
}

export const checkFile = (file: TextFile, root: string): Problem[] => [
  ...machinePaths(file, root),
  ...lockFile(file),
  ...pinned(file),
  ...pronouns(file),
];

/** Nothing in the repository may say where it was checked out. */
function machinePaths({ path, text }: TextFile, root: string): Problem[] {
  const places = [...machineFolders, root, homedir()].filter((place) => place.length > 1);
  return text.split('\n').flatMap((line, index) => {
    const place = places.find((one) => startsPath(line, one));
    return place
      ? [{ path: `${path}:${index + 1}`, message: `names a folder of one machine (${place})` }]
      : [];
  });
}

/** True when `place` stands at the beginning of a path, not inside another path or address. */
function startsPath(line: string, place: string): boolean {
  for (let at = line.indexOf(place); at >= 0; at = line.indexOf(place, at + 1)) {
    if (at === 0 || !/[\w.\-}/~]/.test(line[at - 1] ?? '')) return true;
  }
  return false;
}

/** The lock file must work with any registry: it holds checksums, but no download addresses. */
function lockFile({ path, text }: TextFile): Problem[] {
  if (path !== 'package-lock.json') return [];
  return /"resolved":\s*"http/.test(text)
    ? [{ path, message: 'holds download addresses: run npm install with this .npmrc' }]
    : [];
}

/** Versions of dependencies are exact. */
function pinned({ path, text }: TextFile): Problem[] {
  if (!/(^|\/)package\.json$/.test(path)) return [];
  const { dependencies, devDependencies, optionalDependencies } = JSON.parse(text) as Record<
    string,
    Record<string, string>
  >;
  return Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })
    .filter(([, version]) => !/^(npm:[^ ]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
    .map(([name, version]) => ({
      path,
      message: `${name} is not pinned to one version (${version})`,
    }));
}

/** Spelled so that this file passes its own rule. */
const gendered = /\b(?:h[e]|h[i][ms]|h[i]mself|sh[e]|h[e]rs?|h[e]rself)\b/i;

/** A person in code, messages and pages is "they" or "you". */
function pronouns({ path, text }: TextFile): Problem[] {
  if (!/\.(?:ts|mjs|md)$/.test(path)) return [];
  return text.split('\n').flatMap((line, index) => {
    const word = gendered.exec(line)?.[0];
    return word === undefined
      ? []
      : [{ path: `${path}:${index + 1}`, message: `says "${word}": a person is "they" or "you"` }];
  });
}
