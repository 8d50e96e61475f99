/** Functions that nobody calls: events, hooks, schedules, workflows (specification functions.md 5.2, 7 rows 4 to 6, 9). */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { openTestConnection } from '../../test/support/connection.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
const open = { enabled: true, authenticated: false };
const crudOperations = { create: open, read: open, update: open, delete: open };
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  for (const name of ['Order', 'Seen'])
    await platform.createSchema({
      name,
      fields: { total: 'Number', note: 'String', order: 'String', kind: 'String' },
      conduitOptions: { cms: { enabled: true, crudOperations } },
    });
});
afterAll(() => platform.close());
beforeEach(async () => {
  const { functions } = (await platform.admin.get('/functions/', { query: { limit: 200 } })).body;
  for (const { _id } of functions) await platform.admin.delete(`/functions/${_id}`);
});

const system = { rights: 'system' };
const add = (name: string, functionType: string, given: { code: string; inputs: object }) =>
  upload(platform.admin, {
    ...{ name, functionType, functionCode: given.code, inputs: { ...system, ...given.inputs } },
  });
const create = async (total: number, note?: string) =>
  platform.client.post('/database/Order', { total, ...(note !== undefined && { note }) });
const seenList = async (kind: string): Promise<Json[]> => {
  const { body } = await platform.client.get('/database/Seen', {
    query: { limit: 200, sort: 'createdAt' },
  });
  return body.documents.filter((one: { kind: string }) => one.kind === kind);
};
const queueOf = async (id: string, state?: string): Promise<Json[]> =>
  (
    await platform.admin.get(`/functions/${id}/queue`, {
      query: { limit: 200, ...(state !== undefined && { state }) },
    })
  ).body.runs;

/** Turns the clock for one workflow that sleeps: its times are put back. */
async function daysLater(runId: string): Promise<void> {
  const database = await openTestConnection(platform.databaseUrl ?? '');
  await database.query(
    `with s as (update penstock.function_steps set until = until - interval '4 days' where item = $1)
     update penstock.queue_items set due_at = due_at - interval '4 days' where id = $1`,
    [runId],
  );
  await database.close();
}

/** Notes what it was called with. */
const noting = (kind: string, value = 'req.note ?? ""') => `export default async (ctx, req) => {
    await ctx.db.create('Seen', { kind: '${kind}', order: String(req._id ?? req.id ?? ''), note: String(${value}) });
  };`;

describe('functions for events', () => {
  it('run once for each record, by whatever door it came', async () => {
    const one = await add('onCreate', 'event', {
      code: noting('doors'),
      inputs: { event: 'database:create:Order' },
    });
    expectStatus(await create(1, 'client'), 200, 'client');
    const docs = [{ note: 'many 1' }, { note: 'many 2' }];
    expectStatus(await platform.client.post('/database/Order/many', { docs }), 200, 'many');
    const admin = await platform.admin.post('/database/schemas/Order/docs', {
      inputDocument: { note: 'admin' },
    });
    expectStatus(admin, 200, 'admin');
    const endpoint = {
      name: 'makeOrder',
      operation: 1,
      selectedSchemaName: 'Order',
      inputs: [{ name: 'note', type: 'String', location: 0 }],
      assignments: [
        { schemaField: 'note', action: 0, assignmentField: { type: 'Input', value: 'note' } },
      ],
    };
    expectStatus(await platform.admin.post('/database/customEndpoints', endpoint), 200, 'endpoint');
    const made = await platform.client.post('/database/function/makeOrder', { note: 'endpoint' });
    expectStatus(made, 200, 'made');
    await waitFor(async () => (await seenList('doors')).length >= 5, { what: 'five runs' });
    await waitFor(async () => (await queueOf(one._id, 'done')).length === 5);
    expect((await seenList('doors')).map(({ note }) => note).sort()).toEqual([
      ...['admin', 'client', 'endpoint', 'many 1', 'many 2'],
    ]);
  });

  it('are tried again with the same key, in the order of their record, and given up at last', async () => {
    const one = await add('flaky', 'event', {
      code: `export default async (ctx, req) => {
        if (req.total === 13) throw new Error('unlucky');
        if (ctx.attempt < 3 && req.note === 'slow') throw new Error('not yet');
        await ctx.db.create('Seen', { kind: 'flaky', order: ctx.idempotencyKey, note: ctx.attempt + ' ' + ctx.trigger });
      };`,
      inputs: { event: 'database:*', attempts: 3, backoffMs: 10 },
    });
    await create(1, 'slow');
    await create(13);
    // Beside it are those that the function causes itself, of which the sixth is given up too.
    const dead: Json = await waitFor(async () =>
      (await queueOf(one._id, 'dead')).find(({ tries }) => tries[0].error.includes('unlucky')),
    );
    expect(dead.tries.map(({ error }: { error: string }) => error)).toEqual(
      Array.from({ length: 3 }, () => expect.stringContaining('unlucky')),
    );
    await waitFor(async () => (await seenList('flaky')).some(({ note }) => note === '3 event'));
    const executions = await platform.admin.get(`/functions/executions/${one._id}`, {
      query: { success: false },
    });
    expect(executions.text).toContain(dead.tries[0].executionId);
    await platform.admin.patch(`/functions/${one._id}`, { functionCode: noting('mended') });
    const path = `/functions/queue/${dead._id}/retry`;
    expectStatus(await platform.admin.post(path), 200, 'retry');
    await waitFor(async () =>
      (await queueOf(one._id, 'dead')).every(({ _id }) => _id !== dead._id),
    );
    await waitFor(async () => (await seenList('mended')).length >= 1);
  });

  it('stop with their function, and do not double with its changes', async () => {
    const one = await add('counted', 'event', {
      code: noting('counted'),
      inputs: { event: 'database:create:Order' },
    });
    for (let n = 0; n < 3; n += 1)
      await platform.admin.patch(`/functions/${one._id}`, { timeout: 1_000 + n });
    await create(1);
    await waitFor(async () => (await seenList('counted')).length === 1);
    await platform.admin.delete(`/functions/${one._id}`);
    await add('after', 'event', {
      code: noting('after'),
      inputs: { event: 'database:create:Order' },
    });
    await create(2);
    await waitFor(async () => (await seenList('after')).length === 1);
    expect(await seenList('counted')).toHaveLength(1);
  });
});

