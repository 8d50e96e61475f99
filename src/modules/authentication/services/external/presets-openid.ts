/** Providers that speak OpenID Connect. Addresses are fixed, so that no discovery stands between a start and a sign-in. */
import { ProviderAnswerError } from './provider-answers.ts';
import {
  type Addresses,
  type Claims,
  type ExternalProfile,
  flagOf,
  isClaims,
  type ProfileSource,
  type ProviderPreset,
  type ProviderSettings,
  pictureOf,
  profileOf,
  textOf,
} from './provider-contract.ts';

/** The standard claims (OpenID Connect Core 5.1). The address is looked up when the ID token does not carry it. */
export async function standardProfile(source: ProfileSource): Promise<ExternalProfile> {
  const claims = await withUserInfo(source);
  return profileOf({
    subject: requiredText(claims, 'sub'),
    email: textOf(claims, 'email'),
    emailVerified: flagOf(claims, 'email_verified'),
    name: textOf(claims, 'name'),
    username: textOf(claims, 'preferred_username') ?? textOf(claims, 'nickname'),
    picture: pictureOf(claims, 'picture'),
  });
}

/** Claims of the ID token win; what the profile address says must be about the same subject (Core 5.3.2). */
async function withUserInfo({
  claims,
  accessToken,
  addresses,
  get,
}: ProfileSource): Promise<Claims> {
  if (addresses.userInfo === '' || accessToken === '' || textOf(claims, 'email') !== undefined)
    return claims;
  const info = await get(addresses.userInfo);
  if (!isClaims(info) || textOf(info, 'sub') !== textOf(claims, 'sub')) {
    throw new ProviderAnswerError('the profile is about another subject than the ID token');
  }
  return { ...info, ...claims };
}

/** An id: exactly as it was written, or not at all. Two that differ must stay two. */
export function requiredText(claims: Claims, name: string): string {
  const text = textOf(claims, name);
  if (text === undefined || text !== String(claims[name]))
    throw new ProviderAnswerError(`the profile has no usable "${name}"`);
  return text;
}

const openid = {
  protocol: 'openid',
  scopes: { usual: ['openid', 'profile', 'email'], required: ['openid'] },
  clientAuthentication: 'post',
  pkce: true,
  nonce: true,
  profile: standardProfile,
} as const satisfies Partial<ProviderPreset>;

const at = (
  addresses: Addresses,
  issuer: string,
): Pick<ProviderPreset, 'addresses' | 'issuer'> => ({
  addresses: () => addresses,
  issuer: () => issuer,
});

/** Any provider with a discovery document. */
export const genericOpenid: ProviderPreset = {
  ...openid,
  ...at({ authorization: '', token: '', userInfo: '', keys: '' }, ''),
};

const googleIssuer = 'https://accounts.google.com';

export const google: ProviderPreset = {
  ...openid,
  ...at(
    {
      authorization: 'https://accounts.google.com/o/oauth2/v2/auth',
      token: 'https://oauth2.googleapis.com/token',
      userInfo: 'https://openidconnect.googleapis.com/v1/userinfo',
      keys: 'https://www.googleapis.com/oauth2/v3/certs',
    },
    googleIssuer,
  ),
  // Google's own documentation names both forms.
  issuers: ({ issuer }) => (issuer === '' ? [googleIssuer, 'accounts.google.com'] : [issuer]),
};

export const apple: ProviderPreset = {
  ...openid,
  ...at(
    {
      authorization: 'https://appleid.apple.com/auth/authorize',
      token: 'https://appleid.apple.com/auth/token',
      userInfo: '',
      keys: 'https://appleid.apple.com/auth/keys',
    },
    'https://appleid.apple.com',
  ),
  scopes: { usual: ['name', 'email'], required: [] },
  // Apple gives name and e-mail only to clients that take the answer as a form.
  parameters: { response_mode: 'form_post' },
  formPost: true,
};

const slackUrl = 'https://slack.com';

export const slack: ProviderPreset = {
  ...openid,
  ...at(
    {
      authorization: `${slackUrl}/openid/connect/authorize`,
      token: `${slackUrl}/api/openid.connect.token`,
      userInfo: `${slackUrl}/api/openid.connect.userInfo`,
      keys: `${slackUrl}/openid/connect/keys`,
    },
    slackUrl,
  ),
};

