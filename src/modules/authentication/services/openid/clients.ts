/** Apps that users of this platform sign in to, as operators keep them. Secrets are answered once and stored as hashes. */
import type { AdapterPayload, Provider } from 'oidc-provider';
import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { invalid } from '../../../../kernel/errors.ts';
import { newId } from '../../../../kernel/ids.ts';
import { randomToken, sha256 } from '../../../../kernel/security/tokens.ts';
import { openidProviderErrors } from '../../credential-errors.ts';
import { openidLibrary } from './library.ts';
import { narrowGiven } from './queries.ts';

export const openidScopes = ['openid', 'profile', 'email', 'phone', 'offline_access'] as const;
export type OpenidScope = (typeof openidScopes)[number];

/** `web` keeps a secret on a server; `spa` and `native` run where anybody can read them, and have none. */
export const openidClientKinds = ['web', 'spa', 'native'] as const;
export type OpenidClientKind = (typeof openidClientKinds)[number];

/** What an operator says about an app. */
export interface OpenidClientFields {
  readonly clientId: string;
  readonly name: string;
  readonly kind: OpenidClientKind;
  readonly redirectUris: readonly string[];
  readonly postLogoutRedirectUris: readonly string[];
  readonly scopes: readonly OpenidScope[];
  /** `never`: an app of the operator's own, that users need not be asked about. */
  readonly consent: 'ask' | 'never';
  readonly refreshTokens: boolean;
}

