/**
 * Whether a request comes from a registered app. Apps with a secret prove themselves by it; pages cannot keep
 * one, so their client id is public and what counts is where the browser says that they come from. Known apps
 * are cached by hash; a change of an app holds on every node when the call that made it returns.
 */
import type { AppGate, PresentedApp } from '../../../kernel/apps.ts';
import type { Cache } from '../../../kernel/cache/cache.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import { sameSecret, sha256 } from '../../../kernel/security/tokens.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { routerErrors } from '../errors.ts';
import { type ClientProof, clientProof, touchClient } from '../queries.ts';
import { hostMatches, hostOfHeader, hostOfOrigin } from './domain.ts';

export interface ClientGate extends AppGate {
  /** What is known of an app; nothing when there is no such app. */
  find(clientId: string): Promise<ClientProof | undefined>;
  /** Forgets what is known of an app, here and on every other node, before it resolves. */
  forget(clientId: string): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'caches'> {
  readonly log: Logger;
}

const clientIdShape = /^[0-9a-f]{30}$/;
/** Milliseconds between two notes that an app is in use. */
const touchEveryMs = 10 * 60_000;
/** Compared with when there is no such app, so that the work is the same. */
const nobody: ClientProof = { platform: 'CLI', domain: null, secretHash: sha256(''), previousHash: null, previousUntil: null };

export function createClientGate({ database, caches, log }: Dependencies): ClientGate {
  const known: Cache<ClientProof> = caches.create({ name: 'router.clients', maxEntries: 1_000, ttlMs: 60_000 });
  const touched = new Map<string, number>();

  const admit = (clientId: string, proof: ClientProof | undefined, app: PresentedApp): string => {
    if (!proves(proof ?? nobody, app) || !proof) throw routerErrors.CLIENT_REFUSED();
    touch(clientId);
    return clientId;
  };

  /** Notes the use from time to time, beside the request. */
  const touch = (clientId: string): void => {
    const now = Date.now();
    if (now - (touched.get(clientId) ?? 0) < touchEveryMs) return;
    touched.set(clientId, now);
    touchClient(database, clientId).catch((error: unknown) => log.warn({ err: error }, 'The use of an app could not be noted'));
  };

  const find: ClientGate['find'] = (clientId) => known.load(clientId, () => clientProof(database, clientId));

  return {
    admit(app) {
      const { clientId } = app;
      if (clientId === undefined || !clientIdShape.test(clientId)) throw routerErrors.CLIENT_REFUSED();
      const proof = known.get(clientId);
      if (proof) return admit(clientId, proof, app);
      return find(clientId).then((loaded) => admit(clientId, loaded, app));
    },
    find,
    async forget(clientId) {
      touched.delete(clientId);
      await known.invalidate([clientId]);
    },
  };
}

/** A right secret always does. Pages may come without one, from the right place; a wrong one is refused wherever it comes from. */
function proves(proof: ClientProof, { clientSecret, origin, host }: PresentedApp): boolean {
  if (clientSecret !== undefined) return secretFits(proof, sha256(clientSecret));
  return proof.platform === 'WEB' && proof.domain !== null && comesFrom(proof.domain, origin, host);
}

function secretFits({ secretHash, previousHash, previousUntil }: ClientProof, presented: string): boolean {
  const current = sameSecret(presented, secretHash);
  const previous = sameSecret(presented, previousHash ?? secretHash);
  return current || (previous && previousHash !== null && (previousUntil ?? 0) > Date.now());
}

/** Browsers leave `Origin` out when a page asks its own host; then the host is where the page is from. */
function comesFrom(domain: string, origin: string | undefined, host: string | undefined): boolean {
  const from = origin !== undefined ? hostOfOrigin(origin) : host !== undefined ? hostOfHeader(host) : undefined;
  return from !== undefined && hostMatches(from, domain);
}
