/** One configured provider: the protocol side of a sign-in, without accounts and sessions. */
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  Configuration,
  calculatePKCECodeChallenge,
  genericGrantRequest,
} from 'openid-client';
import { externalErrors } from '../../credential-errors.ts';
import { IdTokenError, type IdTokens, readValue, tokenFetch } from './provider-answers.ts';
import {
  clientProof,
  createEndpoints,
  type Endpoints,
  type EndpointTools,
  prepared,
} from './provider-client.ts';
import type {
  Claims,
  ExternalProfile,
  ProviderPreset,
  ProviderSettings,
} from './provider-contract.ts';

/** What ties the parts of one sign-in together; made for it alone. */
export interface Proof {
  readonly state: string;
  readonly nonce: string;
  /** PKCE code verifier (RFC 7636). */
  readonly verifier: string;
  /** Where the provider sends the browser back to. */
  readonly callbackUrl: string;
}

/** What came back with the browser. */
export interface AuthorizationAnswer {
  readonly code: string;
  /** `iss` (RFC 9207): which provider says that it answers. */
  readonly issuer?: string | undefined;
}

/** The client that an app on a device is: its own id, or that of the web with the address it gave the provider. */
export interface NativeClient {
  readonly clientId: string;
  readonly callbackUrl?: string;
}

/** Throws what `providerFailure` turns into an answer. */
export interface Provider {
  readonly settings: ProviderSettings;
  readonly preset: ProviderPreset;
  /** Where to send the browser. */
  authorizationUrl(proof: Proof, scopes: readonly string[]): Promise<string>;
  /** The scopes of a sign-in for which these were asked. */
  scopes(requested: readonly string[]): readonly string[];
  /** Redeems the code and reads who signed in. */
  redeem(answer: AuthorizationAnswer, proof: Proof): Promise<ExternalProfile>;
  /** Redeems a code that an app got on its device. */
  redeemNative(code: string, client: NativeClient): Promise<ExternalProfile>;
  /** The claims of an ID token that an app presents. */
  verify(idToken: string): Promise<Claims>;
  /** The profile that verified claims, or without them an access token, stand for. */
  profile(claims: Claims, accessToken: string): Promise<ExternalProfile>;
}

export interface ProviderTools extends EndpointTools {
  readonly idTokens: IdTokens;
}

export function createProvider(
  settings: ProviderSettings,
  preset: ProviderPreset,
  tools: ProviderTools,
): Provider {
  const endpoints = createEndpoints(settings, preset, tools);
  const core: Core = { settings, preset, tools };
  return {
    settings,
    preset,
    async authorizationUrl(proof, requested) {
      const configuration = configurationOf(core, await endpoints(), settings.clientId);
      return buildAuthorizationUrl(
        configuration,
        await authorizationParameters(preset, proof, scopesOf(core, requested)),
      ).href;
    },
    scopes: (requested) => scopesOf(core, requested),
    async redeem(answer, proof) {
      const found = await endpoints();
      requireSameIssuer(core, found, answer.issuer);
      const { idToken, accessToken } = await redeemCode(core, found, { code: answer.code, proof });
      const claims = await claimsOf(core, found, {
        idToken,
        audiences: [settings.clientId],
        nonce: preset.nonce ? proof.nonce : undefined,
      });
      return readProfile(core, found, claims, accessToken);
    },
    async redeemNative(code, client) {
      const found = await endpoints();
      const { idToken, accessToken } = await redeemNativeCode(core, found, { code, client });
      const claims = await claimsOf(core, found, {
        idToken,
        audiences: [client.clientId],
        nonce: undefined,
      });
      return readProfile(core, found, claims, accessToken);
    },
    verify: async (idToken) =>
      claimsOf(core, await endpoints(), {
        idToken,
        audiences: [settings.clientId, ...settings.audiences],
        nonce: undefined,
      }),
    profile: async (claims, accessToken) =>
      readProfile(core, await endpoints(), claims, accessToken),
  };
}

interface Core {
  readonly settings: ProviderSettings;
  readonly preset: ProviderPreset;
  readonly tools: ProviderTools;
}

/** Made per use: it carries the fetch and the secret of this use. */
function configurationOf(
  { settings, preset, tools }: Core,
  { addresses, issuer }: Endpoints,
  clientId: string,
  fetch = tools.fetch,
): Configuration {
  const server = {
    issuer,
    authorization_endpoint: addresses.authorization,
    token_endpoint: addresses.token,
  };
  const configuration = new Configuration(
    server,
    clientId,
    undefined,
    clientProof(settings, preset, clientId),
  );
  return prepared(configuration, fetch, tools.allowInternal());
}