export interface OpenidClientRow extends OpenidClientFields {
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface OpenidClients {
  list(): Promise<readonly OpenidClientRow[]>;
  /** Throws 400 for addresses that cannot be used, 409 for an id that is taken. Answers the secret, of `web` alone. */
  create(
    caller: Caller,
    client: OpenidClientFields,
  ): Promise<OpenidClientRow & { readonly clientSecret?: string }>;
  /** What is left out stays. Throws 404 too. */
  update(
    caller: Caller,
    clientId: string,
    change: Partial<Omit<OpenidClientFields, 'clientId' | 'kind'>>,
  ): Promise<OpenidClientRow>;
  /** A new secret; those until now stay good for `keepMs`. Throws 400 for an app that has none. */
  rotateSecret(caller: Caller, clientId: string, keepMs: number): Promise<string>;
  /** Its tokens go with it. */
  remove(caller: Caller, clientId: string): Promise<void>;
  /** As the library knows an app; its `client_secret` is only a list of hashes. */
  metadata(clientId: string): Promise<AdapterPayload | undefined>;
  /** The app as it would be stored. Throws 400. */
  checked(client: OpenidClientFields): Promise<OpenidClientFields>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  /** A provider that apps are checked against; it need not serve. */
  readonly checker: () => Provider;
}

const columns = `client_id as "clientId", name, kind, redirect_uris as "redirectUris",
  post_logout_redirect_uris as "postLogoutRedirectUris", scopes, consent, refresh_tokens as "refreshTokens",
  created_at as "createdAt", updated_at as "updatedAt"`;

export function createOpenidClients(dependencies: Dependencies): OpenidClients {
  const { database, events, checker } = dependencies;
  const changed = (transaction: Transaction, caller: Caller, what: string, clientId: string) =>
    events.emit(transaction, caller, {
      topic: `authentication:${what}:openidClient`,
      ids: [clientId],
    });
  return {
    list: async () =>
      (
        await database.query<OpenidClientRow>({
          text: `select ${columns} from penstock.openid_clients order by client_id limit 10000`,
        })
      ).rows,
    create: (caller, client) =>
      database.transaction(async (transaction) => {
        const row = await insertClient(transaction, check(checker(), client));
        if (!row) throw openidProviderErrors.OPENID_CLIENT_EXISTS();
        await changed(transaction, caller, 'create', row.clientId);
        if (row.kind !== 'web') return row;
        return { ...row, clientSecret: await addSecret(transaction, row.clientId) };
      }),
    update: (caller, clientId, change) =>
      database.transaction(async (transaction) => {
        const before = await lockClient(transaction, clientId);
        const given = Object.entries(change).filter(([, value]) => value !== undefined);
        const row = await updateClient(
          transaction,
          check(checker(), { ...before, ...Object.fromEntries(given) }),
        );
        if (mayLess(before, row)) await narrowGiven(transaction, clientId, row.scopes);
        await changed(transaction, caller, 'update', clientId);
        return row;
      }),
    rotateSecret: (caller, clientId, keepMs) =>
      database.transaction(async (transaction) => {
        const { kind } = await lockClient(transaction, clientId);
        if (kind !== 'web')
          throw invalid('clientId', 'kind', 'an app of this kind has no secret: PKCE protects it');
        await transaction.query(sql`
          update penstock.openid_client_secrets
          set expires_at = least(expires_at, now() + ${keepMs}::double precision * interval '1 millisecond')
          where client_id = ${clientId}`);
        await changed(transaction, caller, 'rotate', clientId);
        return addSecret(transaction, clientId);
      }),
    remove: (caller, clientId) =>
      database.transaction(async (transaction) => {
        await lockClient(transaction, clientId);
        await transaction.query(
          sql`delete from penstock.openid_clients where client_id = ${clientId}`,
        );
        await changed(transaction, caller, 'delete', clientId);
      }),
    metadata: (clientId) => metadataOf(database, clientId),
    checked: async (client) => check(checker(), client),
  };
}

/** What the app has until now was given under rules that no longer hold: users are asked again. */
const mayLess = (before: OpenidClientFields, after: OpenidClientFields): boolean =>
  before.scopes.some((scope) => !after.scopes.includes(scope)) ||
  (before.consent === 'never' && after.consent === 'ask');

async function insertClient(
  database: Queryable,
  client: OpenidClientFields,
): Promise<OpenidClientRow | undefined> {
  const { rows } = await database.query<OpenidClientRow>({
    text: `insert into penstock.openid_clients
      (client_id, name, kind, redirect_uris, post_logout_redirect_uris, scopes, consent, refresh_tokens)
      values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (client_id) do nothing returning ${columns}`,
    values: valuesOf(client),
  });
  return rows[0];
}

async function updateClient(
  database: Queryable,
  client: OpenidClientFields,
): Promise<OpenidClientRow> {
  const { rows } = await database.query<OpenidClientRow>({
    text: `update penstock.openid_clients set name = $2, kind = $3, redirect_uris = $4, post_logout_redirect_uris = $5,
      scopes = $6, consent = $7, refresh_tokens = $8, updated_at = now() where client_id = $1 returning ${columns}`,
    values: valuesOf(client),
  });
  if (!rows[0]) throw openidProviderErrors.OPENID_CLIENT_NOT_FOUND();
  return rows[0];
}

const valuesOf = (client: OpenidClientFields): readonly unknown[] => [
  client.clientId,
  client.name,
  client.kind,
  client.redirectUris,
  client.postLogoutRedirectUris,
  client.scopes,
  client.consent,
  client.refreshTokens,
];

async function lockClient(database: Queryable, clientId: string): Promise<OpenidClientRow> {
  const { rows } = await database.query<OpenidClientRow>({
    text: `select ${columns} from penstock.openid_clients where client_id = $1 for update`,
    values: [clientId],
  });
  if (!rows[0]) throw openidProviderErrors.OPENID_CLIENT_NOT_FOUND();
  return rows[0];
}

async function addSecret(database: Queryable, clientId: string): Promise<string> {
  const secret = randomToken();
  await database.query(sql`
    insert into penstock.openid_client_secrets (id, client_id, hash) values (${newId()}::uuid, ${clientId}, ${sha256(secret)})`);
  return secret;
}

async function metadataOf(
  database: Queryable,
  clientId: string,
): Promise<AdapterPayload | undefined> {
  // Longer ones are nobody's, and what PostgreSQL cannot hold is no id.
  if (clientId.length > 100 || clientId.includes('\u0000')) return undefined;
  const { rows } = await database.query<OpenidClientRow & { hashes: readonly string[] | null }>({
    text: `select ${columns}, (select array_agg(hash order by s.created_at desc) from penstock.openid_client_secrets s
        where s.client_id = c.client_id and (s.expires_at is null or s.expires_at > now())) as hashes
      from penstock.openid_clients c where client_id = $1`,
    values: [clientId],
    class: 'identity',
  });
  const [row] = rows;
  return row && toMetadata(row, row.hashes ?? []);
}

/** A secret that nobody can have, for apps that were given none yet. */
const noSecret = 'none';

const toMetadata = (client: OpenidClientFields, hashes: readonly string[]): AdapterPayload => ({
  client_id: client.clientId,
  client_name: client.name,
  application_type: client.kind === 'native' ? 'native' : 'web',
  token_endpoint_auth_method: client.kind === 'web' ? 'client_secret_basic' : 'none',
  ...(client.kind === 'web' ? { client_secret: hashes.join(' ') || noSecret } : {}),
  redirect_uris: [...client.redirectUris],
  post_logout_redirect_uris: [...client.postLogoutRedirectUris],
  response_types: ['code'],
  grant_types: client.refreshTokens
    ? ['authorization_code', 'refresh_token']
    : ['authorization_code'],
  scope: client.scopes.join(' '),
  'urn:penstock:consent': client.consent,
});

const fieldOf: ReadonlyMap<string, string> = new Map([
  ['redirect_uris', 'redirectUris'],
  ['post_logout_redirect_uris', 'postLogoutRedirectUris'],
  ['client_id', 'clientId'],
  ['client_name', 'name'],
  ['scope', 'scopes'],
]);

/** The app, if the library can work with it. Throws 400 that names the field. */
function check(provider: Provider, client: OpenidClientFields): OpenidClientFields {
  const name = client.name.normalize('NFC').trim();
  if (name === '') throw invalid('name', 'minLength', 'must not be empty');
  if (!client.scopes.includes('openid'))
    throw invalid('scopes', 'required', 'must hold openid: it is what sign-in asks for');
  const checked = { ...client, name };
  try {
    const { Client } = provider as unknown as { Client: new (metadata: object) => unknown };
    new Client(toMetadata(checked, []));
  } catch (error) {
    if (!(error instanceof openidLibrary().errors.OIDCProviderError)) throw error;
    const message = error.error_description ?? error.message;
    const [, given = ''] = /\b([a-z_]+)\b/.exec(message) ?? [];
    const named = [...fieldOf.keys()].find((field) => message.includes(field)) ?? given;
    throw invalid(fieldOf.get(named) ?? 'redirectUris', 'uri', message);
  }
  return checked;
}