describe('hooks', () => {
  const hook = (name: string, op: string, code: string, when = 'before') =>
    add(name, 'hook', { code, inputs: { trigger: { schema: 'Order', op, when } } });

  it('change what is written, or refuse it with their message', async () => {
    await hook(
      'checkTotal',
      'create',
      `export default async (ctx, { input, operation }) => {
        if (input.total < 0) throw new Error('A total is not negative');
        if (input.total === 0) ctx.reject(422, 'Nothing to pay', 'ORDER_EMPTY');
        return { ...input, note: operation + ' by ' + ctx.caller.kind };
      };`,
    );
    expect((await create(5)).body).toMatchObject({ total: 5, note: 'create by anonymous' });
    expect(await create(-1)).toMatchObject({
      status: 400,
      body: { code: 'HOOK_REFUSED', message: 'A total is not negative' },
    });
    expect(await create(0)).toMatchObject({ status: 422, body: { code: 'ORDER_EMPTY' } });
    const query = `mutation { postDatabaseOrder(params: {total: -1}) { _id } }`;
    expect((await platform.client.post('/graphql', { query })).text).toContain('not negative');
  });

  it('see the record as it is, before a change and a deletion', async () => {
    await hook(
      'keepPaid',
      'delete',
      `export default async (ctx, { previous }) => { if (previous.note === 'paid') throw new Error('Paid orders stay'); };`,
    );
    const { body: paid } = await create(1, 'paid');
    const { body: free } = await create(1, 'free');
    const refused = await platform.client.delete(`/database/Order/${paid._id}`);
    expect(refused).toMatchObject({ status: 400, body: { message: 'Paid orders stay' } });
    expect((await platform.client.delete(`/database/Order/${free._id}`)).status).toBe(200);
  });

  it('are bounded in time', async () => {
    await hook('hangs', 'create', 'export default () => new Promise(() => undefined);');
    const { status } = await create(1);
    expect(status).toBe(504);
  });

  it('after a write run again when they fail', async () => {
    const one = await hook(
      'afterUpdate',
      'update',
      `export default async (ctx, { operation, id, record }) => {
        if (ctx.attempt === 1) throw new Error('once');
        await ctx.db.create('Seen', { kind: 'afterUpdate', order: id, note: operation + ' ' + record.total });
      };`,
      'after',
    );
    const { body } = await create(1);
    await platform.client.patch(`/database/Order/${body._id}`, { total: 2 });
    await waitFor(async () => (await seenList('afterUpdate')).length === 1);
    expect((await seenList('afterUpdate'))[0]).toMatchObject({ order: body._id, note: 'update 2' });
    const [run] = await waitFor(async () => {
      const done = await queueOf(one._id, 'done');
      return done.length > 0 ? done : undefined;
    });
    expect(run?.tries.map(({ outcome }: { outcome: string }) => outcome)).toEqual([
      ...['failed', 'done'],
    ]);
  });

  it('that cause themselves are ended, and named', async () => {
    const one = await hook(
      'echo',
      'create',
      `export default async (ctx, { record }) => { await ctx.db.create('Order', { total: record.total + 1, note: 'echo' }); };`,
      'after',
    );
    await create(1_000);
    const [dead] = await waitFor(async () => {
      const found = await queueOf(one._id, 'dead');
      return found.length > 0 ? found : undefined;
    });
    expect(dead?.tries[0].error).toContain('echo > echo');
    expect((await queueOf(one._id)).length).toBeLessThan(10);
  });

  it.each([
    ['hook', {}, 'inputs.trigger'],
    ['hook', { trigger: { op: 'create', when: 'before' } }, 'inputs.trigger.schema'],
    ['hook', { trigger: { schema: 'Order', op: 'read', when: 'before' } }, 'inputs.trigger.op'],
    ['event', {}, 'inputs.event'],
    ['cron', {}, 'inputs.cronPattern'],
    ['cron', { event: '* *' }, 'inputs.event'],
    ['event', { event: 'database:created:Order' }, 'inputs.event'],
    ['workflow', { event: 'database:*:Order' }, 'inputs.event'],
    ['cron', { cronPattern: '61 * * * *' }, 'inputs.cronPattern'],
    ['cron', { cronPattern: '* *' }, 'inputs.cronPattern'],
    ['cron', { cronPattern: '* * * * *', timezone: 'Mars/Base' }, 'inputs.timezone'],
  ])('and others are refused when nothing could start them: %s %j', async (kind, inputs, path) => {
    const answer = await platform.admin.post('/functions/upload', {
      ...{ name: 'wrong', functionType: kind, inputs, functionCode: 'return 1' },
    });
    expect(answer.status).toBe(400);
    expect(answer.body.errors.map((problem: { path: string }) => problem.path)).toContain(path);
  });
});

