/** Staging to production by files: renames and values for old records travel, and nothing disappears without a question. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { state } from '../src/cli/state.ts';
import type { Json } from '../test/support/api.ts';
import { expectStatus, testMasterKey } from '../test/support/node.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';

const fields = {
  title: { type: 'String', required: true },
  due: 'Date',
  weight: { type: 'Number', validate: { integer: true } },
} as const;
const conduitOptions = {
  history: true,
  cms: { query: { enabled: true, fields: ['due'] } },
} as const;

describe('a schema on its way from staging to production', () => {
  let staging: TestPlatform;
  let production: TestPlatform;
  let folder: string;
  let task: string;
  let stagingId: string;
  const run = async (
    args: readonly string[],
    { to = production, answer }: { to?: TestPlatform; answer?: string } = {},
  ) => {
    const printed: string[] = [];
    const code = await state(args, {
      environment: { PENSTOCK_URL: to.addresses.admin, MASTER_KEY: testMasterKey },
      isSeen: false,
      print: (text) => void printed.push(text),
      ...(answer !== undefined && { ask: async () => answer }),
    }).catch((error: Error) => {
      printed.push(error.message);
      return 1;
    });
    return { code, printed: printed.join('\n') };
  };
  const change = async (body: object) =>
    expectStatus(
      await staging.admin.patch(`/database/schemas/${stagingId}`, body),
      200,
      'change on staging',
    ).body;
  const exportAll = async () =>
    expect((await run(['export', folder, '--types', 'schemas'], { to: staging })).code).toBe(0);
  const read = async (): Promise<Json> =>
    (await production.client.get(`/database/Task/${task}`)).body;
  const schemaOf = async ({ admin }: TestPlatform): Promise<Json> =>
    (await admin.get('/database/schemas', { query: { search: 'Task' } })).body.schemas.find(
      ({ name }: Json) => name === 'Task',
    );
  const edited = async (edit: (schema: Json) => void): Promise<string> => {
    const exported = (await staging.admin.get('/state/export', { query: { types: 'schemas' } }))
      .body;
    edit(exported.modules.database.schemas.find(({ name }: Json) => name === 'Task'));
    const file = join(folder, '..', 'edited.json');
    await writeFile(file, JSON.stringify({ modules: exported.modules }));
    return file;
  };

  beforeAll(async () => {
    [staging, production] = await Promise.all([createTestPlatform(), createTestPlatform()]);
    folder = join(await temporaryFolder('state'), 'state');
    await Promise.all([staging, production].map(({ admin }) => liftLimits(admin)));
    for (const platform of [staging, production])
      await platform.createSchema({ name: 'Task', fields, conduitOptions });
    stagingId = (await schemaOf(staging))._id;
    const made = await production.client.post('/database/Task', {
      title: 'Pay',
      due: '2026-12-01T00:00:00.000Z',
      weight: 1,
    });
    task = expectStatus(made, 200, 'task').body._id;
    expectStatus(
      await production.client.patch(`/database/Task/${task}`, { due: '2026-12-24T00:00:00.000Z' }),
      200,
      'second version',
    );
  });
  afterAll(async () => {
    await Promise.all([
      staging?.close(),
      production?.close(),
      folder && removeFolder(join(folder, '..')),
    ]);
  });

  it('keeps the data of a renamed field, its history and what clients may ask about', async () => {
    const { due: dueDate, ...rest } = fields;
    await change({ fields: { ...rest, dueDate }, renames: { due: 'dueDate' } });
    await exportAll();
    expect(await readFile(join(folder, 'modules/database/schemas.yaml'), 'utf8')).toContain(
      'due: dueDate',
    );
    const plan = await run(['plan', folder]);
    expect(plan.printed).toContain('due becomes dueDate, with its data');
    expect(plan).toMatchObject({
      code: 2,
      printed: expect.stringContaining('0 to create, 1 to change, 0 to take away.'),
    });
    expect(await run(['apply', folder])).toMatchObject({
      code: 0,
      printed: expect.stringContaining('Applied: 1 document.'),
    });
    expect(await read()).toMatchObject({ dueDate: '2026-12-24T00:00:00.000Z' });
    expect((await schemaOf(production)).droppedFields).toEqual([]);
    const versions = await production.admin.get(`/database/schemas/Task/docs/${task}/history/0`);
    expect(expectStatus(versions, 200, 'history').text).toMatch(/"dueDate" ?: ?"2026-12-01/);
    const found = await production.client.post('/database/Task/query', {
      query: { dueDate: '2026-12-24T00:00:00.000Z' },
    });
    expect(expectStatus(found, 200, 'query').body.count).toBe(1);
    expect((await run(['plan', folder])).printed).toContain('Nothing to do');
    // Both know the same changes by the same ids: their exports are the same.
    const exports = await Promise.all(
      [staging, production].map(({ admin }) =>
        admin.get('/state/export', { query: { types: 'schemas' } }),
      ),
    );
    expect(exports[0]?.text).toBe(exports[1]?.text);
  });

  it('gets there over several renames at once, also over one back and one in a circle', async () => {
    const { due: dueDate, ...rest } = fields;
    await change({ fields: { ...rest, deadline: dueDate }, renames: { dueDate: 'deadline' } });
    await change({
      fields: { ...rest, title: { type: 'String', required: true }, due: dueDate },
      renames: { deadline: 'due' },
    });
    await change({
      fields: { heading: fields.title, due: dueDate, weight: fields.weight },
      renames: { title: 'heading' },
    });
    await change({
      fields: { heading: fields.title, until: dueDate, weight: fields.weight, title: 'String' },
      renames: { due: 'until' },
    });
    await exportAll();
    expect((await run(['apply', folder])).code).toBe(0);
    expect(await read()).toMatchObject({
      heading: 'Pay',
      until: '2026-12-24T00:00:00.000Z',
      title: null,
      weight: 1,
    });
  });

  it('gives old records the values that staging gave them', async () => {
    const stored = (await schemaOf(staging)).fields;
    await change({
      fields: {
        ...stored,
        estimate: { type: 'Number', required: true, validate: { integer: true } },
      },
      backfill: { estimate: 3 },
    });
    await exportAll();
    expect((await run(['apply', folder])).code).toBe(0);
    expect(await read()).toMatchObject({ estimate: 3 });
  });

  it('follows a type that became wider', async () => {
    await change({ fields: { ...(await schemaOf(staging)).fields, weight: 'Number' } });
    await exportAll();
    expect((await run(['apply', folder])).code).toBe(0);
    expect(
      expectStatus(
        await production.client.patch(`/database/Task/${task}`, { weight: 1.5 }),
        200,
        'a fraction',
      ).body.weight,
    ).toBe(1.5);
  });

  it('takes renames and values that somebody writes into the file, once', async () => {
    const file = await edited((schema) => {
      const { until, ...others } = schema.fields;
      schema.fields = {
        ...others,
        finish: until,
        points: { type: 'Number', required: true, validate: { integer: true } },
        note: 'String',
      };
      schema.renames = { until: 'finish' };
      schema.backfill = { points: 5, note: 'none' };
      schema.modelOptions.conduit.cms.query.fields = ['finish'];
    });
    expect((await run(['apply', file])).code).toBe(0);
    expect(await read()).toMatchObject({
      finish: '2026-12-24T00:00:00.000Z',
      points: 5,
      note: 'none',
    });
    await production.client.patch(`/database/Task/${task}`, { note: null });
    expect((await run(['plan', file])).printed).toContain('Nothing to do');
    expect(await read()).toMatchObject({ note: null });
  });

  it('shows the plan and the way out where old records have no value for a required field', async () => {
    const file = await edited((schema) => {
      schema.fields.effort = { type: 'Number', required: true, validate: { integer: true } };
    });
    const plan = await run(['plan', file]);
    expect(plan.code).toBe(2);
    expect(plan.printed).toContain('fields.effort');
    expect(plan.printed).toMatch(
      /It would be refused:\n! modules\.database\.schemas\.0\.fields\.effort: .*backfill\.effort/,
    );
    expect((await run(['apply', file, '--yes'])).code).toBe(1);
    const refused = await production.admin.post(
      '/state/import',
      JSON.parse(await readFile(file, 'utf8')),
    );
    expect(refused).toMatchObject({
      status: 409,
      body: { errors: [{ path: 'modules.database.schemas.0.fields.effort' }] },
    });
  });

  it('asks before a field is taken away, and says of how many records', async () => {
    const file = await edited((schema) => {
      schema.fields = { heading: schema.fields.heading };
      schema.modelOptions.conduit.cms.query.fields = [];
    });
    const plan = await run(['plan', file]);
    expect(plan.printed).toMatch(/- weight is taken away: 1 record with a value/);
    expect(plan.printed).toMatch(/, 1 to change, [1-9]\d* to take away\./);
    const unasked = await run(['apply', file]);
    expect(unasked).toMatchObject({
      code: 1,
      printed: expect.stringMatching(/\d things would be taken away: .*--yes/),
    });
    expect(await run(['apply', file], { answer: 'no' })).toMatchObject({ code: 1 });
    expect(await read()).toMatchObject({ weight: 1.5 });
    const body = JSON.parse(await readFile(file, 'utf8'));
    expect(await production.admin.post('/state/import', body)).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'confirm' }] },
    });
    expect((await run(['apply', file], { answer: 'yes' })).code).toBe(0);
    expect((await schemaOf(production)).droppedFields).toContain('weight');
  });

  it('refuses a new name that is taken here, beside the plan', async () => {
    const { modules } = (
      await production.admin.get('/state/export', { query: { types: 'schemas' } })
    ).body;
    const [schema] = modules.database.schemas;
    schema.migrations = [...schema.migrations, { id: 'elsewhere', renames: { heading: 'weight' } }];
    schema.fields = { weight: { type: 'String', required: true } };
    const planned = await production.admin.post('/state/plan', { modules });
    expect(planned).toMatchObject({
      status: 200,
      body: { obstacles: [{ path: 'modules.database.schemas.0.renames.heading' }] },
    });
    expect((await production.admin.post('/state/import', { modules })).status).toBe(400);
  });
});
