/** Apps that users of this platform sign in to: registered, changed and taken away by operators; also as state. */
import Type, { type Static } from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import {
  placed,
  type StateDocument,
  type StateType,
  touchesNothing,
} from '../../../kernel/state.ts';
import { openidProviderErrors } from '../credential-errors.ts';
import {
  type OpenidClientFields,
  type OpenidClientRow,
  type OpenidClients,
  openidClientKinds,
  openidScopes,
} from '../services/openid/clients.ts';

const ClientId = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._~-]{0,99}$',
  description: 'What the app calls itself; it cannot change',
});
const Address = Type.String({ minLength: 1, maxLength: 2_048 });

const fields = {
  name: Type.String({ minLength: 1, maxLength: 200, description: 'As users read it' }),
  redirectUris: Type.Array(Address, {
    minItems: 1,
    maxItems: 50,
    description: 'Where codes may go; compared letter by letter',
  }),
  postLogoutRedirectUris: Type.Array(Address, {
    maxItems: 50,
    description: 'Where browsers may go after a sign-out',
  }),
  scopes: Type.Array(Type.Enum([...openidScopes]), {
    uniqueItems: true,
    description: 'What the app may ask for; holds `openid`',
  }),
  consent: Type.Union([Type.Literal('ask'), Type.Literal('never')], {
    description: '`never`: an app of your own, that users are not asked about',
  }),
  refreshTokens: Type.Boolean({
    description:
      'Whether the app can renew its tokens for as long as the session of the user lasts',
  }),
} as const;

const ClientKind = Type.Enum([...openidClientKinds], {
  description:
    '`web`: a server that keeps a secret; `spa`: a page; `native`: an app on a device. The last two have no secret',
});

const Client = Type.Object({
  clientId: Type.String(),
  kind: ClientKind,
  ...fields,
  createdAt: Type.String({ format: 'date-time' }),
  updatedAt: Type.String({ format: 'date-time' }),
});

const optional = Type.Partial(
  Type.Object({
    postLogoutRedirectUris: fields.postLogoutRedirectUris,
    scopes: fields.scopes,
    consent: fields.consent,
    refreshTokens: fields.refreshTokens,
  }),
).properties;

/** An app as a state document has it. Secrets belong to one installation, and stay out. */
const ClientDocument = Type.Object({
  clientId: ClientId,
  name: fields.name,
  kind: ClientKind,
  redirectUris: fields.redirectUris,
  ...optional,
});

/** What is not said is the least that works. */
const completed = (given: Static<typeof ClientDocument>): OpenidClientFields => ({
  postLogoutRedirectUris: [],
  scopes: [...openidScopes],
  consent: 'ask',
  refreshTokens: true,
  ...given,
});

const path = '/authentication/openid/clients';
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const params = Type.Object({
  clientId: Type.String({ minLength: 1, maxLength: 100, description: 'Id of the app' }),
});
const unknown = openidProviderErrors.OPENID_CLIENT_NOT_FOUND;
const dayMs = 24 * 60 * 60_000;

export const openidClientOperations = (clients: OpenidClients): readonly Operation[] => [
  listOperation(clients),
  createOperation(clients),
  updateOperation(clients),
  rotateOperation(clients),
  removeOperation(clients),
];

const listOperation = (clients: OpenidClients): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openidClients.list',
    method: 'GET',
    path,
    input: {},
    output: Type.Object({ clients: Type.Array(Client), count: Type.Integer() }),
    summary: 'List the apps that users sign in to',
    async handler() {
      const list = (await clients.list()).map(onWire);
      return { clients: list, count: list.length };
    },
  });

const createOperation = (clients: OpenidClients): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openidClients.create',
    method: 'POST',
    path,
    answersSecret: true,
    idempotency: false,
    input: { body: ClientDocument },
    output: Type.Object({
      ...Client.properties,
      clientSecret: Type.Optional(Type.String({ description: 'Of `web` alone; shown this once' })),
    }),
    errors: [openidProviderErrors.OPENID_CLIENT_EXISTS],
    summary: 'Register an app that users sign in to (OpenID Connect)',
    description:
      'It works while `openidProvider.enabled` is on. What is left out: every scope, users are asked, tokens can be renewed.',
    async handler({ caller }, { body }) {
      const { clientSecret, ...client } = await clients.create(caller, completed(body));
      return { ...onWire(client), ...(clientSecret === undefined ? {} : { clientSecret }) };
    },
  });

