/** As whom the embedded server runs: PostgreSQL refuses to run as root. */
import { stat } from 'node:fs/promises';
import { StartError } from '../../start-error.ts';

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
    return owner && owner.uid !== 0 ? { uid: owner.uid, gid: owner.gid } : { uid: NOBODY, gid: NOBODY };
  }
  if (owner && owner.uid !== self) {
    throw new StartError(`The folder ${folder} belongs to the user with id ${owner.uid}: start Penstock as that user, or change its owner`);
  }
  return {};
}
