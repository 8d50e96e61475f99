/** Secrets in a backup stay sealed: they open only with the key of the installation that was backed up. */
import type pg from 'pg';
import { canonicalText } from '../kernel/canonical.ts';
import { opensDataKey, signWithDataKey } from '../kernel/security/secret-box.ts';
import { sameSecret } from '../kernel/security/tokens.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import { StartError } from '../kernel/start-error.ts';
import type { Manifest } from './format.ts';

/* What a backup has to know about the platform whose database it is. */

/** Whether the platform's own table of that name is there: before the first start there is none. */
const isThere = async (client: pg.ClientBase, table: string): Promise<boolean> =>
  (
    await client.query(`select from pg_tables where schemaname = 'penstock' and tablename = $1`, [
      table,
    ])
  ).rows.length > 0;

/** Keys of the migrations that made its tables what they are. */
export async function migrationsOf(client: pg.ClientBase): Promise<string[]> {
  if (!(await isThere(client, 'migrations'))) return [];
  const { rows } = await client.query<{ key: string }>(
    `select owner || '/' || id as key from penstock.migrations order by 1`,
  );
  return rows.map(({ key }) => key);
}

/** Tables that are served in place and are not the platform's, such as `public.orders`. Views of the platform are made anew at a start. */
export async function tablesOfOthers(client: pg.ClientBase): Promise<string[]> {
  if (!(await isThere(client, 'declared_schemas')) || !(await isThere(client, 'views'))) return [];
  const { rows } = await client.query<{ name: string }>(
    `select distinct source ->> 'schema' || '.' || (source ->> 'name') as name
     from (select name as declared, layout -> 'mapping' -> 'source' as source from penstock.declared_schemas where removed_at is null) s
     where source is not null and declared not in (select name from penstock.views) order by 1`,
  );
  return rows.map(({ name }) => name);
}

/** The wrapped data key; nothing before the first start has made one. */
export async function wrappedKey(client: pg.ClientBase): Promise<string | null> {
  if (!(await isThere(client, 'keyring'))) return null;
  const { rows } = await client.query<{ wrapped: string }>(
    `select wrapped from penstock.keyring where id = 'data'`,
  );
  return rows[0]?.wrapped ?? null;
}

/** The keys of an installation, as far as they are known here. */
export type Keys = Pick<Settings, 'masterKey' | 'masterKeyPrevious' | 'configEncryptionKey'>;

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
  if (
    opensDataKey(wrapped, {
      ...(masterKey === undefined ? {} : { masterKey }),
      masterKeyPrevious,
      configEncryptionKey,
    })
  )
    return 'fits';
  throw new StartError(
    'MASTER_KEY (or CONFIG_ENCRYPTION_KEY) is not the one of the installation that was backed up, so its secrets could not be opened: ' +
      'set the key of that installation, or none to set it later. Nothing was changed.',
  );
}

/* The signature of a backup: checksums find damage, the signature finds a file that somebody else has made or changed. */

/** Nothing when the keys do not open the data key of the database that is backed up. */
export function signatureOf(manifest: Manifest, keys: Keys): string | undefined {
  const { signature: _, wrappedKey: wrapped, ...rest } = manifest;
  if (wrapped === null) return undefined;
  const text = canonicalText({ ...rest, wrappedKey: wrapped });
  return signWithDataKey(wrapped, keys, { text, purpose: 'backup' });
}

/**
 * - `signed`: made by the installation of these keys, and unchanged since
 * - `unsigned`: it has no signature, or no key of an installation
 * - `changed`: it has another signature than these keys give
 * - `foreign`: the keys are not those of its installation
 * - `unknown`: no key is given
 */
export type Signature = 'signed' | 'unsigned' | 'changed' | 'foreign' | 'unknown';

export function checkSignature(manifest: Manifest, keys: Keys): Signature {
  if (keys.masterKey === undefined && keys.configEncryptionKey === undefined) return 'unknown';
  if (manifest.signature === undefined || manifest.wrappedKey === null) return 'unsigned';
  const right = signatureOf(manifest, keys);
  if (right === undefined) return 'foreign';
  return sameSecret(right, manifest.signature) ? 'signed' : 'changed';
}