const updateOperation = (clients: OpenidClients): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openidClients.update',
    method: 'PATCH',
    path: `${path}/:clientId`,
    input: { params, body: Type.Partial(Type.Object(fields)) },
    output: Client,
    errors: [unknown],
    summary: 'Change an app that users sign in to',
    description:
      'What is left out stays. The change holds for the next request of the app. Fewer scopes, or users who are asked from now on, end the tokens that it has.',
    handler: async ({ caller }, { params: { clientId }, body }) =>
      onWire(await clients.update(caller, clientId, body)),
  });

const rotateOperation = (clients: OpenidClients): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openidClients.rotateSecret',
    method: 'POST',
    path: `${path}/:clientId/secret`,
    answersSecret: true,
    destructive: true,
    idempotency: false,
    input: {
      params,
      body: Type.Object({
        keepPreviousMs: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 90 * dayMs,
            description:
              'How long secrets until now stay good; a day unless given. 0: they end now',
          }),
        ),
      }),
    },
    output: Type.Object({
      clientSecret: Type.String({ description: 'Shown this once' }),
    }),
    errors: [unknown],
    summary: 'Give an app that users sign in to a new secret',
    handler: async ({ caller }, { params: { clientId }, body: { keepPreviousMs = dayMs } }) => ({
      clientSecret: await clients.rotateSecret(caller, clientId, keepPreviousMs),
    }),
  });

const removeOperation = (clients: OpenidClients): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openidClients.remove',
    method: 'DELETE',
    path: `${path}/:clientId`,
    input: { params },
    output: TextResult,
    errors: [unknown],
    summary: 'Take an app away that users sign in to',
    description: 'Its tokens end at once.',
    async handler({ caller }, { params: { clientId } }) {
      await clients.remove(caller, clientId);
      return 'App removed';
    },
  });

const onWire = ({ createdAt, updatedAt, ...client }: OpenidClientRow) => ({
  ...client,
  redirectUris: [...client.redirectUris],
  postLogoutRedirectUris: [...client.postLogoutRedirectUris],
  scopes: [...client.scopes],
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

/* Apps as state, by their ids. One that an import makes has no secret yet; giving it a new one shows it. */

const documentOf = (client: OpenidClientFields): StateDocument => ({
  clientId: client.clientId,
  name: client.name,
  kind: client.kind,
  redirectUris: [...client.redirectUris],
  postLogoutRedirectUris: [...client.postLogoutRedirectUris],
  scopes: [...client.scopes],
  consent: client.consent,
  refreshTokens: client.refreshTokens,
});

export const openidClientState = (database: Database, clients: OpenidClients): StateType => ({
  module: 'authentication',
  type: 'openidClients',
  priority: 37,
  document: ClientDocument,
  keyOf: ({ clientId }) => String(clientId),
  touches: touchesNothing,
  export: async () => (await clients.list()).map(documentOf),
  async complete(_caller, documents) {
    const done: StateDocument[] = [];
    for (const { document, place } of documents)
      done.push(
        await placed(place, async () =>
          documentOf(await clients.checked(completed(document as Static<typeof ClientDocument>))),
        ),
      );
    return done;
  },
  apply: (caller, changes) =>
    database.transaction(async () => {
      for (const { key, before, after } of changes)
        await applyOne(clients, caller, key, {
          before: before as OpenidClientFields | undefined,
          after: after as OpenidClientFields | undefined,
        });
    }),
});

/** Another kind means other rules and another kind of secret: the app is made anew. */
async function applyOne(
  clients: OpenidClients,
  caller: Caller,
  key: string,
  {
    before,
    after,
  }: { before?: OpenidClientFields | undefined; after?: OpenidClientFields | undefined },
): Promise<void> {
  const sameKind = before !== undefined && before.kind === after?.kind;
  if (sameKind && after) {
    const { clientId: _, kind: __, ...change } = after;
    await clients.update(caller, key, change);
    return;
  }
  if (before) await clients.remove(caller, key);
  if (after) await clients.create(caller, after);
}
