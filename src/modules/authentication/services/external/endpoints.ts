/** Where a provider is reached: by settings, by its preset, or by its discovery document (OpenID Connect Discovery 1.0). */
import { discovery, None } from 'openid-client';
import type { OutboundFetch } from '../../../../kernel/outbound/fetch.ts';
import { ProviderAnswerError } from './json-answer.ts';
import { libraryOptions } from './library.ts';
import type { Addresses, ProviderPreset } from './preset.ts';
import type { ProviderSettings } from './settings.ts';

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
export function createEndpoints(settings: ProviderSettings, preset: ProviderPreset, tools: EndpointTools): () => Promise<Endpoints> {
  const given: Addresses = {
    authorization: settings.authorizationUrl,
    token: settings.tokenUrl,
    userInfo: settings.userInfoUrl,
    keys: settings.jwksUrl,
  };
  let found: { readonly at: number; readonly endpoints: Promise<Endpoints> } | undefined;

  const discovered = (): Promise<Endpoints> => {
    if (found && Date.now() - found.at < discoveryAgeMs) return found.endpoints;
    const endpoints = discover(settings, tools).then((one) => ({ ...one, addresses: merge(given, one.addresses) }));
    found = { at: Date.now(), endpoints };
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

function fixedEndpoints(settings: ProviderSettings, preset: ProviderPreset, given: Addresses): Endpoints {
  const addresses = merge(given, settings.issuer === '' || settings.issuer.includes('{') ? preset.addresses(settings) : given);
  const issuer = settings.issuer || preset.issuer(settings) || originOf(addresses.authorization);
  return { addresses, issuer, namesItself: false };
}

const merge = (first: Addresses, second: Addresses): Addresses => ({
  authorization: first.authorization || second.authorization,
  token: first.token || second.token,
  userInfo: first.userInfo || second.userInfo,
  keys: first.keys || second.keys,
});

const originOf = (address: string): string => (URL.canParse(address) ? new URL(address).origin : '');

async function discover({ issuer, clientId }: ProviderSettings, { fetch, allowInternal }: EndpointTools): Promise<Endpoints> {
  const configuration = await discovery(new URL(issuer), clientId, undefined, None(), libraryOptions(fetch, allowInternal()));
  const server = configuration.serverMetadata();
  const { authorization_endpoint: authorization, token_endpoint: token, jwks_uri: keys } = server;
  if (!authorization || !token || !keys)
    throw new ProviderAnswerError('the discovery document names no authorization, token or key address');
  return {
    addresses: { authorization, token, keys, userInfo: server.userinfo_endpoint ?? '' },
    issuer: server.issuer,
    namesItself: server.authorization_response_iss_parameter_supported === true,
  };
}
