/** What has to be known about a provider before anybody configures it. */
import { cutText, storable } from '../../../../kernel/text.ts';

/* The settings of one provider with everything filled in, from whichever part of the configuration they come. */

export interface ProviderSettings {
  /** As in its addresses: `/authentication/init/<name>`. */
  readonly name: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Where users land after the sign-in when the app names no place. Empty: they get JSON. */
  readonly redirectUri: string;
  readonly accountLinking: boolean;
  /** In place of the preset's usual ones, when there are any. */
  readonly scopes: readonly string[];
  /** Every address of this provider counts as verified. */
  readonly trustEmail: boolean;
  readonly issuer: string;
  readonly authorizationUrl: string;
  readonly tokenUrl: string;
  readonly userInfoUrl: string;
  readonly jwksUrl: string;
  /** Further client ids whose ID tokens are taken from apps. */
  readonly audiences: readonly string[];
  /** GitLab: the address of the installation. */
  readonly baseUrl: string;
  /** Microsoft: which tenants may sign in. */
  readonly tenantId: string;
  /** Apple: what the client secret is made from. */
  readonly apple: { readonly privateKey: string; readonly teamId: string; readonly keyId: string };
}

/* What a provider says about a person, in one form. Everything in it is untrusted text until it was checked here. */

/** An account at a provider. `provider` and `subject` together are its only key. */
export interface ExternalProfile {
  /** The provider's own id of the account: stable, never given to somebody else. */
  readonly subject: string;
  /** As the provider wrote it. */
  readonly email?: string;
  /** Whether the provider vouches that the person reads mail at that address. */
  readonly emailVerified: boolean;
  readonly name?: string;
  readonly username?: string;
  readonly picture?: string;
}

/** A JSON object of unknown content. */
export type Claims = Readonly<Record<string, unknown>>;

export const isClaims = (value: unknown): value is Claims =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const maxTextLength = 512;
const maxAddressLength = 2048;

/** A text of that name; numbers count as text (ids of several providers are numbers). Nothing when it is too long to be honest. */
export function textOf(
  claims: Claims,
  name: string,
  maxLength = maxTextLength,
): string | undefined {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  if (typeof value !== 'string' || value === '' || value.length > maxLength) return undefined;
  return storable(value.replace(/\p{Cc}/gu, ' '));
}

/** The address of a picture, which is often long. */
export const pictureOf = (claims: Claims, name: string): string | undefined =>
  textOf(claims, name, maxAddressLength);

/** Providers write this as a boolean, as text, or as 1. Everything else is no. */
export function flagOf(claims: Claims, name: string): boolean {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return value === true || value === 'true' || value === 1 || value === '1';
}

export const objectOf = (claims: Claims, name: string): Claims => {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return isClaims(value) ? value : {};
};

/** The parts of a profile that are there. `subject` must be; the caller refuses the answer otherwise. */
export function profileOf(parts: {
  readonly subject: string;
  readonly email?: string | undefined;
  readonly emailVerified: boolean;
  readonly name?: string | undefined;
  readonly username?: string | undefined;
  readonly picture?: string | undefined;
}): ExternalProfile {
  const { subject, emailVerified, email, name, username, picture } = parts;
  return {
    subject,
    emailVerified: email !== undefined && emailVerified,
    ...(email === undefined ? {} : { email }),
    ...(name === undefined ? {} : { name }),
    ...(username === undefined ? {} : { username }),
    ...(picture !== undefined && isWebAddress(picture) ? { picture } : {}),
  };
}

/** A picture's address may end up in somebody's page. */
const isWebAddress = (text: string): boolean =>
  URL.canParse(text) && new URL(text).protocol === 'https:';

/* The name that Apple gives with the first sign-in only, beside the ID token and unsigned. */

const maxLength = 4096;

/** The profile with that name: good enough to greet somebody, and nothing else of it is used. */
export function withName(profile: ExternalProfile, user: string | undefined): ExternalProfile {
  if (user === undefined || user.length > maxLength || profile.name !== undefined) return profile;
  const name = nameIn(user);
  return name === '' ? profile : { ...profile, name };
}

function nameIn(user: string): string {
  try {
    const { name } = JSON.parse(user) as {
      readonly name?: { readonly firstName?: unknown; readonly lastName?: unknown };
    };
    const parts = [name?.firstName, name?.lastName].filter(
      (part): part is string => typeof part === 'string',
    );
    return cutText(
      storable(parts.join(' '))
        .replace(/\p{Cc}/gu, ' ')
        .trim(),
      200,
    );
  } catch {
    return '';
  }
}

/** Where a provider is reached. Empty texts: it has no such address, or its discovery document names it. */
export interface Addresses {
  readonly authorization: string;
  readonly token: string;
  readonly userInfo: string;
  /** Keys that sign ID tokens. */
  readonly keys: string;
}

/** A successful exchange, from which the profile is made. */
export interface ProfileSource {
  /** Claims of the verified ID token; empty for providers that have none. */
  readonly claims: Claims;
  /** Empty where an app presented its ID token alone. */
  readonly accessToken: string;
  readonly addresses: Addresses;
  readonly settings: ProviderSettings;
  /** GET with the access token as bearer. Throws `ProviderAnswerError` or `OutboundError`. */
  get(url: string, headers?: Readonly<Record<string, string>>): Promise<unknown>;
}

export interface ProviderPreset {
  /** `openid`: the ID token says who signed in. `oauth2`: the profile address does. */
  readonly protocol: 'openid' | 'oauth2';
  /** Unless settings say otherwise. */
  readonly addresses: (settings: ProviderSettings) => Addresses;
  /** Its issuer; empty when only discovery can tell, or there is none. */
  readonly issuer: (settings: ProviderSettings) => string;
  /** Issuers that ID tokens may name, where that is not simply `issuer`. */
  readonly issuers?: (settings: ProviderSettings, claims: Claims) => readonly string[];
  /** Asked for unless settings or the request name others; `required` are asked for always. */
  readonly scopes: { readonly usual: readonly string[]; readonly required: readonly string[] };
  /** How it wants to see the client's secret: in the form, or as HTTP Basic. Never in a query. */
  readonly clientAuthentication: 'post' | 'basic';
  /** False only where a provider is known to refuse it. */
  readonly pkce: boolean;
  /** False only where a provider is known to drop it. */
  readonly nonce: boolean;
  /** Further parameters of the authorization address. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** The provider answers with a form post instead of a redirect. */
  readonly formPost?: boolean;
  readonly profile: (source: ProfileSource) => ExternalProfile | Promise<ExternalProfile>;
}
