/** What the guide on filtering says: its two calls as they stand there, and every operator of its table. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { textOfGuide } from './code.ts';

let platform: TestPlatform;
let guide: string;
let task: string;
beforeAll(async () => {
  guide = await textOfGuide('pagination');
  platform = await createTestPlatform();
  await platform.createSchema({ name: 'Project', fields: { name: 'String' } });
  const fields = {
    title: 'String',
    status: 'String',
    priority: 'Number',
    project: { type: 'Relation', model: 'Project' },
  } as const;
  await platform.createSchema({ name: 'Task', fields });
  const { body } = await platform.admin.get('/database/schemas?search=Task');
  task = body.schemas[0]._id;
  const { _id: project } = (await platform.client.post('/database/Project', { name: 'Home' })).body;
  for (const [title, status, priority] of [
    ['Buy apples', 'open', 1],
    ['Wash apples', 'waiting', 2],
    ['Eat apples', 'done', 3],
  ])
    await platform.client.post('/database/Task', { title, status, priority, project });
});
afterAll(() => platform?.close());

/** The calls of the guide that change the schema and that ask it. */
const shown = (method: string): { readonly path: string; readonly body: Json } => {
  const [, path = '', body = ''] =
    new RegExp(`^\`\`\`http\\n${method} (\\S+|\\S+<[^>]+>)\\n(.*)\\n\`\`\`$`, 'm').exec(guide) ??
    [];
  return { path: path.replace(/<[^>]+>/, task), body: JSON.parse(body) };
};
const setQuery = async (query: object) =>
  expectStatus(
    await platform.admin.patch(`/database/schemas/${task}`, { conduitOptions: { cms: { query } } }),
    200,
    'schema',
  );
const titles = async (query: object): Promise<string | number> => {
  const { status, body } = await platform.client.post('/database/Task/query?sort=title', { query });
  return status === 200 ? body.documents.map(({ title }: Json) => title).join() : status;
};

it('its calls open a schema for filters, and find what they say', async () => {
  const opened = shown('PATCH');
  expectStatus(await platform.admin.patch(opened.path, opened.body), 200, 'schema');
  const asked = shown('POST');
  const { body } = expectStatus(await platform.client.post(asked.path, asked.body), 200, 'query');
  expect(body).toMatchObject({ documents: [{ title: 'Wash apples', project: { name: 'Home' } }] });
  expect(await titles({ 'project.name': 'Home', status: 'open' })).toBe('Buy apples');
  expect(await titles({ createdAt: { $gt: '2020-01-01' } })).toBe(400);
});

it('its table names every operator, and those that a schema must list', async () => {
  const operand = (name: string): unknown => {
    if (['$in', '$nin'].includes(name)) return ['x'];
    return name === '$exists' ? true : 'x';
  };
  const rows = [...guide.matchAll(/^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$/gm)];
  const operators = rows.flatMap(([, names = '', allowed = '']) =>
    [...names.matchAll(/`(\$\w+)`/g)].map(([, name = '']) => ({ name, allowed })),
  );
  const { message } = (
    await platform.client.post('/database/Task/query', { query: { title: { $nonsense: 1 } } })
  ).body;
  const combine = ['$and', '$or', '$nor', '$not'];
  const known = [...message.matchAll(/\$\w+/g)].map(String).filter((name) => name !== '$nonsense');
  expect(operators.map(({ name }) => name).sort()).toEqual(
    [...new Set([...known, ...combine])].sort(),
  );
  const fields = ['title'];
  for (const { name, allowed } of operators.filter(({ name }) => !combine.includes(name))) {
    await setQuery({ enabled: true, fields });
    const condition = { title: { [name]: operand(name) } };
    const isListed = allowed === 'when listed';
    expect([name, typeof (await titles(condition))]).toEqual([
      name,
      isListed ? 'number' : 'string',
    ]);
    await setQuery({ enabled: true, fields, operators: [name] });
    expect([name, typeof (await titles(condition))]).toEqual([name, 'string']);
  }
});

it('texts are found as the table says', async () => {
  const operators = ['$ilike', '$like', '$regex', '$search'];
  await setQuery({ enabled: true, fields: ['title'], operators });
  expect(await titles({ title: { $ilike: '%APPLE%' } })).toBe('Buy apples,Eat apples,Wash apples');
  expect(await titles({ title: { $like: '%APPLE%' } })).toBe('');
  expect(await titles({ title: { $regex: '^buy', $options: 'i' } })).toBe('Buy apples');
  expect(await titles({ title: { $search: 'apples -wash' } })).toBe('Buy apples,Eat apples');
});

it('a query costs what the guide says', async () => {
  const costs = async (query: object, cost: number) => {
    const cms = { fields: ['status', 'project.name', 'title'], operators: ['$eq', '$in', '$like'] };
    for (const [maxCost, answer] of [
      [cost, 'string'],
      [cost - 1, 'number'],
    ] as const) {
      if (maxCost === 0) continue;
      await setQuery({ enabled: true, ...cms, maxCost });
      expect([query, maxCost, typeof (await titles(query))]).toEqual([query, maxCost, answer]);
    }
  };
  await costs({ status: 'open' }, 1);
  await costs({ 'project.name': 'Home' }, 1 + 3);
  await costs({ title: { $like: 'x%' } }, 1 + 5);
  await costs({ status: { $in: Array.from({ length: 250 }, (_, i) => `s${i}`) } }, 1 + 2);
});
