/** Templates at mail providers, each against a server that speaks its wire form. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../../test/support/servers/fake-service.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let platform: TestPlatform;
let fake: FakeService;
beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

interface Kept {
  subject: string;
  body: string;
}

/** What such a provider keeps, by its own name. */
type Store = Map<string, Kept>;

const mailgun =
  (store: Store): FakeService['answer'] =>
  ({ method, path, form }) => {
    const [, name = '', rest = ''] =
      /^\/v3\/example\.com\/templates(?:\/([^/?]+))?(\/versions)?/.exec(path) ?? [];
    const { name: made = '', description = '', template: body = '', active } = form();
    if (rest !== '') {
      // A version that is not active is kept, and nobody gets it.
      if (active === 'yes') store.set(name, { ...(store.get(name) as Kept), body });
    } else if (method === 'POST') store.set(made, { subject: description, body });
    else if (method === 'PUT')
      store.set(name, { ...(store.get(name) as Kept), subject: description });
    else if (name === '')
      return { body: { items: [...store.keys()].map((one) => ({ name: one })) } };
    const kept = store.get(name);
    if (method === 'GET' && !kept) return { status: 404, body: { message: 'template not found' } };
    return {
      body: { template: { name, description: kept?.subject, version: { template: kept?.body } } },
    };
  };

let made = 0;
const sendgrid =
  (store: Store): FakeService['answer'] =>
  ({ method, path, json }) => {
    const [, id = '', rest] = /^\/v3\/templates(?:\/([^/?]+))?(\/versions)?/.exec(path) ?? [];
    if (method === 'POST' && rest) {
      const { subject, html_content: body } = json();
      store.set(id, { subject, body });
      return { status: 201, body: { id: 'version' } };
    }
    if (method === 'POST') return { status: 201, body: { id: `d-${++made}`, name: json().name } };
    if (id === '') return { body: { result: [...store.keys()].map((one) => ({ id: one })) } };
    const kept = store.get(id);
    return kept
      ? {
          body: {
            id,
            name: 'Offer',
            versions: [{ active: 1, subject: kept.subject, html_content: kept.body }],
          },
        }
      : { status: 404, body: { errors: [{ message: 'not found' }] } };
  };

const ses =
  (store: Store): FakeService['answer'] =>
  ({ method, path, json, text }) => {
    const [, id = ''] = /^\/v2\/email\/templates(?:\/([^/?]+))?/.exec(path) ?? [];
    if (text !== '') {
      const { TemplateName = id, TemplateContent } = json();
      store.set(TemplateName, { subject: TemplateContent.Subject, body: TemplateContent.Html });
      return { body: {} };
    }
    if (id === '')
      return {
        body: { TemplatesMetadata: [...store.keys()].map((TemplateName) => ({ TemplateName })) },
      };
    const kept = store.get(id);
    return kept
      ? { body: { TemplateName: id, TemplateContent: { Subject: kept.subject, Html: kept.body } } }
      : {
          status: 404,
          headers: { 'x-amzn-errortype': 'NotFoundException' },
          body: { message: `no ${method}` },
        };
  };

type Speak = (store: Store) => FakeService['answer'];

/** All of them delete alike. */
const deleting =
  (speak: Speak): Speak =>
  (store) =>
  (request) => {
    if (request.method !== 'DELETE') return speak(store)(request);
    const name = decodeURIComponent(request.path.split('/').at(-1) ?? '');
    return store.delete(name) ? { status: 204 } : { status: 404, body: { message: 'not found' } };
  };

const providers = [
  { transport: 'mailgun', settings: { apiKey: 'k' }, speak: deleting(mailgun) },
  { transport: 'sendgrid', settings: { apiKey: 'k' }, speak: deleting(sendgrid) },
  {
    transport: 'amazonSes',
    settings: { region: 'eu-west-1', accessKeyId: 'A', secretAccessKey: 's' },
    speak: deleting(ses),
  },
];

