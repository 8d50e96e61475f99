/** Apps as operators keep them. The secret is answered once and stored as a hash. */
import { randomBytes } from 'node:crypto';
import type { Kernel } from '../../../host/kernel.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { type GaugeReading, remembered } from '../../../kernel/telemetry/metrics.ts';
import { routerErrors } from '../errors.ts';
import {
  type ClientRow,
  countClients,
  deleteClient,
  insertClient,
  listClients,
  lockClient,
  type Platform,
  platforms,
  replaceSecret,
  updateClient,
} from '../queries.ts';
import { type ClientGate, canonicalDomain } from './gate.ts';

/* How many apps there are, by platform; 0 from the start. */

const RENEW_MS = 30_000;

export function measureClients({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>): void {
  const readingOf = (counts: ReadonlyMap<Platform, number>): GaugeReading =>
    platforms.map((platform) => ({
      labels: { module_name: 'router', platform },
      value: counts.get(platform) ?? 0,
    }));
  const read = remembered(RENEW_MS, readingOf(new Map()), async () =>
    readingOf(await countClients(database)),
  );
  metrics.gauge('security_clients_total', 'Registered apps, as of the last half minute', read, [
    'module_name',
    'platform',
  ]);
}

export interface NewClient {
  readonly platform: Platform;
  /** Of pages: required, and of nothing else. */
  readonly domain?: string | undefined;
  readonly alias?: string | undefined;
  readonly notes?: string | undefined;
}

/** What is left out stays. */
export type ClientChange = Omit<NewClient, 'platform'>;

export type ClientWithSecret = ClientRow & { readonly clientSecret: string };

export interface Clients {
  list(page: { readonly skip: number; readonly limit: number }): ReturnType<typeof listClients>;
  /** Throws 400 for the domain, 409 for the alias. */
  create(caller: Caller, client: NewClient): Promise<ClientWithSecret>;
  /** Throws 404 too. */
  update(caller: Caller, id: string, change: ClientChange): Promise<ClientRow>;
  /** A new secret beside the one until now, which stays good for `keepMs`. */
  rotateSecret(caller: Caller, id: string, keepMs: number): Promise<ClientWithSecret>;
  /** Its requests are refused on every node when this returns. */
  remove(caller: Caller, id: string): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly gate: Pick<ClientGate, 'forget'>;
}

export type NamedClient = NewClient & { readonly alias: string };

/** An app as it would be stored. Throws 400. */
export const checkedClient = ({ platform, domain, alias, notes }: NamedClient): NamedClient => ({
  platform,
  domain: domainOf(platform, domain) ?? undefined,
  alias: aliasOf(alias),
  notes,
});

const newSecret = (): string => randomBytes(64).toString('hex');

export function createClients(dependencies: Dependencies): Clients {
  const { database, events, gate } = dependencies;
  /** A change of one app: its event in the same transaction, and every node forgets what it knew. */
  const changing = (
    caller: Caller,
    what: string,
    id: string,
    work: (client: ClientRow) => Promise<ClientRow>,
  ): Promise<ClientRow> =>
    database.transaction(async (transaction) => {
      const client = await lockClient(transaction, id);
      if (!client) throw routerErrors.CLIENT_NOT_FOUND();
      const changed = await work(client);
      await events.emit(transaction, caller, {
        topic: `router:${what}:client`,
        ids: [id],
        // By which sockets and streams know that it is about their app.
        payload: { clientId: client.clientId },
      });
      transaction.afterCommit(() => gate.forget(client.clientId), { alsoInDoubt: true });
      return changed;
    });
  const present = (client: ClientRow | undefined): ClientRow => {
    if (!client) throw routerErrors.CLIENT_NOT_FOUND();
    return client;
  };

  return {
    list: (page) => listClients(database, page),
    create: (caller, client) => create(dependencies, caller, client),
    update: (caller, id, { domain, alias, notes }) =>
      changing(caller, 'update', id, async (client) =>
        present(
          await updateClient(database, id, {
            domain: domain === undefined ? client.domain : domainOf(client.platform, domain),
            alias: alias === undefined ? client.alias : aliasOf(alias),
            notes: notes === undefined ? client.notes : notes,
          }),
        ),
      ).catch((error: unknown) => {
        throw codeOf(error) === '23505' ? aliasTaken() : error;
      }),
    async rotateSecret(caller, id, keepMs) {
      const clientSecret = newSecret();
      const row = await changing(caller, 'rotate', id, async () =>
        present(await replaceSecret(database, id, sha256(clientSecret), keepMs)),
      );
      return { ...row, clientSecret };
    },
    async remove(caller, id) {
      await changing(caller, 'delete', id, async (client) => {
        await deleteClient(database, id);
        return client;
      });
    },
  };
}

function create(
  { database, events }: Dependencies,
  caller: Caller,
  { platform, domain, alias, notes }: NewClient,
): Promise<ClientWithSecret> {
  return database.transaction(async (transaction) => {
    const clientId = randomBytes(15).toString('hex');
    const clientSecret = newSecret();
    const place = domainOf(platform, domain);
    const row = await insertClient(transaction, {
      id: newId(),
      clientId,
      secretHash: sha256(clientSecret),
      platform,
      domain: place,
      alias: alias === undefined ? defaultAlias(platform, place, clientId) : aliasOf(alias),
      notes: notes ?? null,
    });
    if (!row) throw aliasTaken();
    await events.emit(transaction, caller, { topic: 'router:create:client', ids: [row._id] });
    return { ...row, clientSecret };
  });
}

function domainOf(platform: Platform, domain: string | undefined): string | null {
  if (platform !== 'WEB') {
    if (domain !== undefined && domain !== '')
      throw invalid('domain', 'platform', 'only a client of the platform WEB has a domain');
    return null;
  }
  if (domain === undefined || domain === '')
    throw invalid(
      'domain',
      'required',
      'say where the pages come from, for example app.example.com',
    );
  return canonicalDomain(domain);
}

function aliasOf(alias: string): string {
  const name = alias.normalize('NFC').trim();
  if (name === '') throw invalid('alias', 'minLength', 'must not be empty');
  return name;
}

const defaultAlias = (platform: Platform, domain: string | null, clientId: string): string =>
  [platform.toLowerCase(), ...(domain === null ? [] : [domain]), clientId].join(':');

const aliasTaken = (): PenstockError =>
  routerErrors.CLIENT_EXISTS({
    errors: [{ path: 'alias', rule: 'unique', message: 'another client has this alias' }],
  });
