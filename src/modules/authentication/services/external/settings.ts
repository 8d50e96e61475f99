/** The settings of one provider with everything filled in, from whichever part of the configuration they come. */

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
