/**
 * The provider itself: the certified library `oidc-provider`, over our keys, our tables and our accounts. It is made
 * anew whenever keys or settings change, and it never listens: each request that an operation got is handed to it,
 * under the issuer's own address, so that no header of a request decides where anything leads.
 */
import { inject, type Response } from 'light-my-request';
import type { Configuration, KoaContextWithOIDC, Provider } from 'oidc-provider';
import type { Kernel } from '../../../../host/kernel.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import { ownClaims } from '../../config/openid.ts';
import type { AuthenticationConfig } from '../../config.ts';
import type { SigningKeys } from '../tokens/signing-keys.ts';
import { createAdapter } from './adapter.ts';
import { createOpenidClients, type OpenidClients } from './clients.ts';
import { openidLibrary } from './library.ts';
import { endedPage, errorPage, openidPolicy, signOutPage } from './pages.ts';
import { claimsRow, consentOf } from './queries.ts';

/** Where the protocol's own calls are. */
export const openidPaths = {
  authorization: '/openid/authorize',
  token: '/openid/token',
  userinfo: '/openid/userinfo',
  revocation: '/openid/revoke',
  introspection: '/openid/introspect',
  endSession: '/openid/end-session',
  interaction: '/openid/interaction',
  discovery: '/.well-known/openid-configuration',
  keys: '/.well-known/jwks.json',
} as const;

/** A request as the surface got it. */
export interface OpenidRequest {
  readonly method: string;
  /** With its query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: Buffer | undefined;
  readonly address: string;
}

export interface OpenidServer {
  /** Answers a call of the protocol. */
  answer(request: OpenidRequest): Promise<Response>;
  /** Does something with the sign-in that the cookies of the request belong to. */
  within<T>(
    request: OpenidRequest,
    work: (
      provider: Provider,
      ...exchange: Parameters<Provider['interactionDetails']>
    ) => Promise<T>,
  ): Promise<T>;
  /** The provider as it is configured now. */
  current(): Provider;
}

export interface OpenidServerParts extends Pick<Kernel, 'database' | 'secrets'> {
  readonly keys: SigningKeys;
  readonly clients: OpenidClients;
  readonly sessions: Parameters<typeof createAdapter>[0]['sessions'];
  readonly config: () => AuthenticationConfig;
  readonly publicUrl: () => string;
}

/** The provider with the apps that it knows; each needs the other. */
export function createOpenid(parts: Omit<OpenidServerParts, 'clients'> & Pick<Kernel, 'events'>): {
  readonly server: OpenidServer;
  readonly clients: OpenidClients;
  readonly database: Kernel['database'];
} {
  const clients: OpenidClients = createOpenidClients({ ...parts, checker: () => server.current() });
  const server: OpenidServer = createOpenidServer({ ...parts, clients });
  return { server, clients, database: parts.database };
}

function createOpenidServer(parts: OpenidServerParts): OpenidServer {
  const { keys, config } = parts;
  let made:
    | { readonly of: string; readonly config: unknown; readonly provider: Provider }
    | undefined;
  const current = (): Provider => {
    const now = config();
    const of = [keys.signing().kid, ...keys.jwks().map(({ kid }) => kid)].join(' ');
    if (made?.of !== of || made.config !== now)
      made = { of, config: now, provider: createProvider(parts, issuerOf(parts)) };
    return made.provider;
  };
  return {
    current,
    answer: (request) => answer(current(), { issuer: issuerOf(parts), request }),
    async within<T>(request: OpenidRequest, work: Parameters<typeof within<T>>[2]): Promise<T> {
      return within(current(), { issuer: issuerOf(parts), request }, work);
    },
  };
}

/** What the library answers; what went wrong on our side is thrown, for the surface to answer and to write down. */
async function answer(
  provider: Provider,
  { issuer, request }: { readonly issuer: string; readonly request: OpenidRequest },
): Promise<Response> {
  const failure: { error?: unknown } = {};
  const handle = provider.callback();
  const response = await dispatch(issuer, request, (incoming, outgoing) => {
    failures.set(incoming, failure);
    return handle(incoming, outgoing);
  });
  if ('error' in failure) throw failure.error;
  return response;
}

const failures = new WeakMap<object, { error?: unknown }>();