export const linkedin: ProviderPreset = {
  ...openid,
  ...at(
    {
      authorization: 'https://www.linkedin.com/oauth/v2/authorization',
      token: 'https://www.linkedin.com/oauth/v2/accessToken',
      userInfo: 'https://api.linkedin.com/v2/userinfo',
      keys: 'https://www.linkedin.com/oauth/openid/jwks',
    },
    'https://www.linkedin.com/oauth',
  ),
  issuers: ({ issuer }) =>
    issuer === '' ? ['https://www.linkedin.com/oauth', 'https://www.linkedin.com'] : [issuer],
  // It refuses a code with a verifier, and does not repeat the nonce (nextauthjs/next-auth#8831, teamhanko/hanko#2405).
  pkce: false,
  nonce: false,
};

export const twitch: ProviderPreset = {
  ...openid,
  ...at(
    {
      authorization: 'https://id.twitch.tv/oauth2/authorize',
      token: 'https://id.twitch.tv/oauth2/token',
      userInfo: 'https://id.twitch.tv/oauth2/userinfo',
      keys: 'https://id.twitch.tv/oauth2/keys',
    },
    'https://id.twitch.tv/oauth2',
  ),
  scopes: { usual: ['openid', 'user:read:email'], required: ['openid'] },
  // Without this parameter its ID tokens hold nothing but the subject.
  parameters: {
    claims: JSON.stringify({
      id_token: { email: null, email_verified: null, preferred_username: null, picture: null },
    }),
  },
};

const microsoftHost = 'https://login.microsoftonline.com';
/** Tenants that are not one: any organisation, any person, both. Tokens then name the real tenant as issuer. */
const manyTenants: ReadonlySet<string> = new Set(['common', 'organizations', 'consumers']);
const tenantShape = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const tenantOf = ({ tenantId }: ProviderSettings): string =>
  tenantId === '' ? 'common' : tenantId.toLowerCase();
const microsoftIssuer = (tenant: string): string => `${microsoftHost}/${tenant}/v2.0`;

/** The tenant of a token, when it has the form of one: it becomes a part of the expected issuer. */
const tokenTenant = (claims: Claims): string | undefined => {
  const tid = textOf(claims, 'tid');
  return tid !== undefined && tenantShape.test(tid) ? tid : undefined;
};

/**
 * Addresses at Microsoft are whatever an administrator of some tenant writes into a profile (the "nOAuth"
 * takeover): only tenant and object id identify a person, and an address is verified only where
 * Microsoft says that the domain's owner was checked.
 */
function microsoftProfile({ claims }: ProfileSource): ExternalProfile {
  const tenant = tokenTenant(claims);
  if (tenant === undefined) throw new ProviderAnswerError('the profile has no "tid"');
  const email = textOf(claims, 'email');
  const verified = Array.isArray(claims.verified_primary_email)
    ? claims.verified_primary_email
    : [];
  return profileOf({
    subject: `${tenant}:${requiredText(claims, 'oid')}`,
    email,
    emailVerified: flagOf(claims, 'xms_edov') || (email !== undefined && verified.includes(email)),
    name: textOf(claims, 'name'),
    username: textOf(claims, 'preferred_username'),
  });
}

export const microsoft: ProviderPreset = {
  ...openid,
  addresses: (settings) => {
    const base = `${microsoftHost}/${encodeURIComponent(tenantOf(settings))}`;
    return {
      authorization: `${base}/oauth2/v2.0/authorize`,
      token: `${base}/oauth2/v2.0/token`,
      userInfo: '',
      keys: `${base}/discovery/v2.0/keys`,
    };
  },
  issuer: (settings) => microsoftIssuer(tenantOf(settings)),
  issuers: (settings, claims) => {
    if (settings.issuer !== '')
      return [settings.issuer.replace('{tenantid}', tokenTenant(claims) ?? '')];
    const tenant = tenantOf(settings);
    const named =
      manyTenants.has(tenant) || !tenantShape.test(tenant) ? tokenTenant(claims) : tenant;
    return named === undefined ? [] : [microsoftIssuer(named)];
  },
  scopes: { usual: ['openid', 'profile', 'email', 'User.Read'], required: ['openid', 'profile'] },
  profile: microsoftProfile,
};