async function authorizationParameters(
  preset: ProviderPreset,
  proof: Proof,
  scopes: readonly string[],
): Promise<Record<string, string>> {
  return {
    redirect_uri: proof.callbackUrl,
    response_type: 'code',
    scope: scopes.join(' '),
    state: proof.state,
    ...(preset.nonce ? { nonce: proof.nonce } : {}),
    ...(preset.pkce
      ? {
          code_challenge: await calculatePKCECodeChallenge(proof.verifier),
          code_challenge_method: 'S256',
        }
      : {}),
    ...preset.parameters,
  };
}

function scopesOf({ settings, preset }: Core, requested: readonly string[]): readonly string[] {
  const chosen =
    [requested, settings.scopes].find((scopes) => scopes.length > 0) ?? preset.scopes.usual;
  return [...new Set([...preset.scopes.required, ...chosen])];
}

/** Another provider answers in this one's name (mix-up). Where tenants share the addresses, each is its own issuer: the ID token decides. */
function requireSameIssuer(
  { settings, preset }: Core,
  { issuer, namesItself }: Endpoints,
  named: string | undefined,
): void {
  if (preset.protocol === 'oauth2') return;
  const accepted = preset.issuers?.(settings, {}) ?? [issuer];
  const wrong =
    named === undefined ? namesItself : accepted.length > 0 && !accepted.includes(named);
  if (wrong)
    throw externalErrors.EXTERNAL_STATE_INVALID({
      detail: 'The answer names another issuer than the provider',
    });
}

interface Tokens {
  readonly accessToken: string;
  readonly idToken: string | undefined;
}

async function redeemCode(
  core: Core,
  found: Endpoints,
  { code, proof }: { readonly code: string; readonly proof: Proof },
): Promise<Tokens> {
  const { fetch, idToken } = tokenFetch(core.tools.fetch);
  const answer = new URL(proof.callbackUrl);
  answer.searchParams.set('code', code);
  answer.searchParams.set('state', proof.state);
  const { access_token: accessToken } = await authorizationCodeGrant(
    configurationOf(core, found, core.settings.clientId, fetch),
    answer,
    {
      expectedState: proof.state,
      ...(core.preset.pkce ? { pkceCodeVerifier: proof.verifier } : {}),
    },
  );
  return { accessToken, idToken: idToken() };
}

async function redeemNativeCode(
  core: Core,
  found: Endpoints,
  { code, client }: { readonly code: string; readonly client: NativeClient },
): Promise<Tokens> {
  const { fetch, idToken } = tokenFetch(core.tools.fetch);
  const { clientId, callbackUrl } = client;
  const parameters = { code, ...(callbackUrl === undefined ? {} : { redirect_uri: callbackUrl }) };
  const configuration = configurationOf(core, found, clientId, fetch);
  const { access_token: accessToken } = await genericGrantRequest(
    configuration,
    'authorization_code',
    parameters,
  );
  return { accessToken, idToken: idToken() };
}

/** The verified claims; none for providers that know no ID tokens. */
async function claimsOf(
  { settings, preset, tools }: Core,
  { addresses, issuer }: Endpoints,
  {
    idToken,
    audiences,
    nonce,
  }: {
    readonly idToken: string | undefined;
    readonly audiences: readonly string[];
    readonly nonce: string | undefined;
  },
): Promise<Claims> {
  if (preset.protocol === 'oauth2') return {};
  if (idToken === undefined) throw new IdTokenError('there is none');
  return tools.idTokens.verify(idToken, {
    keysUrl: addresses.keys,
    issuers: (claims) => preset.issuers?.(settings, claims) ?? [issuer],
    audiences,
    ...(nonce === undefined ? {} : { nonce }),
  });
}

async function readProfile(
  { settings, preset, tools }: Core,
  { addresses }: Endpoints,
  claims: Claims,
  accessToken: string,
): Promise<ExternalProfile> {
  const get = (url: string, headers: Readonly<Record<string, string>> = {}): Promise<unknown> =>
    readValue(tools.fetch, url, {
      headers: { authorization: `Bearer ${accessToken}`, ...headers },
    });
  const profile = await preset.profile({ claims, accessToken, addresses, settings, get });
  return settings.trustEmail && profile.email !== undefined
    ? { ...profile, emailVerified: true }
    : profile;
}
