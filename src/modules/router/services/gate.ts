/**
 * Whether a request comes from a registered app. Apps with a secret prove themselves by it; pages cannot keep
 * one, so their client id is public and what counts is where the browser says that they come from. Known apps
 * are cached by hash; a change of an app holds on every node when the call that made it returns.
 */

import { domainToASCII } from 'node:url';
import type { Kernel } from '../../../host/kernel.ts';
import type { Cache } from '../../../kernel/cache.ts';
import type { AppGate, Identity, PresentedApp } from '../../../kernel/identity.ts';
import { sameSecret, sha256 } from '../../../kernel/security/tokens.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { routerErrors } from '../errors.ts';
import { type ClientProof, clientProof, touchClient } from '../queries.ts';

/* Where the pages of a web app may come from: a host name, all names below one, or any. Compared label by label. */

const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The pattern in its one form: lower case, names in ASCII. Throws DOMAIN_INVALID. */
export function canonicalDomain(text: string): string {
  const pattern = text.trim().toLowerCase();
  if (pattern === '*') return pattern;
  const wild = pattern.startsWith('*.');
  const name = wild ? pattern.slice(2) : pattern;
  // The conversion stops at such signs and would answer the part before them.
  const host = /[\s/\\:?#@[\]%*<>|^]/.test(name) ? '' : domainToASCII(name);
  if (host === '' || host.length > 253 || !host.split('.').every((part) => label.test(part))) {
    const message =
      'give a host name such as app.example.com, *.example.com for all below it, or * for any';
    throw routerErrors.DOMAIN_INVALID({ errors: [{ path: 'domain', rule: 'format', message }] });
  }
  return wild ? `*.${host}` : host;
}

/** Whether a host falls under a pattern. `*.example.com` is everything below example.com, not example.com itself. */
export function hostMatches(host: string, pattern: string): boolean {
  if (pattern === '*') return true;
  if (!pattern.startsWith('*.')) return host === pattern;
  const suffix = pattern.slice(1);
  return host.length > suffix.length && host.endsWith(suffix);
}

/** The host name of an `Origin` header (`null` and nonsense have none). */
export function hostOfOrigin(origin: string): string | undefined {
  if (!URL.canParse(origin)) return undefined;
  const { protocol, hostname, origin: parsed } = new URL(origin);
  return (protocol === 'https:' || protocol === 'http:') && parsed === origin.toLowerCase()
    ? hostname
    : undefined;
}

/** The host name of a `Host` header. */
export const hostOfHeader = (host: string): string | undefined =>
  URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined;

export interface ClientGate extends AppGate {
  /** What is known of an app; nothing when there is no such app. */
  find(clientId: string): Promise<ClientProof | undefined>;
  /** Forgets what is known of an app, here and on every other node, before it resolves. */
  forget(clientId: string): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'caches'> {
  readonly identity: Pick<Identity, 'ends'>;
  readonly log: Logger;
}

const clientIdShape = /^[0-9a-f]{30}$/;
/** Milliseconds between two notes that an app is in use. */
const touchEveryMs = 10 * 60_000;
/** Compared with when there is no such app, so that the work is the same. */
const nobody: ClientProof = {
  platform: 'CLI',
  domain: null,
  secretHash: sha256(''),
  previousHash: null,
  previousUntil: null,
};

export function createClientGate(dependencies: Dependencies): ClientGate {
  const { database, caches, identity, log } = dependencies;
  const known: Cache<ClientProof> = caches.create({
    name: 'router.clients',
    maxEntries: 1_000,
    ttlMs: 60_000,
    onInvalidated: (apps) => identity.ends.tell({ apps }),
  });
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
    touchClient(database, clientId).catch((error: unknown) =>
      log.warn({ err: error }, 'The use of an app could not be noted'),
    );
  };

  const find: ClientGate['find'] = (clientId) =>
    known.load(clientId, () => clientProof(database, clientId));

  return {
    admit(app) {
      const { clientId } = app;
      if (clientId === undefined || !clientIdShape.test(clientId))
        throw routerErrors.CLIENT_REFUSED();
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

function secretFits(
  { secretHash, previousHash, previousUntil }: ClientProof,
  presented: string,
): boolean {
  const current = sameSecret(presented, secretHash);
  const previous = sameSecret(presented, previousHash ?? secretHash);
  return current || (previous && previousHash !== null && (previousUntil ?? 0) > Date.now());
}

/** Browsers leave `Origin` out when a page asks its own host; then the host is where the page is from. */
function comesFrom(domain: string, origin: string | undefined, host: string | undefined): boolean {
  const from =
    origin !== undefined
      ? hostOfOrigin(origin)
      : host !== undefined
        ? hostOfHeader(host)
        : undefined;
  return from !== undefined && hostMatches(from, domain);
}
