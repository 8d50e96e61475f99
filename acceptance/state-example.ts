/** A platform with one of everything that is state: the music store, permissions, and what else operators set up. */
import { schemas as musicStore } from '../examples/music-store/schemas.ts';
import type { Api } from '../test/support/api.ts';
import { expectStatus } from '../test/support/node.ts';

/** Secrets that `fillState` sets, by their references in an export. */
export const exampleSecrets = {
  'communications.email.transportSettings.smtp.auth.password': 'an-smtp-password',
  'authentication.google.clientSecret': 'a-google-secret',
};

const definitions = [
  // Each needs the other: they can only come together.
  {
    name: 'Folder',
    relations: { owner: ['User'], shelf: ['Shelf'] },
    permissions: { read: ['owner', 'shelf->read'] },
  },
];
const laterDefinitions = [
  {
    name: 'Shelf',
    relations: { owner: ['User', 'Folder'], parent: ['Folder'] },
    permissions: { read: ['owner', 'parent->read'] },
  },
];

const configs = {
  communications: {
    email: {
      sendingDomain: 'example.com',
      transportSettings: { smtp: { auth: { username: 'mailer', password: 'an-smtp-password' } } },
    },
  },
  authentication: {
    teams: { enabled: true },
    google: { enabled: true, clientId: 'app', clientSecret: 'a-google-secret' },
  },
  router: { cors: { origin: 'https://app.example.com' } },
};

export async function fillState(admin: Api): Promise<void> {
  const post = async (path: string, body: unknown) =>
    expectStatus(await admin.post(path, body), 200, path).body;
  for (const [module, config] of Object.entries(configs)) {
    expectStatus(await admin.patch(`/config/${module}`, { config }), 200, module);
  }
  for (const schema of musicStore) await post('/database/schemas', schema);
  const { schemas } = (await admin.get('/database/schemas', { query: { limit: 100 } })).body;
  const user = schemas.find(({ name }: { name: string }) => name === 'User')._id;
  await post(`/database/schemas/${user}/extensions`, {
    fields: {
      nickname: { type: 'String', access: { write: 'user' } },
      favourites: [{ type: 'Relation', model: 'Artist' }],
    },
  });
  await post(`/database/schemas/${user}/indexes`, { indexes: [{ fields: ['nickname'] }] });
  await post('/database/schemas', {
    name: 'Note',
    fields: { text: { type: 'String', required: true } },
    conduitOptions: { authorization: { enabled: true } },
  });
  await post('/database/customEndpoints', {
    name: 'artistByName',
    operation: 0,
    selectedSchemaName: 'Artist',
    inputs: [{ name: 'name', type: 'String', location: 1 }],
    query: {
      AND: [
        { schemaField: 'name', operation: 0, comparisonField: { type: 'Input', value: 'name' } },
      ],
    },
  });
  const [folder] = definitions;
  await post('/authorization/resources', {
    name: 'Shelf',
    relations: { owner: ['User'] },
    permissions: { read: ['owner'] },
  });
  await post('/authorization/resources', folder);
  for (const { name, ...definition } of laterDefinitions) {
    expectStatus(await admin.patch(`/authorization/resources/${name}`, definition), 200, name);
  }
  await post('/authorization/roles', {
    name: 'editor',
    description: 'Edits',
    permissions: ['Album:update'],
  });
  await post('/authorization/rules', {
    resource: 'Album',
    action: 'read',
    role: 'editor',
    conditions: { title: 'Blue Train' },
  });
  await post('/email/templates', {
    name: 'Receipt',
    subject: 'Thank you, {{name}}',
    body: '<p>{{amount}}</p>',
    variables: ['name', 'currency'],
  });
  await post('/admin/forms', {
    name: 'Contact',
    fields: [
      { name: 'email', type: 'email', required: true },
      { name: 'topic', type: 'select', options: ['Records', 'Concerts'], default: 'Records' },
    ],
    forwardTo: ['shop@example.com'],
    emailField: 'email',
    autoReply: true,
  });
  await post('/router/security/client', {
    platform: 'WEB',
    domain: 'app.example.com',
    alias: 'the app',
  });
  const { _id } = await post('/authentication/teams', { name: 'Label' });
  await post('/authentication/teams', { name: 'A/B testers', parentTeam: _id });
}