describe('functions by the clock', () => {
  it('run at their times, and say the next five', async () => {
    const one = await add('tick', 'cron', {
      code: `export default async (ctx, req) => { await ctx.db.create('Seen', { kind: 'tick', note: req.trigger + ' ' + req.scheduledAt }); };`,
      inputs: { event: '* * * * * *' },
    });
    await waitFor(async () => (await seenList('tick')).length >= 2, { what: 'two runs' });
    const { body } = await platform.admin.get(`/functions/${one._id}/schedule`);
    expect(body).toMatchObject({ cronPattern: '* * * * * *', timezone: 'UTC' });
    expect(body.next).toHaveLength(5);
    const notes = (await seenList('tick')).map(({ note }) => note);
    expect(new Set(notes).size).toBe(notes.length);
    expect(notes[0]).toMatch(/^cron \d{4}-.*\.000Z$/);
  });
});

describe('workflows', () => {
  it('do each step once, sleep, and wait for events', async () => {
    const one = await add('welcome', 'workflow', {
      code: `export default async (ctx, { input }) => {
        const first = await ctx.step('first', async () => {
          await ctx.db.create('Seen', { kind: 'workflow', note: 'first ' + input.name });
          return { at: 1 };
        });
        await ctx.sleep('nap', 50);
        const event = await ctx.waitForEvent('database:update:Order', { id: input.order, timeout: '1h' });
        const late = await ctx.waitForEvent('nothing:like:this', { timeout: 20 });
        await ctx.step('last', () => ctx.db.create('Seen', { kind: 'workflow', note: 'last ' + event.ids[0] }));
        return { first, late };
      };`,
      inputs: {},
    });
    const { body: order } = await create(1);
    const start = { input: { name: 'Ada', order: order._id }, key: 'ada' };
    const started = await platform.admin.post(`/functions/${one._id}/start`, start);
    expect(started.body).toMatchObject({ started: true, run: { state: 'waiting' } });
    const again = await platform.admin.post(`/functions/${one._id}/start`, start);
    expect(again.body).toMatchObject({ started: false, run: { _id: started.body.run._id } });
    await waitFor(async () => (await seenList('workflow')).length === 1);
    await create(2);
    const path = `/functions/queue/${started.body.run._id}`;
    // It hears of events from the moment at which it waits, for an hour at most.
    await waitFor(async () => {
      const { nextTryAt } = (await platform.admin.get(path)).body;
      return nextTryAt !== null && Date.parse(nextTryAt) > Date.now() + 1_800_000;
    });
    await platform.client.patch(`/database/Order/${order._id}`, { total: 3 });
    const done = await waitFor(async () => {
      const { body } = await platform.admin.get(path);
      return body.state === 'done' ? body : undefined;
    });
    expect(done.tries).toEqual([
      expect.objectContaining({ outcome: 'done', result: { first: { at: 1 }, late: null } }),
    ]);
    expect((await seenList('workflow')).map(({ note }) => note)).toEqual([
      ...['first Ada', `last ${order._id}`],
    ]);
  });

  it('sleep for days, and go on with the version that is in force then, by what its steps have left', async () => {
    const note = (text: string) => `() => ctx.db.create('Seen', { kind: 'days', note: ${text} })`;
    const code = (last: string) => `export default async (ctx) => {
        const kept = await ctx.step('before', async () => { await (${note("'before'")})(); return 'kept'; });
        await ctx.sleep('a while', '3d');
        await ctx.step('after', ${note(`kept + ' by ${last}'`)});
        return '${last}';
      };`;
    const one = await add('patient', 'workflow', { code: code('the first'), inputs: {} });
    const started = await platform.admin.post(`/functions/${one._id}/start`, { key: 'days' });
    const path = `/functions/queue/${started.body.run._id}`;
    await waitFor(async () => (await seenList('days')).length === 1, { what: 'the first step' });
    const asleep = await waitFor(async () => {
      const { body } = await platform.admin.get(path);
      return body.nextTryAt === null ? undefined : body;
    });
    // It waits for its row alone, and no try of it counts.
    const days = (Date.parse(asleep.nextTryAt) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(2.9);
    expect(asleep).toMatchObject({ state: 'waiting', attempts: 0, tries: [] });
    await platform.admin.patch(`/functions/${one._id}`, { functionCode: code('the second') });
    await daysLater(started.body.run._id);
    const done = await waitFor(
      async () => {
        const { body } = await platform.admin.get(path);
        return body.state === 'done' ? body : undefined;
      },
      { timeoutMs: 30_000, what: 'the end of the workflow' },
    );
    expect(done.tries).toEqual([
      expect.objectContaining({ outcome: 'done', result: 'the second' }),
    ]);
    expect((await seenList('days')).map((seen) => seen.note)).toEqual([
      ...['before', 'kept by the second'],
    ]);
  });

  it('go on under another name, and by their own code where another function has their old one', async () => {
    const code = `export default async (ctx) => {
      await ctx.step('first', () => ctx.db.create('Seen', { kind: 'renamed', note: 'first' }));
      const key = await ctx.secrets.get('key');
      const event = await ctx.waitForEvent('database:update:Order', { timeout: '1h' });
      await ctx.step('last', () => ctx.db.create('Seen', { kind: 'renamed', note: 'last ' + key }));
      return event.ids.length;
    };`;
    const one = await add('before', 'workflow', { code, inputs: {} });
    const secret = await platform.admin.put(`/functions/${one._id}/secrets/key`, { value: 'mine' });
    expectStatus(secret, 200, 'secret');
    const started = await platform.admin.post(`/functions/${one._id}/start`, { key: 'once' });
    const path = `/functions/queue/${started.body.run._id}`;
    await waitFor(async () => (await platform.admin.get(path)).body.nextTryAt !== null);
    expectStatus(
      await platform.admin.patch(`/functions/${one._id}`, { name: 'after' }),
      200,
      'name',
    );
    const other = await add('before', 'workflow', {
      code: "export default () => 'another';",
      inputs: {},
    });
    const { body: order } = await create(1);
    await platform.client.patch(`/database/Order/${order._id}`, { total: 2 });
    const done = await waitFor(async () => {
      const { body } = await platform.admin.get(path);
      return body.state === 'done' ? body : undefined;
    });
    expect(done.tries).toEqual([expect.objectContaining({ outcome: 'done', result: 1 })]);
    expect((await seenList('renamed')).map(({ note }) => note)).toEqual(['first', 'last mine']);
    expect(await queueOf(other._id)).toEqual([]);
    // The key of a start is the function's, whatever it is called.
    const again = await platform.admin.post(`/functions/${one._id}/start`, { key: 'once' });
    expect(again.body).toMatchObject({ started: false });
    const fresh = await platform.admin.post(`/functions/${other._id}/start`, { key: 'once' });
    expect(fresh.body).toMatchObject({ started: true });
  });
});
