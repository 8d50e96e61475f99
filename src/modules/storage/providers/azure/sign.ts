/** Who we are to Azure: signed requests, and addresses that others may use for a while. */

import { createHmac } from 'node:crypto';
import { withoutEnd } from '../../../../kernel/text.ts';
import { type ObjectPlace, ProviderError } from '../provider.ts';
import type { UnsignedRequest } from '../remote/transport.ts';

export interface AzureAccount {
  readonly name: string;
  readonly key: Buffer;
  /** Without an end slash. */
  readonly endpoint: string;
}

/** @throws ProviderError REFUSED */
export function readConnectionString(text: string): AzureAccount {
  const parts = new Map(
    text
      .split(';')
      .map((part) => part.trim().split(/=(.*)/s, 2))
      .map(([name = '', value = '']) => [name.toLowerCase(), value]),
  );
  const name = parts.get('accountname') ?? '';
  const key = Buffer.from(parts.get('accountkey') ?? '', 'base64');
  const protocol = parts.get('defaultendpointsprotocol') ?? 'https';
  const suffix = parts.get('endpointsuffix') ?? 'core.windows.net';
  const endpoint = parts.get('blobendpoint') ?? `${protocol}://${name}.blob.${suffix}`;
  if (name === '' || key.length === 0 || !/^https?:\/\//.test(endpoint) || !URL.canParse(endpoint))
    throw new ProviderError(
      'REFUSED',
      'The connection string must name AccountName, AccountKey and, where it is not the usual one, BlobEndpoint',
    );
  return { name, key, endpoint: withoutEnd(endpoint, '/') };
}

const sign = ({ key }: AzureAccount, text: string): string =>
  createHmac('sha256', key).update(text).digest('base64');

/** https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key */
export function signRequest(
  account: AzureAccount,
  { method, url, headers }: UnsignedRequest,
): Record<string, string> {
  const dated: Record<string, string> = { ...headers, 'x-ms-date': new Date().toUTCString() };
  const length = dated['content-length'] ?? '';
  const own = Object.keys(dated)
    .filter((name) => name.startsWith('x-ms-'))
    .sort()
    .map((name) => `${name}:${dated[name]}`);
  const query = [...url.searchParams]
    .map(([name, value]) => `${name.toLowerCase()}:${value}`)
    .sort();
  const resource = [`/${account.name}${url.pathname}`, ...query];
  const type = dated['content-type'] ?? '';
  // Empty: encoding, language, MD5, date, the other conditions, range.
  const unless = dated['if-none-match'] ?? '';
  const lines = [
    method,
    '',
    '',
    length === '0' ? '' : length,
    '',
    type,
    '',
    '',
    '',
    unless,
    '',
    '',
  ];
  const text = [...lines, ...own, ...resource].join('\n');
  return {
    'x-ms-date': dated['x-ms-date'] ?? '',
    authorization: `SharedKey ${account.name}:${sign(account, text)}`,
  };
}

export interface SasOptions {
  /** `r` reads, `c` creates what is not there. */
  readonly permissions: 'r' | 'c';
  readonly expiresInSeconds: number;
  readonly disposition?: string | undefined;
  readonly contentType?: string | undefined;
}

const SAS_VERSION = '2021-12-02';

/** https://learn.microsoft.com/rest/api/storageservices/create-service-sas */
export function signSas(
  account: AzureAccount,
  { bucket, key }: ObjectPlace,
  { permissions, expiresInSeconds, disposition = '', contentType = '' }: SasOptions,
): { readonly query: string; readonly expiresAt: Date } {
  const expiresAt = new Date((Math.floor(Date.now() / 1000) + expiresInSeconds) * 1000);
  const se = expiresAt.toISOString().replace('.000', '');
  const resource = `/blob/${account.name}/${bucket}/${key}`;
  const text = [
    permissions,
    '',
    se,
    resource,
    // Stored policy, addresses, protocol.
    '',
    '',
    '',
    SAS_VERSION,
    'b',
    // Snapshot, encryption scope, cache control.
    '',
    '',
    '',
    disposition,
    // Encoding, language.
    '',
    '',
    contentType,
  ].join('\n');
  const query = new URLSearchParams({ sv: SAS_VERSION, se, sr: 'b', sp: permissions });
  if (disposition !== '') query.set('rscd', disposition);
  if (contentType !== '') query.set('rsct', contentType);
  query.set('sig', sign(account, text));
  return { query: query.toString().replaceAll('+', '%20'), expiresAt };
}
