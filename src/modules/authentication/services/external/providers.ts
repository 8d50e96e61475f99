/** The providers that are switched on, made anew from each version of the configuration. */

import { ResponseBodyError } from 'openid-client';
import { PenstockError } from '../../../../kernel/errors.ts';
import { createOutboundFetch, OutboundError } from '../../../../kernel/outbound.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { providerNames, withLineEnds } from '../../config/external.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors } from '../../credential-errors.ts';
import type { Origin } from '../origin.ts';
import type { SignIn } from '../sessions/sign-in.ts';
import { bitbucket, facebook, figma, github, gitlab, reddit, twitter } from './presets-oauth2.ts';
import {
  apple,
  genericOpenid,
  google,
  linkedin,
  microsoft,
  slack,
  twitch,
} from './presets-openid.ts';
import { createProvider, type Provider, type ProviderTools } from './provider.ts';
import { createIdTokens, IdTokenError, ProviderAnswerError } from './provider-answers.ts';
import type { ProviderPreset, ProviderSettings } from './provider-contract.ts';

/* What went wrong between the platform and a provider, as an answer. Nothing here is a 500. */

/** Seconds after which a provider that failed may be tried again. */
const retryAfter = 10;

/** Answers of a token address that are about our client, not about the code: the operator must look. */
const aboutClient: ReadonlySet<string> = new Set([
  'invalid_client',
  'unauthorized_client',
  'invalid_scope',
  'invalid_response',
]);

/** The answer for any failure of a provider. `detail` is for operators and holds no secret. */
function providerFailure(error: unknown): PenstockError {
  if (error instanceof PenstockError) return error;
  const cause = rootOf(error);
  if (cause instanceof IdTokenError)
    return externalErrors.EXTERNAL_TOKEN_INVALID({
      cause,
      detail: `The ID token was refused: ${cause.message}`,
    });
  if (cause instanceof ResponseBodyError && !aboutClient.has(cause.error) && cause.status < 500) {
    return externalErrors.EXTERNAL_CODE_REFUSED({
      cause,
      detail: `The provider answered ${cause.error}`,
    });
  }
  return externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE({
    cause,
    retryAfter,
    detail: detailOf(cause),
  });
}

/** Runs what asks a provider. Whatever goes wrong becomes an answer, and is noted in the log where an operator can do something about it. */
export type AskProvider = <T>(provider: Provider, work: () => Promise<T>) => Promise<T>;

export const createAskProvider =
  (log: Logger): AskProvider =>
  async ({ settings }, work) => {
    try {
      return await work();
    } catch (error) {
      const failure = providerFailure(error);
      const { code, detail } = failure;
      if (detail !== undefined)
        log.warn({ provider: settings.name, code, detail }, 'A sign-in at a provider failed');
      throw failure;
    }
  };

/** Runs the part of a sign-in that must prove who somebody is. Refusals are noted like wrong passwords. */
export type Proving = <T>(provider: Provider, origin: Origin, work: () => Promise<T>) => Promise<T>;

export const createProving =
  (signIn: Pick<SignIn, 'refused'>): Proving =>
  async ({ settings }, origin, work) => {
    try {
      return await work();
    } catch (error) {
      const refused = error instanceof PenstockError && !harmlessCodes.has(error.code);
      if (refused) await signIn.refused({ strategy: settings.name, outcome: 'wrong', origin });
      throw error;
    }
  };

/** Somebody changed their mind, or the provider is down. */
const harmlessCodes: ReadonlySet<string> = new Set([
  externalErrors.EXTERNAL_SIGN_IN_DENIED.code,
  externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE.code,
]);

/** The client library wraps what a fetch throws. */
function rootOf(error: unknown): unknown {
  if (
    error instanceof ResponseBodyError ||
    !(error instanceof Error) ||
    !(error.cause instanceof Error)
  )
    return error;
  return error instanceof OutboundError ? error : rootOf(error.cause);
}

function detailOf(cause: unknown): string {
  if (cause instanceof ResponseBodyError)
    return `The token address answered ${cause.error} (status ${cause.status})`;
  if (cause instanceof OutboundError || cause instanceof ProviderAnswerError) return cause.message;
  return cause instanceof Error
    ? `The answer could not be used: ${cause.message}`
    : 'The answer could not be used';
}

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
    config[name].enabled
      ? [createProvider(settingsOf(name, config[name]), presets[name], tools)]
      : [],
  );
  const further = Object.entries(config.oidc).flatMap(([name, given]) =>
    given.enabled ? [createProvider(settingsOf(name, given), presetOf(given), tools)] : [],
  );
  const byName = new Map(
    [...known, ...further].map((provider) => [provider.settings.name, provider]),
  );
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
  const texts = (key: string): readonly string[] =>
    Array.isArray(given[key]) ? given[key].map(String) : [];
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
    apple: {
      privateKey: withLineEnds(text('privateKey')),
      teamId: text('teamId'),
      keyId: text('keyId'),
    },
  };
}
