/** A real OpenID provider (the certified `oidc-provider`), in this process, whose users sign in without being asked anything. */
import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';

export interface OpenidUser {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean;
  readonly name?: string;
}

export interface OpenidProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Who signs in next. */
  user: OpenidUser;
  close(): Promise<void>;
}

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const clientId = 'penstock-tests';
const clientSecret = 'a-secret-that-only-tests-know';

export async function startOpenidProvider(
  redirectUris: readonly string[],
  user: OpenidUser,
): Promise<OpenidProvider> {
  let provider: Provider | undefined;
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const state = { user };
  const made = createProvider(issuer, redirectUris, () => state.user);
  provider = made;

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!provider) return void response.writeHead(503).end();
    if (request.url?.startsWith('/interaction/'))
      return finishInteraction(provider, request, response, state.user.sub);
    await provider.callback()(request, response);
  }

  return {
    issuer,
    clientId,
    clientSecret,
    get user() {
      return state.user;
    },
    set user(next) {
      state.user = next;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function createProvider(
  issuer: string,
  redirectUris: readonly string[],
  user: () => OpenidUser,
): Provider {
  return new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [...redirectUris],
        grant_types: ['authorization_code'],
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    cookies: { keys: ['only for tests'] },
    jwks: { keys: [privateKey.export({ format: 'jwk' })] },
    ttl: {
      AccessToken: 300,
      AuthorizationCode: 60,
      Grant: 300,
      IdToken: 300,
      Interaction: 300,
      Session: 300,
    },
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => true },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ ...user(), sub }) }),
  });
}

/** Says yes to whatever is asked: who it is, then what the app may see. */
async function finishInteraction(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
  sub: string,
): Promise<void> {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login')
    return provider.interactionFinished(request, response, { login: { accountId: sub } });
  const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  const grant =
    known ??
    new provider.Grant({
      accountId: session?.accountId ?? sub,
      clientId: String(params.client_id),
    });
  grant.addOIDCScope(String(params.scope));
  await provider.interactionFinished(request, response, {
    consent: { grantId: await grant.save() },
  });
}
