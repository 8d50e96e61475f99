/** Providers that only speak OAuth 2: who signed in is what their profile address says about the access token. */

import { createHmac } from 'node:crypto';
import { withoutEnd } from '../../../../kernel/text.ts';
import { requiredText } from './presets-openid.ts';
import { ProviderAnswerError } from './provider-answers.ts';
import {
  type Addresses,
  type Claims,
  type ExternalProfile,
  flagOf,
  isClaims,
  objectOf,
  type ProfileSource,
  type ProviderPreset,
  type ProviderSettings,
  pictureOf,
  profileOf,
  textOf,
} from './provider-contract.ts';

const oauth2 = {
  protocol: 'oauth2',
  issuer: () => '',
  clientAuthentication: 'post',
  pkce: true,
  nonce: false,
} as const satisfies Partial<ProviderPreset>;

const usual = (...scopes: string[]): ProviderPreset['scopes'] => ({ usual: scopes, required: [] });
const at = (addresses: Omit<Addresses, 'keys'>) => (): Addresses => ({ ...addresses, keys: '' });

async function profileObject({ get, addresses }: ProfileSource, query = ''): Promise<Claims> {
  const profile = await get(`${addresses.userInfo}${query}`);
  if (!isClaims(profile)) throw new ProviderAnswerError('the profile is no object');
  return profile;
}

const list = (value: unknown): readonly Claims[] =>
  Array.isArray(value) ? value.slice(0, 100).filter(isClaims) : [];

// --- GitHub

async function githubProfile(source: ProfileSource): Promise<ExternalProfile> {
  const user = await profileObject(source);
  // The address in the profile is the public one, which nobody vouches for.
  const primary = list(await source.get(`${source.addresses.userInfo}/emails`)).find(
    (one) => one.primary === true,
  );
  return profileOf({
    subject: requiredText(user, 'id'),
    email: primary && textOf(primary, 'email'),
    emailVerified: primary?.verified === true,
    name: textOf(user, 'name'),
    username: textOf(user, 'login'),
    picture: pictureOf(user, 'avatar_url'),
  });
}

export const github: ProviderPreset = {
  ...oauth2,
  addresses: at({
    authorization: 'https://github.com/login/oauth/authorize',
    token: 'https://github.com/login/oauth/access_token',
    userInfo: 'https://api.github.com/user',
  }),
  scopes: usual('read:user', 'user:email'),
  profile: githubProfile,
};

// --- Facebook

/** Graph API versions end after about two years; settings can name a later one. */
const graph = 'https://graph.facebook.com/v24.0';

/** Proves to the Graph API that a token is used by the app it was made for; some apps demand it. */
export const facebookProof = (accessToken: string, { clientSecret }: ProviderSettings): string =>
  createHmac('sha256', clientSecret).update(accessToken).digest('hex');

async function facebookProfile(source: ProfileSource): Promise<ExternalProfile> {
  const proof = facebookProof(source.accessToken, source.settings);
  const user = await profileObject(
    source,
    `?fields=id,name,email,picture&appsecret_proof=${proof}`,
  );
  return profileOf({
    subject: requiredText(user, 'id'),
    email: textOf(user, 'email'),
    // Facebook does not say whether it checked; `trustEmail` is the operator's decision.
    emailVerified: false,
    name: textOf(user, 'name'),
    picture: pictureOf(objectOf(objectOf(user, 'picture'), 'data'), 'url'),
  });
}

export const facebook: ProviderPreset = {
  ...oauth2,
  addresses: at({
    authorization: 'https://www.facebook.com/v24.0/dialog/oauth',
    token: `${graph}/oauth/access_token`,
    userInfo: `${graph}/me`,
  }),
  scopes: usual('public_profile', 'email'),
  profile: facebookProfile,
};

// --- Twitter (X)

async function twitterProfile(source: ProfileSource): Promise<ExternalProfile> {
  const user = objectOf(
    await profileObject(source, '?user.fields=confirmed_email,profile_image_url'),
    'data',
  );
  return profileOf({
    subject: requiredText(user, 'id'),
    email: textOf(user, 'confirmed_email'),
    emailVerified: true,
    name: textOf(user, 'name'),
    username: textOf(user, 'username'),
    picture: pictureOf(user, 'profile_image_url'),
  });
}

