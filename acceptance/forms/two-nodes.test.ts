/** A form that is made on one node takes submissions on the other at once, and one that is deleted takes none. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { createForm, submissionsOf } from './requests.ts';

await describeWithPostgres15('a form on two nodes', () => {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis: false });
  }, 180_000);
  afterAll(() => nodes?.close());

  it('holds for making, changing, switching off and deleting', async () => {
    const { first, second } = nodes;
    const values = { email: 'a@b.cd', message: 'x' };
    for (let round = 0; round < 5; round++) {
      const form = await createForm(first.admin, { name: `Shared ${round}` });
      const path = `/forms/submit/${form._id}`;
      for (const node of [second, first])
        expect((await node.client.post(path, values)).status).toBe(200);
      const address = `/admin/forms/${form._id}`;
      await first.admin.put(address, { fields: [{ name: 'other', type: 'text', required: true }] });
      expect((await second.client.post(path, values)).body.errors[0].field).toBe('other');
      await second.admin.put(address, { enabled: false });
      for (const node of [first, second])
        expect((await node.client.post(path, { other: 'x' })).status).toBe(404);
      await first.admin.put(address, { enabled: true });
      expect((await second.client.post(path, { other: 'x' })).status).toBe(200);
      expect(await submissionsOf(second.admin, form._id)).toHaveLength(3);
      await second.admin.delete(address);
      for (const node of [first, second])
        expect((await node.client.post(path, { other: 'x' })).status).toBe(404);
    }
  });
});
