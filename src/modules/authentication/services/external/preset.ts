/** What has to be known about a provider before anybody configures it. */
import type { Claims, ExternalProfile } from './profile.ts';
import type { ProviderSettings } from './settings.ts';

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
