/**
 * The keys that sign access tokens and ID tokens: made on the first start, kept sealed in the database,
 * known to every node. One key signs; older ones verify until the last token they signed has ended. A key
 * belongs to one algorithm and one issuer, so that a change of either is a new key and no logout.
 */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair as generateKeyPairWithCallback,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
import { promisify } from 'node:util';
import { calculateJwkThumbprint, type JWK } from 'jose';
import type { Kernel } from '../../../../host/kernel.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { AuthenticationConfig } from '../../config.ts';
import {
  insertSigningKey,
  keysInUse,
  type NewSigningKey,
  type PublicJwk,
  retireSigningKey,
  type SigningAlgorithm,
  type StoredSigningKey,
} from '../../queries.ts';

/** What new keys are for. */
export interface SigningTerms {
  readonly algorithm: SigningAlgorithm;
  /** What tokens say under `iss`. */
  readonly issuer: string;
}

export interface SigningKey extends SigningTerms {
  readonly kid: string;
  readonly privatePem: string;
}

export interface VerifyingKey extends SigningTerms {
  /** The public key in PEM. */
  readonly pem: string;
}

export interface SigningKeys {
  /** The key that signs now. */
  signing(): SigningKey;
  /** The key of that id, while it may still verify. */
  verifying(kid: string): VerifyingKey | undefined;
  /** Public keys, the newest first. Some of them may sign only later. */
  jwks(): readonly PublicJwk[];
  /** The same with their private halves, the one that signs now first. Never leaves the process. */
  privateJwks(): readonly JsonWebKey[];
  /** Reads the keys anew, at most once in five seconds: for tokens whose key another node may just have made. */
  refresh(): Promise<void>;
  /** Makes the first key, or replaces one of other terms at once; what it signed verifies for `tokenLifetimeMs` more. */
  follow(terms: SigningTerms, tokenLifetimeMs: number): Promise<boolean>;
  /**
   * Replaces the signing key when it is older than `maxAgeMs`. The new one is published for ten minutes before it
   * signs, so that those who keep our key set for a while know it by then.
   */
  rotate(maxAgeMs: number, tokenLifetimeMs: number): Promise<boolean>;
  /** Runs on this node whenever the set of keys has changed. */
  onChange(listener: () => void): void;
}

const topic = 'authentication:signing-keys';
const lockName = 'authentication:signing-keys';
const minRefreshGapMs = 5000;
/** Twice as long as answers of the key set may be kept. */
const publicationLeadMs = 10 * 60_000;

type Dependencies = Pick<Kernel, 'database' | 'secrets' | 'bus'> & Partial<Pick<Kernel, 'health'>>;

interface KnownKey extends VerifyingKey {
  readonly stored: StoredSigningKey;
}

/** Loads the keys. There may be none before the first `follow`. */
export async function openSigningKeys(dependencies: Dependencies): Promise<SigningKeys> {
  const { database, secrets, bus } = dependencies;
  const listeners: (() => void)[] = [];
  let loadedAt = 0;
  let opened: SigningKey | undefined;
  let known: ReadonlyMap<string, KnownKey> = new Map();
  let latest: SigningTerms | undefined;

  const load = async (): Promise<void> => {
    loadedAt = performance.now();
    const stored = await keysInUse(database);
    known = knownKeys(stored);
    dependencies.health?.leaveOut(
      'signing keys',
      stored
        .filter(({ kid }) => !known.has(kid))
        .map(({ kid }) => ({ name: kid, reason: 'it is no public key' })),
    );
    opened = undefined;
    for (const listener of listeners) listener();
  };
  const announceIf = async (changed: boolean): Promise<boolean> => {
    if (!changed) return false;
    await load();
    await bus.announce(topic, {});
    return true;
  };

  await load();
  bus.subscribe(topic, load);
  bus.freshness.watch('signing-keys', load);

  return {
    signing() {
      const stored = signingAt(known, Date.now());
      if (opened?.kid !== stored.kid) opened = openedKey(secrets, stored);
      return opened;
    },
    verifying: (kid) => known.get(kid),
    jwks: () => [...known.values()].map(({ stored }) => stored.publicJwk),
    privateJwks: () => {
      const first = signingAt(known, Date.now());
      return [first, ...othersThatSign(secrets, known, first)].map((key) =>
        privateJwk(secrets, key),
      );
    },
    async refresh() {
      if (performance.now() - loadedAt >= minRefreshGapMs) await load();
    },
    async follow(terms, tokenLifetimeMs) {
      latest = terms;
      return announceIf(await followTerms(dependencies, terms, tokenLifetimeMs));
    },
    async rotate(maxAgeMs, tokenLifetimeMs) {
      const terms = latest ?? signingAt(known, Date.now());
      return announceIf(await rotateKey(dependencies, terms, { maxAgeMs, tokenLifetimeMs }));
    },
    onChange: (listener) => void listeners.push(listener),
  };
}

/** Changes of the keys happen one after another, on whichever node. */
const locked = (
  { database }: Dependencies,
  change: (transaction: Transaction) => Promise<boolean>,
): Promise<boolean> => database.withLock(lockName, () => database.transaction(change));