async function within<T>(
  provider: Provider,
  { issuer, request }: { readonly issuer: string; readonly request: OpenidRequest },
  work: (provider: Provider, ...exchange: Parameters<Provider['interactionDetails']>) => Promise<T>,
): Promise<T> {
  let outcome: Promise<T> | undefined;
  await dispatch(issuer, request, (incoming, outgoing) => {
    outcome = work(provider, incoming, outgoing);
    const end = () => void outgoing.end();
    outcome.then(end, end);
  });
  if (!outcome) throw new Error('The request was not handed on');
  return outcome;
}

/** Without an address of its own nothing is served, but apps can be kept already. */
const issuerOf = ({ config, publicUrl }: Pick<OpenidServerParts, 'config' | 'publicUrl'>): string =>
  config().accessTokens.issuer || publicUrl() || 'http://localhost';

type Handler = (...exchange: Parameters<ReturnType<Provider['callback']>>) => Promise<void> | void;

/** Headers of the request that the library may see. Whatever says where the request went is ours to say. */
const passedOn = [
  'accept',
  'authorization',
  'content-type',
  'cookie',
  'origin',
  'user-agent',
] as const;

function dispatch(issuer: string, request: OpenidRequest, handler: Handler): Promise<Response> {
  const { host, protocol, pathname } = new URL(issuer);
  const prefix = pathname === '/' ? '' : pathname;
  const headers: Record<string, string> = {
    host,
    'x-forwarded-host': host,
    'x-forwarded-proto': protocol.slice(0, -1),
  };
  for (const name of passedOn) {
    const value = request.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  return inject(
    (incoming, outgoing) => {
      // From this the library takes the part of the path that a proxy takes away.
      Object.assign(incoming, { originalUrl: `${prefix}${request.url}` });
      const handling = async (): Promise<void> => handler(incoming, outgoing);
      // Nobody above waits for it: what the library throws beside its answers must not end the process.
      handling().catch((error: unknown) => {
        Object.assign(failures.get(incoming) ?? {}, { error });
        outgoing.end();
      });
    },
    {
      method: request.method,
      url: request.url,
      headers,
      remoteAddress: request.address,
      ...(request.body === undefined ? {} : { payload: request.body }),
    },
  );
}

const minute = 60;
const hour = 3600;
const day = 24 * hour;

function createProvider(parts: OpenidServerParts, issuer: string): Provider {
  const { Provider } = openidLibrary();
  const provider = new Provider(issuer, configurationOf(parts, issuer));
  provider.proxy = true;
  provider.on('server_error', (context, error) => {
    const failure = failures.get(context.req);
    if (failure) failure.error = error;
  });
  provider.use(async (context, next) => {
    context.set('content-security-policy', openidPolicy);
    await next();
  });
  // Secrets are kept as hashes, several while one takes the place of another.
  const { Client } = provider as unknown as { Client: { prototype: object } };
  Object.assign(Client.prototype, {
    compareClientSecret(this: { readonly clientSecret?: string }, presented: string): boolean {
      return (this.clientSecret ?? '').split(' ').includes(sha256(presented));
    },
  });
  return provider;
}

const lifetimesOf = ({
  openidProvider,
}: AuthenticationConfig): NonNullable<Configuration['ttl']> => {
  const token = Math.floor(openidProvider.accessTokenLifetime / 1000);
  return {
    AccessToken: token,
    IdToken: token,
    AuthorizationCode: 60,
    RefreshToken: Math.floor(openidProvider.refreshTokenLifetime / 1000),
    Interaction: hour,
    // Whoever asks for the page of sign-outs gets one before anybody has signed in.
    Session: (_context, { accountId }) => (accountId === undefined ? 10 * minute : 90 * day),
    Grant: 90 * day,
  };
};

type KnownClient = InstanceType<Provider['Client']>;
const isKept = (client: KnownClient): boolean => client.clientAuthMethod !== 'none';
const isOf = (client: KnownClient, token: object): boolean =>
  'clientId' in token && token.clientId === client.clientId;

/** What is off is not needed by apps of the same operator, and is less to attack. */
const features: NonNullable<Configuration['features']> = {
  devInteractions: { enabled: false },
  // Services of the operator get tokens from apps of the operator; apps that keep no secret ask about their own alone.
  introspection: {
    enabled: true,
    allowedPolicy: (_context, client, token) => isKept(client) || isOf(client, token),
  },
  revocation: {
    enabled: true,
    allowedPolicy: (_context, client, token) => isOf(client, token),
  },
  claimsParameter: { enabled: false },
  pushedAuthorizationRequests: { enabled: false },
  dPoP: { enabled: false },
  resourceIndicators: { enabled: false },
  requestObjects: { enabled: false },
  rpInitiatedLogout: {
    enabled: true,
    logoutSource: signOutPage,
    postLogoutSuccessSource: endedPage,
  },
};

function configurationOf(parts: OpenidServerParts, issuer: string): Configuration {
  const { keys, config } = parts;
  const idleMs = (): number =>
    Math.max(config().refreshTokens.expiryPeriod, config().accessTokens.expiryPeriod);
  const { algorithm } = keys.signing();
  const cookies = { httpOnly: true, sameSite: 'lax', signed: false, overwrite: true } as const;
  return {
    adapter: createAdapter({ ...parts, idleMs }),
    jwks: { keys: keys.privateJwks() as NonNullable<Configuration['jwks']>['keys'] },
    clientDefaults: { id_token_signed_response_alg: algorithm },
    enabledJWA: { idTokenSigningAlgValues: ['EdDSA', 'ES256', 'RS256'] },
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'],
    extraClientMetadata: { properties: ['urn:penstock:consent'] },
    responseTypes: ['code'],
    subjectTypes: ['public'],
    scopes: ['openid', 'offline_access', 'profile', 'email', 'phone'],
    claims: claimsOf(config()),
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    cookies: {
      names: {
        session: 'openid_session',
        interaction: 'openid_interaction',
        resume: 'openid_resume',
      },
      long: cookies,
      short: cookies,
    },
    ttl: lifetimesOf(config()),
    routes: {
      authorization: openidPaths.authorization,
      token: openidPaths.token,
      userinfo: openidPaths.userinfo,
      revocation: openidPaths.revocation,
      introspection: openidPaths.introspection,
      end_session: openidPaths.endSession,
      jwks: openidPaths.keys,
    },
    features,
    interactions: { url: (_context, { uid }) => `${issuer}${openidPaths.interaction}/${uid}` },
    renderError: errorPage,
    // Everything that an app gets ends with the session of the user.
    expiresWithSession: () => true,
    issueRefreshToken: (_context, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    findAccount: (_context, userId) => accountOf(parts, userId),
    loadExistingGrant: (context) => existingGrant(parts, context),
  };
}

const claimsOf = ({ openidProvider }: AuthenticationConfig): Record<string, string[]> => ({
  ...Object.fromEntries(Object.entries(ownClaims).map(([scope, names]) => [scope, [...names]])),
  profile: [...ownClaims.profile, ...Object.keys(openidProvider.claims)],
});

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** Nothing for a user who is blocked, gone, or has no name yet. */
async function accountOf({ database, config }: OpenidServerParts, userId: string) {
  const user = uuid.test(userId) ? await claimsRow(database, userId) : undefined;
  if (!user) return undefined;
  const { claims } = config().openidProvider;
  return {
    accountId: userId,
    claims: () => ({
      ...Object.fromEntries(Object.entries(claims).map(([name, field]) => [name, user[field]])),
      sub: userId,
      preferred_username: user.username ?? undefined,
      updated_at: Math.floor(Date.parse(String(user.updatedAt)) / 1000),
      email: user.email ?? undefined,
      email_verified: user.email ? user.isVerified === true : undefined,
      phone_number: user.phoneNumber ?? undefined,
      // Numbers are stored once they were proven.
      phone_number_verified: user.phoneNumber ? true : undefined,
    }),
  };
}

/** What the user has agreed to: in this session, at an earlier time, or what the operator has decided for an own app. */
async function existingGrant(
  { database }: OpenidServerParts,
  { oidc }: KoaContextWithOIDC,
): Promise<InstanceType<Provider['Grant']> | undefined> {
  const { client, account, session, result } = oidc;
  if (!client || !account) throw new (openidLibrary().errors.InvalidRequest)('nobody is signed in');
  const { Grant } = oidc.provider;
  const known = result?.consent?.grantId ?? session?.grantIdFor(client.clientId);
  const found = known === undefined ? undefined : await Grant.find(known);
  if (found) return found;
  const requested = [...oidc.requestParamOIDCScopes];
  const agreed =
    client['urn:penstock:consent'] === 'never'
      ? requested
      : await consentOf(database, account.accountId, client.clientId);
  if (!agreed || !requested.every((scope) => agreed.includes(scope))) return undefined;
  const grant = new Grant({ accountId: account.accountId, clientId: client.clientId });
  grant.addOIDCScope(requested.join(' '));
  await grant.save();
  return grant;
}
