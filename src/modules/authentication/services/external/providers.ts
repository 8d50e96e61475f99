/** The providers that are switched on, made anew from each version of the configuration. */
import { createOutboundFetch } from '../../../../kernel/outbound/fetch.ts';
import { providerNames, withLineEnds } from '../../config/external.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { createIdTokens } from './id-tokens.ts';
import type { ProviderPreset } from './preset.ts';
import { bitbucket, facebook, figma, github, gitlab, reddit, twitter } from './presets-oauth2.ts';
import { apple, genericOpenid, google, linkedin, microsoft, slack, twitch } from './presets-openid.ts';
import { createProvider, type Provider, type ProviderTools } from './provider.ts';
import type { ProviderSettings } from './settings.ts';

const presets: Readonly<Record<(typeof providerNames)[number], ProviderPreset>> = {
  google,
  github,
  facebook,
  apple,
  microsoft,
  twitter,
  linkedin,
  slack,
  twitch,
  gitlab,
  bitbucket,
  reddit,
  figma,
};

export interface Providers {
  /** By name; nothing for one that is unknown or switched off. */
  get(name: string): Provider | undefined;
  readonly names: readonly string[];
  readonly tools: ProviderTools;
}

/** Milliseconds for one request to a provider, and bytes of its answer: tokens and profiles are small. */
const limits = { timeoutMs: 10_000, maxBytes: 512 * 1024 };

/** Requests and keys are shared by all versions of the configuration. */
export function createProviderTools(allowInternal: () => boolean): ProviderTools {
  const fetch = createOutboundFetch({ ...limits, allowInternal });
  return { fetch, allowInternal, idTokens: createIdTokens(fetch) };
}

export function providersOf(config: AuthenticationConfig, tools: ProviderTools): Providers {
  const known = providerNames.flatMap((name) =>
    config[name].enabled ? [createProvider(settingsOf(name, config[name]), presets[name], tools)] : [],
  );
  const further = Object.entries(config.oidc).flatMap(([name, given]) =>
    given.enabled ? [createProvider(settingsOf(name, given), presetOf(given), tools)] : [],
  );
  const byName = new Map([...known, ...further].map((provider) => [provider.settings.name, provider]));
  return { get: (name) => byName.get(name), names: [...byName.keys()], tools };
}

type Given = Readonly<Record<string, unknown>>;

const presetOf = ({ clientAuthentication, pkce }: Given): ProviderPreset => ({
  ...genericOpenid,
  clientAuthentication: clientAuthentication === 'basic' ? 'basic' : 'post',
  pkce: pkce !== false,
});

/** Keys that a provider does not have, or that were left out, have their defaults here. */
function settingsOf(name: string, given: Given): ProviderSettings {
  const text = (key: string): string => (typeof given[key] === 'string' ? given[key] : '');
  const texts = (key: string): readonly string[] => (Array.isArray(given[key]) ? given[key].map(String) : []);
  return {
    name,
    clientId: text('clientId'),
    clientSecret: text('clientSecret'),
    redirectUri: text('redirect_uri'),
    accountLinking: given.accountLinking !== false,
    scopes: texts('scopes'),
    trustEmail: given.trustEmail === true,
    issuer: text('issuer'),
    authorizationUrl: text('authorizationUrl'),
    tokenUrl: text('tokenUrl'),
    userInfoUrl: text('userInfoUrl'),
    jwksUrl: text('jwksUrl'),
    audiences: texts('audiences'),
    baseUrl: text('baseUrl'),
    tenantId: text('tenantId'),
    apple: { privateKey: withLineEnds(text('privateKey')), teamId: text('teamId'), keyId: text('keyId') },
  };
}
