/** The public keys of providers (RFC 7517), fetched when they are needed and kept for a while. */
import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import type { OutboundFetch } from '../../../../kernel/outbound/fetch.ts';
import { readJson } from './json-answer.ts';
import { type Claims, isClaims, textOf } from './profile.ts';

export interface VerificationKey {
  readonly kid: string | undefined;
  /** The algorithm that the key is for, when it says so. */
  readonly alg: string | undefined;
  readonly key: KeyObject;
}

export interface KeySets {
  /** The keys at that address. `fresh` asks again unless that was done a moment ago. Throws what the fetch throws. */
  keys(address: string, fresh?: boolean): Promise<readonly VerificationKey[]>;
}

interface Entry {
  readonly keys: Promise<readonly VerificationKey[]>;
  readonly fetchedAt: number;
}

/** How long keys are believed without asking again; ms. A token with a new key id asks earlier. */
const maxAgeMs = 10 * 60_000;
/** Least time between two fetches, whatever key ids strangers invent; ms. */
const minAgeMs = 60_000;
const maxKeys = 50;
const minRsaBits = 2048;

export function createKeySets(fetch: OutboundFetch): KeySets {
  const entries = new Map<string, Entry>();

  const load = (address: string): Promise<readonly VerificationKey[]> => {
    const keys = readJson(fetch, address).then(keysOf);
    entries.set(address, { keys, fetchedAt: Date.now() });
    keys.catch(() => entries.delete(address));
    return keys;
  };

  return {
    keys(address, fresh = false) {
      const entry = entries.get(address);
      const ageMs = entry ? Date.now() - entry.fetchedAt : Number.POSITIVE_INFINITY;
      return entry && ageMs < (fresh ? minAgeMs : maxAgeMs) ? entry.keys : load(address);
    },
  };
}

function keysOf(document: Claims): readonly VerificationKey[] {
  const list = Array.isArray(document.keys) ? document.keys.slice(0, maxKeys) : [];
  return list.filter(isClaims).flatMap((jwk) => keyOf(jwk) ?? []);
}

/** A key for checking signatures; nothing for secrets, for keys with another use, and for keys that are too small. */
function keyOf(jwk: Claims): VerificationKey | undefined {
  const kty = textOf(jwk, 'kty');
  const use = textOf(jwk, 'use');
  if ((kty !== 'RSA' && kty !== 'EC' && kty !== 'OKP') || (use !== undefined && use !== 'sig')) return undefined;
  try {
    const { crv, x, y, n, e } = jwk as JsonWebKey;
    const key = createPublicKey({ key: { kty, ...withoutMissing({ crv, x, y, n, e }) }, format: 'jwk' });
    if (kty === 'RSA' && (key.asymmetricKeyDetails?.modulusLength ?? 0) < minRsaBits) return undefined;
    return { kid: textOf(jwk, 'kid'), alg: textOf(jwk, 'alg'), key };
  } catch {
    return undefined;
  }
}

const withoutMissing = (parts: JsonWebKey): JsonWebKey =>
  Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined));
