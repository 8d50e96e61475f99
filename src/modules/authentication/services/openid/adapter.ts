/**
 * Where the protocol keeps its things: one table, sealed, by hashes of what clients hold. What is to work once works
 * once, whatever runs at the same time, which the library's own check cannot promise; a second use ends everything
 * that was given for the first one (RFC 6749 4.1.2, RFC 9700 4.14).
 */
import type { Adapter, AdapterPayload } from 'oidc-provider';
import type { Kernel } from '../../../../host/kernel.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { OpenidClients } from './clients.ts';
import { openidLibrary } from './library.ts';
import {
  bindSession,
  boundSession,
  consumeItem,
  findItem,
  type Item,
  keepSession,
  putItem,
  removeGrant,
  removeGrantOf,
  removeItem,
} from './queries.ts';

export interface AdapterParts extends Pick<Kernel, 'database' | 'secrets'> {
  readonly clients: Pick<OpenidClients, 'metadata'>;
  readonly sessions: Pick<Sessions, 'leave'>;
  /** How long a session may rest between two renewals; ms. */
  readonly idleMs: () => number;
}

const keyOf = (kind: string, id: string): string => sha256(`${kind}:${id}`);
const uidOf = (uid: string): string => sha256(`uid:${uid}`);
const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Kinds whose items belong to a user and an app. */
const ofClient: ReadonlySet<string> = new Set([
  'AuthorizationCode',
  'AccessToken',
  'RefreshToken',
  'Grant',
]);

/** Everything has an end. */
const longestSeconds = 90 * 24 * 3600;

const unused = async (): Promise<undefined> => undefined;

export function createAdapter(parts: AdapterParts): (kind: string) => Adapter {
  return (kind) => (kind === 'Client' ? clientAdapter(parts) : itemAdapter(parts, kind));
}

/** Apps are changed by operators alone. */
const clientAdapter = ({ clients }: AdapterParts): Adapter => ({
  find: (id) => clients.metadata(id),
  upsert: unused,
  findByUserCode: unused,
  findByUid: unused,
  consume: unused,
  destroy: unused,
  revokeByGrantId: unused,
});

function itemAdapter(parts: AdapterParts, kind: string): Adapter {
  const { database, secrets } = parts;
  const contextOf = (key: string): string => `authentication:openid:${key}`;
  const opened = (item: Item | undefined): AdapterPayload | undefined =>
    item && {
      ...(JSON.parse(secrets.open(item.payload, contextOf(item.key))) as AdapterPayload),
      ...(item.consumed ? { consumed: true } : {}),
    };

  return {
    async upsert(id, payload, lifetimeSeconds = longestSeconds) {
      const key = keyOf(kind, id);
      if (kind === 'Session') await bind(parts, payload);
      await putItem(database, {
        key,
        kind,
        payload: secrets.seal(JSON.stringify(payload), contextOf(key)),
        uid: payload.uid === undefined ? null : uidOf(payload.uid),
        grantKey: payload.grantId === undefined ? null : keyOf('Grant', payload.grantId),
        userId: text(payload.accountId),
        clientId: ofClient.has(kind) ? text(payload.clientId) : null,
        lifetimeSeconds,
      });
    },
    find: async (id) => opened(await findItem(database, kind, 'key', keyOf(kind, id))),
    findByUid: async (uid) => opened(await findItem(database, kind, 'uid', uidOf(uid))),
    findByUserCode: unused,
    async consume(id) {
      const key = keyOf(kind, id);
      if (await consumeItem(database, key)) {
        if (kind === 'RefreshToken') await keepGoing(parts);
        return;
      }
      await removeGrantOf(database, key);
      throw new (openidLibrary().errors.InvalidGrant)('it was used already');
    },
    async destroy(id) {
      if (kind === 'Session') await endBoundSession(parts);
      const key = keyOf(kind, id);
      await (kind === 'Grant' ? removeGrant(database, key) : removeItem(database, key));
    },
    revokeByGrantId: async (grantId) => void (await removeGrant(database, keyOf('Grant', grantId))),
  };
}

/** The session of the platform that somebody has just signed in with; see `interactions.ts`. */
async function bind({ database }: AdapterParts, { uid }: AdapterPayload): Promise<void> {
  const login = openidLibrary().Provider.ctx?.oidc.result?.login as
    | { platformSession?: string }
    | undefined;
  if (login?.platformSession !== undefined && uid !== undefined)
    await bindSession(database, uidOf(uid), login.platformSession);
}

async function keepGoing({ database, idleMs }: AdapterParts): Promise<void> {
  const uid = openidLibrary().Provider.ctx?.oidc.entities.RefreshToken?.sessionUid;
  if (uid !== undefined) await keepSession(database, uidOf(uid), idleMs());
}

/** A user who signs out of everything also ends the session of the platform that they signed in with. */
async function endBoundSession({ database, sessions }: AdapterParts): Promise<void> {
  const oidc = openidLibrary().Provider.ctx?.oidc;
  if (oidc?.route !== 'end_session_confirm' || !oidc.params?.logout) return;
  const uid = oidc.session?.uid;
  const bound = uid === undefined ? undefined : await boundSession(database, uidOf(uid));
  if (bound) await sessions.leave(bound);
}
