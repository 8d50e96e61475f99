/** Secrets in a backup stay sealed: they open only with the key of the installation that was backed up. */
import type pg from 'pg';
import { opensDataKey } from '../kernel/security/open-secret-box.ts';
import type { Settings } from '../kernel/settings.ts';
import { StartError } from '../kernel/start-error.ts';
import type { Manifest } from './format.ts';
import { isThere } from './platform-facts.ts';

/** The wrapped data key; nothing before the first start has made one. */
export async function wrappedKey(client: pg.ClientBase): Promise<string | null> {
  if (!(await isThere(client, 'keyring'))) return null;
  const { rows } = await client.query<{ wrapped: string }>(`select wrapped from penstock.keyring where id = 'data'`);
  return rows[0]?.wrapped ?? null;
}

type Keys = Pick<Settings, 'masterKey' | 'masterKeyPrevious' | 'configEncryptionKey'>;

/**
 * Answers whether the keys of the environment will open the restored secrets; `unknown` when it gives none.
 * @throws StartError when it gives keys that will not: the restored platform could not start with them.
 */
export function checkKeys(
  { wrappedKey: wrapped }: Manifest,
  { masterKey, masterKeyPrevious, configEncryptionKey }: Keys,
): 'fits' | 'unknown' {
  if (wrapped === null) return 'fits';
  if (masterKey === undefined && configEncryptionKey === undefined) return 'unknown';
  if (opensDataKey(wrapped, { ...(masterKey === undefined ? {} : { masterKey }), masterKeyPrevious, configEncryptionKey })) return 'fits';
  throw new StartError(
    'MASTER_KEY (or CONFIG_ENCRYPTION_KEY) is not the one of the installation that was backed up, so its secrets could not be opened: ' +
      'set the key of that installation, or none to set it later. Nothing was changed.',
  );
}
