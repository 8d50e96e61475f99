/** Where a provider is reached: by settings, by its preset, or by its discovery document (OpenID Connect Discovery 1.0). */

import { createSigner } from 'fast-jwt';
import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretPost,
  type Configuration,
  type CustomFetch,
  customFetch,
  type DiscoveryRequestOptions,
  discovery,
  None,
} from 'openid-client';
import type { OutboundFetch } from '../../../../kernel/outbound.ts';
import { ProviderAnswerError } from './provider-answers.ts';
import type { Addresses, ProviderPreset, ProviderSettings } from './provider-contract.ts';

/* The client library (openid-client), made to send its requests the way the platform sends requests. */

/** Seconds. The fetch gives up earlier. */
const timeout = 15;

const asCustomFetch =
  (fetch: OutboundFetch): CustomFetch =>
  (url, { method, headers, body, signal }) =>
    fetch(url, {
      method,
      headers,
      ...(body === undefined || body === null ? {} : { body: String(body) }),
      ...(signal === undefined ? {} : { signal }),
    });

/** Options of a discovery. Plain HTTP only where the operator opened their own network; the fetch checks it once more. */
const libraryOptions = (fetch: OutboundFetch, allowInternal: boolean): DiscoveryRequestOptions => ({
  [customFetch]: asCustomFetch(fetch),
  timeout,
  ...(allowInternal ? { execute: [allowInsecureRequests] } : {}),
});

/** The same for a configuration that was made without discovery. */
export function prepared(
  configuration: Configuration,
  fetch: OutboundFetch,
  allowInternal: boolean,
): Configuration {
  configuration[customFetch] = asCustomFetch(fetch);
  configuration.timeout = timeout;
  if (allowInternal) allowInsecureRequests(configuration);
  return configuration;
}

/* How the platform proves at a provider's token address that it is the client it says it is. The secret never goes into an address. */

export function clientProof(
  settings: ProviderSettings,
  preset: ProviderPreset,
  clientId: string,
): ClientAuth {
  const secret =
    settings.apple.privateKey === '' ? settings.clientSecret : appleSecret(settings, clientId);
  if (secret === '') return None();
  return preset.clientAuthentication === 'basic'
    ? basic(clientId, secret)
    : ClientSecretPost(secret);
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
function appleSecret({ apple, issuer }: ProviderSettings, clientId: string): string {
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

export interface Endpoints {
  readonly addresses: Addresses;
  readonly issuer: string;
  /** The provider promises to name itself in every answer (RFC 9207): one without its name is refused. */
  readonly namesItself: boolean;
}

export interface EndpointTools {
  readonly fetch: OutboundFetch;
  /** Whether addresses without TLS may be used. */
  readonly allowInternal: () => boolean;
}

/** Discovery documents are read anew after this; ms. */
const discoveryAgeMs = 60 * 60_000;

/**
 * Given addresses win. Those of a preset belong to the preset's own issuer; for another issuer they are
 * discovered. A discovery that failed is tried again at the next use.
 */
export function createEndpoints(
  settings: ProviderSettings,
  preset: ProviderPreset,
  tools: EndpointTools,
): () => Promise<Endpoints> {
  const given: Addresses = {
    authorization: settings.authorizationUrl,
    token: settings.tokenUrl,
    userInfo: settings.userInfoUrl,
    keys: settings.jwksUrl,
  };
  let found: { readonly at: number; readonly endpoints: Promise<Endpoints> } | undefined;

  const discovered = (): Promise<Endpoints> => {
    if (found && performance.now() - found.at < discoveryAgeMs) return found.endpoints;
    const endpoints = discover(settings, tools).then((one) => ({
      ...one,
      addresses: merge(given, one.addresses),
    }));
    found = { at: performance.now(), endpoints };
    endpoints.catch(() => {
      found = undefined;
    });
    return endpoints;
  };

  if (needsDiscovery(settings, preset)) return discovered;
  const fixed = fixedEndpoints(settings, preset, given);
  return async () => fixed;
}

/** A template issuer (`{tenantid}`) has no document of its own. */
function needsDiscovery(settings: ProviderSettings, preset: ProviderPreset): boolean {
  const { issuer, authorizationUrl, tokenUrl, jwksUrl } = settings;
  if (preset.protocol === 'oauth2' || issuer === '' || issuer.includes('{')) return false;
  return authorizationUrl === '' || tokenUrl === '' || jwksUrl === '';
}

function fixedEndpoints(
  settings: ProviderSettings,
  preset: ProviderPreset,
  given: Addresses,
): Endpoints {
  const addresses = merge(
    given,
    settings.issuer === '' || settings.issuer.includes('{') ? preset.addresses(settings) : given,
  );
  const issuer = settings.issuer || preset.issuer(settings) || originOf(addresses.authorization);
  return { addresses, issuer, namesItself: false };
}

const merge = (first: Addresses, second: Addresses): Addresses => ({
  authorization: first.authorization || second.authorization,
  token: first.token || second.token,
  userInfo: first.userInfo || second.userInfo,
  keys: first.keys || second.keys,
});

const originOf = (address: string): string =>
  URL.canParse(address) ? new URL(address).origin : '';

async function discover(
  { issuer, clientId }: ProviderSettings,
  { fetch, allowInternal }: EndpointTools,
): Promise<Endpoints> {
  const configuration = await discovery(
    new URL(issuer),
    clientId,
    undefined,
    None(),
    libraryOptions(fetch, allowInternal()),
  );
  const server = configuration.serverMetadata();
  const { authorization_endpoint: authorization, token_endpoint: token, jwks_uri: keys } = server;
  if (!authorization || !token || !keys)
    throw new ProviderAnswerError(
      'the discovery document names no authorization, token or key address',
    );
  return {
    addresses: { authorization, token, keys, userInfo: server.userinfo_endpoint ?? '' },
    issuer: server.issuer,
    namesItself: server.authorization_response_iss_parameter_supported === true,
  };
}
