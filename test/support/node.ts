import { randomUUID } from 'node:crypto';
import type { FieldMap, PlatformOptions } from '../../src/data/schema/language/definition.ts';
import { type Answer, type Api, createApi, type Json } from './api.ts';

/** Where a running platform answers. */
export interface NodeAddresses {
  readonly client: string;
  readonly admin: string;
  readonly realtime?: string | undefined;
}

/** Body of `POST /database/schemas`. */
export interface SchemaRequest {
  readonly name: string;
  readonly fields: FieldMap;
  readonly conduitOptions?: PlatformOptions;
  readonly timestamps?: boolean;
}

export interface TestUser {
  readonly email: string;
  readonly password: string;
  readonly userId: string;
  readonly accessToken: string;
  readonly refreshToken: string;
  /** The client surface as this user. */
  readonly api: Api;
}

/** A running platform as tests see it, in this process or in another one. */
export interface TestNode {
  readonly addresses: NodeAddresses;
  readonly masterKey: string;
  readonly adminPassword: string;
  /** The client surface without a credential. */
  readonly client: Api;
  /** The admin surface with the master key. */
  readonly admin: Api;
  /** The admin surface without a credential. */
  readonly adminAnonymous: Api;
  /** Logs the first admin in and answers the token. */
  adminLogin(password?: string): Promise<string>;
  /** Registers (a fresh e-mail unless given) and logs in; from the address `from`, where the platform trusts us as a proxy. */
  registerUser(credentials?: {
    email?: string;
    password?: string;
    from?: string;
  }): Promise<TestUser>;
  /** Logs in a user that exists. */
  login(email: string, password: string, from?: string): Promise<TestUser>;
  /** Creates a schema through the admin surface and answers what it answered. */
  createSchema(definition: SchemaRequest): Promise<Json>;
}

export const testMasterKey = 'test-master-key-0123456789';
export const testAdminPassword = 'Correct-Horse-42';
const userPassword = 'Battery-Staple-17';

/** The answer when it has this status, else an error that shows what came instead. */
export function expectStatus<T>(answer: Answer<T>, status: number, what: string): Answer<T> {
  if (answer.status === status) return answer;
  throw new Error(`${what}: expected ${status}, got ${answer.status} ${answer.text.slice(0, 500)}`);
}

export interface NodeCredentials {
  readonly masterKey: string;
  readonly adminPassword: string;
}

/** Wraps a running platform in the verbs that tests use. */
export function createTestNode(addresses: NodeAddresses, credentials: NodeCredentials): TestNode {
  const client = createApi(addresses.client);
  const adminAnonymous = createApi(addresses.admin);
  const admin = adminAnonymous.with({ masterkey: credentials.masterKey });

  const login = async (email: string, password: string, from?: string): Promise<TestUser> => {
    const answer = expectStatus(
      await unlessBusy(() =>
        client.post('/authentication/local', { email, password }, coming(from)),
      ),
      200,
      'login',
    );
    const { userId, accessToken, refreshToken } = answer.body;
    return {
      email,
      password,
      userId,
      accessToken,
      refreshToken,
      api: client.with({ authorization: `Bearer ${accessToken}` }),
    };
  };

  return {
    addresses,
    ...credentials,
    client,
    admin,
    adminAnonymous,
    login,
    async adminLogin(password = credentials.adminPassword) {
      const answer = await admin.post('/login', { username: 'admin', password });
      return expectStatus(answer, 200, 'admin login').body.token;
    },
    async registerUser({
      email = `user-${randomUUID()}@example.com`,
      password = userPassword,
      from,
    } = {}) {
      const register = () =>
        client.post('/authentication/local/new', { email, password }, coming(from));
      expectStatus(await unlessBusy(register), 200, 'registration');
      return login(email, password, from);
    },
    async createSchema(definition) {
      return expectStatus(
        await admin.post('/database/schemas', definition),
        200,
        `schema ${definition.name}`,
      ).body;
    },
  };
}

/** Passwords of a dozen at once may be too many for a full machine: as a client does, it is tried again. */
async function unlessBusy<T>(ask: () => Promise<Answer<T>>): Promise<Answer<T>> {
  for (let tries = 0; ; tries += 1) {
    const answer = await ask();
    if (answer.status !== 503 || tries === 20) return answer;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

const coming = (from: string | undefined) =>
  from === undefined ? {} : { headers: { 'x-forwarded-for': from } };