const use = async (transport: string, settings: object) => {
  const answer = await platform.admin.patch('/config/communications', {
    config: {
      email: {
        transport,
        sendingDomain: 'example.com',
        transportSettings: { [transport]: settings },
      },
      providers: { allowInternal: true },
    },
  });
  expect(answer.status, answer.text).toBe(200);
};

describe.each(providers)('$transport', ({ transport, settings, speak }) => {
  test('a template is brought there, changed there, fetched back, and brought there again', async () => {
    await use(transport, { ...settings, endpoint: fake.url });
    const store: Store = new Map();
    fake.answer = speak(store);
    const name = `Offer-${transport}`;
    const { _id } = (
      await platform.admin.post('/email/templates', { name, subject: 'Hi', body: '<p>{{a}}</p>' })
    ).body;
    const up = await platform.admin.post(`/admin/email/templates/${_id}/upload`);
    expect(up.status, up.text).toBe(200);
    expect(up.body.template).toMatchObject({
      externalManaged: true,
      externalId: up.body.created._id,
    });
    expect([...store.values()]).toEqual([{ subject: 'Hi', body: '<p>{{a}}</p>' }]);
    store.set(up.body.created._id, { subject: 'Hello', body: '<p>{{b}}</p>' });
    const listed = (await platform.admin.get('/email/templates/external')).body;
    expect(listed).toMatchObject({
      count: 1,
      templateDocuments: [{ subject: 'Hello', variables: ['b'] }],
    });
    const synced = await platform.admin.post('/admin/email/sync');
    expect(synced.body).toMatchObject({
      count: 1,
      updated: [{ _id, subject: 'Hello', body: '<p>{{b}}</p>', variables: ['b'] }],
    });
    expect((await platform.admin.put('/email/syncExternalTemplates')).body.count).toBe(0);
    await platform.admin.patch(`/email/templates/${_id}`, { subject: 'Third' });
    expect((await platform.admin.post('/email/templates/upload', { _id })).status).toBe(200);
    expect([...store.values()]).toEqual([{ subject: 'Third', body: '<p>{{b}}</p>' }]);
    await platform.admin.delete(`/email/templates/${_id}`);
  });

  test('a name that is taken asks the provider nothing, and what changes here needs no provider', async () => {
    await use(transport, { ...settings, endpoint: fake.url });
    fake.answer = speak(new Map());
    const template = { name: `Local-${transport}`, subject: 'Hi', body: '<p>x</p>' };
    const { _id } = (await platform.admin.post('/email/templates', template)).body;
    const up = await platform.admin.post(`/email/templates/${_id}/upload`);
    expect(up.body.template).toMatchObject({ externalManaged: true });
    fake.answer = () => ({ status: 503, body: 'away' });
    fake.requests.length = 0;
    expect((await platform.admin.post('/email/templates', template)).status).toBe(409);
    const path = `/email/templates/${_id}`;
    const changed = await platform.admin.patch(path, { subject: 'Second' });
    expect(changed.body.template).toMatchObject({ subject: 'Second', externalManaged: true });
    expect((await platform.admin.delete(path)).body).toMatchObject({ deleted: true });
    expect(fake.requests.filter(({ method }) => method !== 'GET' && method !== 'DELETE')).toEqual(
      [],
    );
  });

  test('what is changed or deleted here is changed and deleted there, once the provider answers', async () => {
    await use(transport, { ...settings, endpoint: fake.url });
    const store: Store = new Map();
    fake.answer = speak(store);
    const template = { name: `Kept-${transport}`, subject: 'Hi', body: '<p>x</p>' };
    const made = await platform.admin.post('/email/templates', {
      ...template,
      externalManaged: true,
    });
    expect(made, made.text).toMatchObject({
      status: 200,
      body: { template: { externalManaged: true, externalProvider: transport } },
    });
    expect([...store.values()]).toEqual([{ subject: 'Hi', body: '<p>x</p>' }]);
    const path = `/email/templates/${made.body._id}`;
    fake.answer = () => ({ status: 503, body: 'away' });
    fake.requests.length = 0;
    expect((await platform.admin.patch(path, { subject: 'Second' })).status).toBe(200);
    await waitFor(async () => fake.requests.length > 0 || undefined);
    fake.answer = speak(store);
    await waitFor(async () => [...store.values()][0]?.subject === 'Second' || undefined);
    // What comes from there does not go back.
    const [name = ''] = store.keys();
    store.set(name, { subject: 'Third', body: '<p>x</p>' });
    fake.requests.length = 0;
    expect((await platform.admin.post('/admin/email/sync')).body.count).toBe(1);
    expect((await platform.admin.get(path)).body.subject).toBe('Third');
    expect(
      (await platform.admin.delete('/email/templates', { query: { ids: made.body._id } })).status,
    ).toBe(200);
    await waitFor(async () => store.size === 0 || undefined);
    expect(fake.requests.filter(({ method }) => method === 'POST' || method === 'PUT')).toEqual([]);
  });

  test('one that is there already is taken over by its id, and none is left here when it is not', async () => {
    await use(transport, { ...settings, endpoint: fake.url });
    const store: Store = new Map([['theirs', { subject: 'Hi', body: '<p>x</p>' }]]);
    fake.answer = speak(store);
    const template = { name: `Theirs-${transport}`, subject: 'Hi', body: '<p>x</p>' };
    const create = (more: object) =>
      platform.admin.post('/email/templates', { ...template, ...more });
    expect(await create({ _id: 'unknown' })).toMatchObject({
      status: 400,
      body: { errors: [{ path: '_id' }] },
    });
    fake.answer = () => ({ status: 401, body: 'Forbidden' });
    expect((await create({ externalManaged: true })).body.code).toBe('PROVIDER_AUTH');
    const list = await platform.admin.get('/email/templates', { query: { search: template.name } });
    expect(list.body.count).toBe(0);
    fake.answer = speak(store);
    const made = await create({ _id: 'theirs', jsonTemplate: { blocks: [1] } });
    expect(made, made.text).toMatchObject({
      status: 200,
      body: { externalId: 'theirs', externalManaged: true, jsonTemplate: '{"blocks":[1]}' },
    });
    expect(store.size).toBe(1);
    // Another provider is told nothing of it.
    await use('mock', {});
    expect((await platform.admin.delete(`/email/templates/${made.body._id}`)).status).toBe(200);
    expect(store.size).toBe(1);
  });

  test('a wrong key and an error page are told, and nothing is changed here', async () => {
    await use(transport, { ...settings, endpoint: fake.url });
    const { _id } = (
      await platform.admin.post('/email/templates', {
        name: `Bad-${transport}`,
        subject: 'Hi',
        body: 'x',
      })
    ).body;
    fake.answer = () => ({ status: 401, body: 'Forbidden' });
    expect((await platform.admin.post(`/email/templates/${_id}/upload`)).body.code).toBe(
      'PROVIDER_AUTH',
    );
    fake.answer = () => ({ status: 502, body: '<html>' });
    expect((await platform.admin.post(`/email/templates/${_id}/upload`)).body.code).toBe(
      'PROVIDER_REFUSED',
    );
    expect((await platform.admin.get(`/email/templates/${_id}`)).body.template).toMatchObject({
      externalManaged: false,
    });
  });
});

test('a provider without templates is 501; an unknown template is 404', async () => {
  const id = '00000000-0000-7000-8000-000000000000';
  expect((await platform.admin.post(`/email/templates/${id}/upload`)).status).toBe(404);
  await platform.admin.patch('/config/communications', {
    config: { email: { transport: 'smtp' } },
  });
  expect((await platform.admin.get('/email/templates/external')).status).toBe(501);
  expect((await platform.admin.post('/admin/email/sync')).status).toBe(501);
});