const followTerms = (
  dependencies: Dependencies,
  terms: SigningTerms,
  tokenLifetimeMs: number,
): Promise<boolean> =>
  locked(dependencies, async (transaction) => {
    const active = (await keysInUse(transaction)).find((key) => key.verifiesUntil === null);
    const isAsAsked = active?.algorithm === terms.algorithm && active.issuer === terms.issuer;
    // One that cannot sign gives way to a new one: nobody could sign in.
    if (active && isAsAsked && canSign(dependencies.secrets, active)) return false;
    await retireSigningKey(transaction, 0, tokenLifetimeMs);
    await insertSigningKey(transaction, await newKey(dependencies.secrets, terms), 0);
    return true;
  });

const rotateKey = (
  dependencies: Dependencies,
  { algorithm, issuer }: SigningTerms,
  { maxAgeMs, tokenLifetimeMs }: { readonly maxAgeMs: number; readonly tokenLifetimeMs: number },
): Promise<boolean> =>
  locked(dependencies, async (transaction) => {
    const verifiesFor = publicationLeadMs + tokenLifetimeMs;
    if (!(await retireSigningKey(transaction, maxAgeMs, verifiesFor))) return false;
    const key = await newKey(dependencies.secrets, { algorithm, issuer });
    await insertSigningKey(transaction, key, publicationLeadMs);
    return true;
  });

const openedKey = (secrets: Kernel['secrets'], stored: StoredSigningKey): SigningKey => ({
  kid: stored.kid,
  algorithm: stored.algorithm,
  issuer: stored.issuer,
  privatePem: secrets.open(stored.privateKeySealed, contextOf(stored.kid)),
});

const privateJwk = (secrets: Kernel['secrets'], stored: StoredSigningKey): JsonWebKey => ({
  ...createPrivateKey(openedKey(secrets, stored).privatePem).export({ format: 'jwk' }),
  kid: stored.kid,
  alg: stored.algorithm,
  use: 'sig',
});

/** The newest key whose time has come. */
function signingAt(known: ReadonlyMap<string, KnownKey>, now: number): StoredSigningKey {
  const all = [...known.values()].map(({ stored }) => stored);
  const key = all.find(({ signsFrom }) => signsFrom <= now) ?? all[0];
  if (!key)
    throw new Error(
      'there is no signing key: the table penstock.signing_keys was emptied while the platform ran',
    );
  return key;
}

/** `iss` of tokens of an installation that has no issuer address. */
const ownIssuer = 'penstock';

export const termsOf = ({ accessTokens }: AuthenticationConfig): SigningTerms => ({
  algorithm: accessTokens.algorithm,
  issuer: accessTokens.issuer || ownIssuer,
});

/** How long what a key has signed last may be used. */
export const signedLifetimeMs = ({
  accessTokens,
  impersonation,
  openidProvider,
}: AuthenticationConfig): number =>
  Math.max(
    accessTokens.expiryPeriod,
    impersonation.lifetime,
    openidProvider.enabled ? openidProvider.accessTokenLifetime : 0,
  );

const contextOf = (kid: string): string => `authentication:signing-key:${kid}`;

const knownKeys = (all: readonly StoredSigningKey[]): ReadonlyMap<string, KnownKey> =>
  new Map(
    all.flatMap((key) => {
      const one = knownKey(key);
      return one ? [[key.kid, one] as const] : [];
    }),
  );

const othersThatSign = (
  secrets: Kernel['secrets'],
  known: ReadonlyMap<string, KnownKey>,
  first: StoredSigningKey,
): readonly StoredSigningKey[] =>
  [...known.values()]
    .map(({ stored }) => stored)
    .filter((stored) => stored !== first && canSign(secrets, stored));

/** Nothing for one whose public part is none: what it has signed is believed no more, and all else goes on. */
function knownKey(stored: StoredSigningKey): KnownKey | undefined {
  const { algorithm, issuer, publicJwk } = stored;
  try {
    return { stored, algorithm, issuer, pem: publicPem(publicJwk) };
  } catch {
    return undefined;
  }
}

/** Whether its private part can be opened and belongs to the public one. */
function canSign(secrets: Kernel['secrets'], stored: StoredSigningKey): boolean {
  try {
    const { privatePem } = openedKey(secrets, stored);
    const own = createPublicKey(privatePem).export({ format: 'pem', type: 'spki' }).toString();
    return own === knownKey(stored)?.pem;
  } catch {
    return false;
  }
}

const generateKeyPair = promisify(generateKeyPairWithCallback);

/** RSA takes a moment and so happens beside the event loop. */
const makePair = {
  EdDSA: () => generateKeyPair('ed25519'),
  ES256: () => generateKeyPair('ec', { namedCurve: 'P-256' }),
  RS256: () => generateKeyPair('rsa', { modulusLength: 2048 }),
} as const satisfies Record<SigningAlgorithm, () => Promise<{ publicKey: KeyObject }>>;

/** The id of a key is its thumbprint (RFC 7638): it cannot be chosen, so it cannot be made to collide. */
async function newKey(
  secrets: Kernel['secrets'],
  { algorithm, issuer }: SigningTerms,
): Promise<NewSigningKey> {
  const { publicKey, privateKey } = await makePair[algorithm]();
  const bare = publicKey.export({ format: 'jwk' });
  const kid = await calculateJwkThumbprint(bare as JWK);
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  return {
    kid,
    algorithm,
    issuer,
    publicJwk: { ...bare, kid, alg: algorithm, use: 'sig' } as PublicJwk,
    privateKeySealed: secrets.seal(pem, contextOf(kid)),
  };
}

const publicPem = (jwk: PublicJwk): string =>
  createPublicKey({ key: jwk as unknown as JsonWebKey, format: 'jwk' })
    .export({ format: 'pem', type: 'spki' })
    .toString();
