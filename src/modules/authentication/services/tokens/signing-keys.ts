/**
 * The keys that sign access tokens: Ed25519, made on the first start, kept sealed in the database,
 * known to every node. One key signs; older ones verify until the last token they signed has ended.
 */
import { createHash, createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import type { Kernel } from '../../../../host/kernel.ts';
import {
  insertSigningKey,
  keysInUse,
  type PublicJwk,
  retireSigningKey,
  type StoredSigningKey,
} from '../../queries.ts';

export interface SigningKey {
  readonly kid: string;
  readonly privatePem: string;
}

export interface SigningKeys {
  /** The key that signs now. */
  signing(): SigningKey;
  /** The public key of that id in PEM, while it may still verify. */
  publicPem(kid: string): string | undefined;
  jwks(): readonly PublicJwk[];
  /** Reads the keys anew, at most once in five seconds: for tokens whose key another node may just have made. */
  refresh(): Promise<void>;
  /** Replaces the signing key when it is older than `maxAgeMs`; what it signed verifies for `tokenLifetimeMs` more. */
  rotate(maxAgeMs: number, tokenLifetimeMs: number): Promise<boolean>;
  /** Runs on this node whenever the set of keys has changed. */
  onChange(listener: () => void): void;
}

const algorithm = 'EdDSA';
const topic = 'authentication:signing-keys';
const lockName = 'authentication:signing-keys';
const minRefreshGapMs = 5000;

type Dependencies = Pick<Kernel, 'database' | 'secrets' | 'bus'>;

/** Loads the keys, and makes the first one when there is none (under a lock, so that two nodes agree). */
export async function openSigningKeys(dependencies: Dependencies): Promise<SigningKeys> {
  const { database, secrets, bus } = dependencies;
  const listeners: (() => void)[] = [];
  let loadedAt = 0;
  let current: SigningKey | undefined;
  let known: ReadonlyMap<string, { readonly jwk: PublicJwk; readonly pem: string }> = new Map();

  const load = async (): Promise<void> => {
    loadedAt = Date.now();
    const stored = await keysInUse(database);
    known = new Map(
      stored.map((key) => [key.kid, { jwk: key.publicJwk, pem: publicPem(key.publicJwk) }]),
    );
    const active = stored.find((key) => key.verifiesUntil === null);
    current = active && {
      kid: active.kid,
      privatePem: secrets.open(active.privateKeySealed, contextOf(active.kid)),
    };
    for (const listener of listeners) listener();
  };

  await load();
  if (!current) {
    await database.withLock(lockName, async () => {
      if ((await keysInUse(database)).every((key) => key.verifiesUntil !== null))
        await insertSigningKey(database, newKey(secrets));
    });
    await load();
  }
  bus.subscribe(topic, load);
  bus.freshness.watch('signing-keys', load);

  return {
    signing() {
      if (!current)
        throw new Error(
          'there is no signing key: the table penstock.signing_keys was emptied while the platform ran',
        );
      return current;
    },
    publicPem: (kid) => known.get(kid)?.pem,
    jwks: () => [...known.values()].map(({ jwk }) => jwk),
    async refresh() {
      if (Date.now() - loadedAt >= minRefreshGapMs) await load();
    },
    async rotate(maxAgeMs, tokenLifetimeMs) {
      const rotated = await replaceKey(dependencies, maxAgeMs, tokenLifetimeMs);
      if (rotated) {
        await load();
        await bus.announce(topic, {});
      }
      return rotated;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}

/** False when the key in use is not old enough. */
const replaceKey = (
  { database, secrets }: Dependencies,
  maxAgeMs: number,
  tokenLifetimeMs: number,
): Promise<boolean> =>
  database.withLock(lockName, () =>
    database.transaction(async (transaction) => {
      if (!(await retireSigningKey(transaction, maxAgeMs, tokenLifetimeMs))) return false;
      await insertSigningKey(transaction, newKey(secrets));
      return true;
    }),
  );

const contextOf = (kid: string): string => `authentication:signing-key:${kid}`;

function newKey(secrets: Kernel['secrets']): StoredSigningKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { x } = publicKey.export({ format: 'jwk' });
  if (x === undefined)
    throw new Error('the runtime exported an Ed25519 key without its x coordinate');
  const kid = thumbprint(x);
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  return {
    kid,
    algorithm,
    publicJwk: { kty: 'OKP', crv: 'Ed25519', x, kid, alg: algorithm, use: 'sig' },
    privateKeySealed: secrets.seal(pem, contextOf(kid)),
    verifiesUntil: null,
  };
}

/** The id of a key is its thumbprint (RFC 7638): it cannot be chosen, so it cannot be made to collide. */
const thumbprint = (x: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }))
    .digest('base64url');

const publicPem = (jwk: PublicJwk): string =>
  createPublicKey({
    key: { kty: jwk.kty, crv: jwk.crv, x: jwk.x } satisfies JsonWebKey,
    format: 'jwk',
  })
    .export({ format: 'pem', type: 'spki' })
    .toString();