export const twitter: ProviderPreset = {
  ...oauth2,
  addresses: at({
    authorization: 'https://x.com/i/oauth2/authorize',
    token: 'https://api.x.com/2/oauth2/token',
    userInfo: 'https://api.x.com/2/users/me',
  }),
  scopes: usual('tweet.read', 'users.read', 'users.email'),
  clientAuthentication: 'basic',
  profile: twitterProfile,
};

// --- GitLab

async function gitlabProfile(source: ProfileSource): Promise<ExternalProfile> {
  const user = await profileObject(source);
  return profileOf({
    subject: requiredText(user, 'id'),
    email: textOf(user, 'email'),
    emailVerified: textOf(user, 'confirmed_at') !== undefined,
    name: textOf(user, 'name'),
    username: textOf(user, 'username'),
    picture: pictureOf(user, 'avatar_url'),
  });
}

export const gitlab: ProviderPreset = {
  ...oauth2,
  addresses: ({ baseUrl }) => {
    const base = baseUrl === '' ? 'https://gitlab.com' : withoutEnd(baseUrl, '/');
    return {
      authorization: `${base}/oauth/authorize`,
      token: `${base}/oauth/token`,
      userInfo: `${base}/api/v4/user`,
      keys: '',
    };
  },
  scopes: usual('read_user'),
  profile: gitlabProfile,
};

// --- Bitbucket

async function bitbucketProfile(source: ProfileSource): Promise<ExternalProfile> {
  const user = await profileObject(source);
  const emails = await source.get(`${source.addresses.userInfo}/emails?pagelen=100`);
  const primary = list(isClaims(emails) ? emails.values : []).find(
    (one) => one.is_primary === true,
  );
  return profileOf({
    subject: requiredText(user, 'uuid'),
    email: primary && textOf(primary, 'email'),
    emailVerified: primary?.is_confirmed === true,
    name: textOf(user, 'display_name'),
    username: textOf(user, 'username'),
    picture: pictureOf(objectOf(objectOf(user, 'links'), 'avatar'), 'href'),
  });
}

export const bitbucket: ProviderPreset = {
  ...oauth2,
  addresses: at({
    authorization: 'https://bitbucket.org/site/oauth2/authorize',
    token: 'https://bitbucket.org/site/oauth2/access_token',
    userInfo: 'https://api.bitbucket.org/2.0/user',
  }),
  scopes: usual('account', 'email'),
  profile: bitbucketProfile,
};

// --- Reddit

async function redditProfile(source: ProfileSource): Promise<ExternalProfile> {
  const user = await profileObject(source);
  return profileOf({
    subject: requiredText(user, 'id'),
    emailVerified: false,
    username: textOf(user, 'name'),
  });
}

export const reddit: ProviderPreset = {
  ...oauth2,
  addresses: at({
    authorization: 'https://www.reddit.com/api/v1/authorize',
    token: 'https://www.reddit.com/api/v1/access_token',
    userInfo: 'https://oauth.reddit.com/api/v1/me',
  }),
  scopes: usual('identity'),
  clientAuthentication: 'basic',
  parameters: { duration: 'temporary' },
  profile: redditProfile,
};

// --- Figma

async function figmaProfile(source: ProfileSource): Promise<ExternalProfile> {
  const user = await profileObject(source);
  return profileOf({
    subject: requiredText(user, 'id'),
    email: textOf(user, 'email'),
    emailVerified: flagOf(user, 'email_verified'),
    username: textOf(user, 'handle'),
    picture: pictureOf(user, 'img_url'),
  });
}

export const figma: ProviderPreset = {
  ...oauth2,
  addresses: at({
    authorization: 'https://www.figma.com/oauth',
    token: 'https://api.figma.com/v1/oauth/token',
    userInfo: 'https://api.figma.com/v1/me',
  }),
  scopes: usual('current_user:read'),
  clientAuthentication: 'basic',
  profile: figmaProfile,
};
