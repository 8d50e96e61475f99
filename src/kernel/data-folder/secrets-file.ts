/** The secrets that the first start makes: one file in the data folder, readable only by its owner. */
import { chmod, open, readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { StartError } from '../start-error.ts';

const Secrets = Type.Object({
  masterKey: Type.Optional(Type.String({ minLength: 1 })),
  /** As made at the first start; who changes the password later does not change it here. */
  admin: Type.Optional(Type.Object({ username: Type.String(), password: Type.String() })),
  /** Which of them were made and no operator has seen yet, because the start that made them did not succeed. */
  unshown: Type.Optional(Type.Array(Type.Enum(['masterKey', 'admin']))),
});
export type Secrets = Static<typeof Secrets>;

export interface SecretsFile {
  readonly path: string;
  read(): Promise<Secrets>;
  /** Adds to what is there. Safe on the disk when it resolves. */
  merge(change: Secrets): Promise<void>;
}

const ABOUT =
  'Made by Penstock at its first start. Whoever reads this file owns the platform: keep it private and in your backup.';
const OTHERS = 0o077;
const check = Compile(Secrets);

const pathIn = (folder: string): string => join(folder, 'secrets.json');

/** What is kept in that data folder; for those who only look. @throws StartError when the file is damaged. */
export async function readSecrets(folder: string): Promise<Secrets> {
  const path = pathIn(folder);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return {};
    throw new StartError(whyUnreadable(path, code), { cause: error });
  }
  const value = parse(text);
  if (!check.Check(value))
    throw new StartError(`${path} is damaged: restore it from a backup, or correct it by hand`);
  return { masterKey: value.masterKey, admin: value.admin, unshown: value.unshown };
}

function whyUnreadable(path: string, code: string | undefined): string {
  if (code === 'EISDIR') return `${path} is a folder: put the file from your backup there`;
  if (code === 'EACCES' || code === 'EPERM')
    return `${path} cannot be read by this user: change its owner to the user that runs Penstock, mode 600`;
  return `${path} cannot be read (${code}): restore it from a backup`;
}

export function openSecretsFile(folder: string): SecretsFile {
  const path = pathIn(folder);

  async function read(): Promise<Secrets> {
    const secrets = await readSecrets(folder);
    const mode = await stat(path).then(
      (facts) => facts.mode,
      () => 0,
    );
    if ((mode & OTHERS) !== 0) await chmod(path, 0o600);
    return secrets;
  }

  return {
    path,
    read,
    async merge(change) {
      const draft = `${path}.new`;
      const file = await open(draft, 'w', 0o600);
      try {
        await file.writeFile(
          `${JSON.stringify({ about: ABOUT, ...(await read()), ...change }, undefined, 2)}\n`,
        );
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, path);
    },
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
