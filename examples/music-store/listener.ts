/** The signed-in user in whose name rows are written and read. */
import { randomBytes, randomUUID } from 'node:crypto';
import { type Api, createApi } from './api.ts';

export interface Listener {
  readonly email: string;
  /** Sends the user's access token. */
  readonly api: Api;
  signOut(): Promise<void>;
}

interface TokenPair {
  readonly accessToken: string;
  readonly refreshToken: string;
}

/** Registers a new user with a random password and signs in. */
export async function signInAsNewListener(clientOrigin: string): Promise<Listener> {
  const anonymous = createApi(clientOrigin);
  const credentials = {
    email: `listener-${randomUUID().slice(0, 8)}@music-store.example`,
    password: randomBytes(18).toString('base64url'),
  };
  await anonymous.post('/authentication/local/new', credentials);
  const { accessToken } = await anonymous.post<TokenPair>('/authentication/local', credentials);
  const api = createApi(clientOrigin, { authorization: `Bearer ${accessToken}` });
  return {
    email: credentials.email,
    api,
    async signOut() {
      await api.post('/authentication/logout', {});
    },
  };
}
