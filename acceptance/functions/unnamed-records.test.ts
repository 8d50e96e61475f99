/** Functions as hooks before and after changes of records that the call does not name, or gives no values of. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from './requests.ts';

type Fields = Parameters<TestPlatform['createSchema']>[0]['fields'];

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  const open = { enabled: true, authenticated: false };
  const options = {
    cms: { enabled: true, crudOperations: { create: open, read: open, delete: open } },
  };
  const schema = (name: string, fields: Fields, conduitOptions: object = options) =>
    platform.createSchema({ name, fields, conduitOptions });
  await schema('Customer', { name: 'String' });
  const customer = { type: 'Relation', model: 'Customer', onDelete: 'cascade' } as const;
  await schema('Invoice', { paid: 'Boolean', customer });
  await schema('Noted', { what: 'String', about: 'String', as: 'String' });
  await schema('Paper', { name: 'String' }, { authorization: { enabled: true } });
});
afterAll(() => platform.close());

const hook = (name: string, trigger: object, functionCode: string) =>
  upload(platform.admin, {
    ...{ name, functionType: 'hook', functionCode, inputs: { rights: 'system', trigger } },
  });
const create = async (schema: string, body: Json): Promise<string> =>
  expectStatus(await platform.client.post(`/database/${schema}`, body), 200, schema).body._id;
const noted = async (what: string): Promise<Json[]> =>
  (await platform.client.get('/database/Noted', { query: { limit: 200 } })).body.documents.filter(
    (one: Json) => one.what === what,
  );

it('a child is kept with its parent by a hook of its own, and one that goes is told of', async () => {
  await hook(
    'keepPaid',
    { schema: 'Invoice', op: 'delete', when: 'before' },
    `export default async (ctx, { id, previous }) => {
      const { db } = ctx.system;
      const [there] = await Promise.all([db.count('Invoice', { _id: id }), db.find('Noted')]);
      await db.create('Noted', { what: 'before', about: id, as: ctx.caller.kind + there });
      if (previous.paid) ctx.reject(409, 'Paid invoices are kept', 'INVOICE_PAID');
    };`,
  );
  await hook(
    'told',
    { schema: 'Invoice', op: 'delete', when: 'after' },
    `export default (ctx, { id }) => ctx.system.db.create('Noted', { what: 'after', about: id });`,
  );
  const one = await create('Customer', { name: 'one' });
  const paid = await create('Invoice', { paid: true, customer: one });
  const answer = await platform.client.delete(`/database/Customer/${one}`);
  expect(answer).toMatchObject({
    ...{ status: 409, body: { code: 'INVOICE_PAID', message: 'Paid invoices are kept' } },
  });
  expect((await platform.client.get(`/database/Invoice/${paid}`)).status).toBe(200);
  expect(await noted('before')).toEqual([]);

  const other = await create('Customer', { name: 'other' });
  const free = await create('Invoice', { paid: false, customer: other });
  expectStatus(await platform.client.delete(`/database/Customer/${other}`), 200, 'delete');
  expect(await noted('before')).toMatchObject([{ about: free, as: 'anonymous1' }]);
  await waitFor(async () => (await noted('after')).some(({ about }) => about === free));
});

it('a hook before an update hears who will own a record, and refuses it', async () => {
  await hook(
    'keepPlace',
    { schema: 'Paper', op: 'update', when: 'before' },
    `export default async (ctx, { id, owner, input, previous }) => {
      if (owner !== undefined && previous.name === 'fixed') throw new Error('It stays: ' + owner);
      await ctx.system.db.create('Noted', { what: 'moved', about: id, as: owner });
    };`,
  );
  const ids = [];
  for (const name of ['free', 'fixed']) {
    const inputDocument = { name };
    const made = await platform.admin.post('/database/schemas/Paper/docs', { inputDocument });
    ids.push(expectStatus(made, 200, name).body._id);
  }
  const to = `Team:${randomUUID()}`;
  const move = (some: unknown[]) =>
    platform.admin.post('/database/schemas/Paper/docs/move', { ids: some, to });
  expect(await move(ids)).toMatchObject({
    ...{ status: 400, body: { code: 'HOOK_REFUSED', message: `It stays: ${to}` } },
  });
  expect(await noted('moved')).toEqual([]);
  expectStatus(await move(ids.slice(0, 1)), 200, 'move');
  expect(await noted('moved')).toMatchObject([{ about: ids[0], as: to }]);
});
