/** How the platform proves at a provider's token address that it is the client it says it is. The secret never goes into an address. */
import { createSigner } from 'fast-jwt';
import { type ClientAuth, ClientSecretPost, None } from 'openid-client';
import type { ProviderPreset } from './preset.ts';
import type { ProviderSettings } from './settings.ts';

export function clientProof(settings: ProviderSettings, preset: ProviderPreset, clientId: string): ClientAuth {
  const secret = settings.apple.privateKey === '' ? settings.clientSecret : appleSecret(settings, clientId);
  if (secret === '') return None();
  return preset.clientAuthentication === 'basic' ? basic(clientId, secret) : ClientSecretPost(secret);
}

/**
 * HTTP Basic (RFC 6749 2.3.1). The client library also escapes `-` and `_`, which is allowed but not understood
 * by Reddit, X and Figma; what is left unescaped here means the same to everybody.
 */
const basic =
  (clientId: string, secret: string): ClientAuth =>
  (_server, _client, _body, headers) => {
    const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(secret)}`;
    headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`);
  };

const appleIssuer = 'https://appleid.apple.com';
/** How long one of Apple's client secrets is good for: it is made for a single request; ms. */
const appleSecretLifetimeMs = 5 * 60_000;

/** Apple's client secret is a token that the developer's key signs. Throws when the configured key is none. */
export function appleSecret({ apple, issuer }: ProviderSettings, clientId: string): string {
  const sign = createSigner({
    key: apple.privateKey,
    algorithm: 'ES256',
    kid: apple.keyId,
    iss: apple.teamId,
    sub: clientId,
    aud: issuer === '' ? appleIssuer : issuer,
    expiresIn: appleSecretLifetimeMs,
  }) as (payload: object) => string;
  return sign({});
}
