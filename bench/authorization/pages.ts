/**
 * Pages of 20 over HTTP where rights are taken away again, where they come down a deep tree, down a wide one, and from what
 * a field of the record names, by any order that has an index, with and without a filter and the exact number of all; beside the same pages of a schema without
 * row authorization in the same process.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type Bench, compare, type Plan, type Side } from '../compare.ts';
import { liftLimit, signUp } from '../dataset.ts';
import { type Platform, startPlatform } from '../platform.ts';
import type { Workload } from '../workloads.ts';
import { verdict, writeSection } from './sections.ts';

const ROWS = 100_000;
/** A page may take so many times what it takes without permissions. */
const GOAL = 3;
const LEVELS = 30;
const FOLDERS = 10_000;
const DENIALS = 10_000;
const PROJECTS = 10_000;

const plainSchema = 'BenchPlain';
/** What a field names. */
const projectSchema = 'BenchProject';

const row = (n: string): string => `('0198f000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))`;

/**
 * Tuples: SQL of type, id and relation of the subject, relation, type and id of the resource for each `n`; of a table, that
 * they lead to its rows is known, as of what the platform writes.
 */
const insert = (count: number, values: string, table?: string): string =>
  `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, row_of)
   select gen_random_uuid(), ${values}, ${table === undefined ? 'null' : `'app."${table}"'::regclass::oid`} from generate_series(1, ${count}) n`;

interface Shape {
  readonly schema: string;
  readonly title: string;
  /** Of the records; the owner counts in each. */
  readonly relations: Readonly<Record<string, unknown>>;
  readonly read: unknown;
  /** Its records have a field that names a project. */
  readonly hasProject?: true;
  /** What the user has, in SQL. */
  readonly tuples: (user: string) => readonly string[];
}

const folders = {
  relations: { folder: ['BenchFolder'] },
  read: ['owner', 'folder->view'],
};

/** Every second record through a group, without those that are taken away again: `denied` says which, in SQL of `n`. */
const excluding = (schema: string, where: string, denied: string): Shape => ({
  schema,
  title: `every second record through a group, without ${DENIALS.toLocaleString('en')} ${where}`,
  relations: { reader: ['User', 'BenchGroup#member'], banned: ['User'] },
  read: { exclusion: { base: ['owner', 'reader'], subtract: ['banned'] } },
  tuples: (user) => [
    insert(1, `'User', '${user}', '', 'member', 'BenchGroup', '${schema}'`),
    insert(
      ROWS / 2,
      `'BenchGroup', '${schema}', 'member', 'reader', '${schema}', ${row('2 * n')}`,
      schema,
    ),
    insert(DENIALS, `'User', '${user}', '', 'banned', '${schema}', ${row(denied)}`, schema),
  ],
});

const shapes: readonly Shape[] = [
  excluding('BenchExcluded', 'that are the first by id', 'n'),
  excluding('BenchSpread', 'here and there', `${ROWS / DENIALS} * n`),
  {
    ...folders,
    schema: 'BenchDeep',
    title: `every second record in a tree of ${LEVELS} levels`,
    tuples: (user) => [
      insert(1, `'User', '${user}', '', 'viewer', 'BenchFolder', 'level1'`),
      insert(
        LEVELS - 1,
        `'BenchFolder', 'level' || n, '', 'parent', 'BenchFolder', 'level' || n + 1`,
      ),
      insert(
        ROWS,
        `'BenchFolder', case when n % 2 = 0 then 'level' || 1 + n / 2 % ${LEVELS} else 'other' end, '', 'folder', 'BenchDeep', ${row('n')}`,
        'BenchDeep',
      ),
    ],
  },
  {
    ...folders,
    schema: 'BenchWide',
    title: `every second record in one of ${(FOLDERS / 2).toLocaleString('en')} folders side by side`,
    tuples: (user) => [
      insert(1, `'User', '${user}', '', 'viewer', 'BenchFolder', 'root'`),
      insert(FOLDERS / 2, `'BenchFolder', 'root', '', 'parent', 'BenchFolder', 'side' || 2 * n`),
      insert(
        ROWS,
        `'BenchFolder', 'side' || 1 + n % ${FOLDERS}, '', 'folder', 'BenchWide', ${row('n')}`,
        'BenchWide',
      ),
    ],
  },
  {
    schema: 'BenchField',
    title: `every second record by a field that names one of ${(PROJECTS / 2).toLocaleString('en')} projects`,
    relations: { project: { from: 'project' } },
    read: ['owner', 'project->read'],
    hasProject: true,
    tuples: (user) => [
      insert(
        PROJECTS / 2,
        `'User', '${user}', '', 'viewer', '${projectSchema}', ${row('2 * n')}`,
        projectSchema,
      ),
    ],
  },
];

const page = 'limit=20';
const kinds: readonly (readonly [title: string, query: string, filter?: object])[] = [
  ['by id', `${page}&count=none`],
  ['by rank', `${page}&count=none&sort=rank`],
  ['newest title first', `${page}&count=none&sort=-title`],
  ['by rank, page 50', `${page}&count=none&sort=rank&skip=980`],
  ['by id, with exact count', page],
  ['by rank, of a filter, no count', `${page}&count=none&sort=rank`, { rank: { $lt: 20_000 } }],
  ['by rank, of a filter, with exact count', `${page}&sort=rank`, { rank: { $lt: 20_000 } }],
];

function workloadOf(shape: Shape, [title, query, filter]: (typeof kinds)[number]): Workload {
  const request = (schema: string): Workload['ours'] =>
    filter
      ? { method: 'POST', path: `/database/${schema}/query?${query}`, body: { query: filter } }
      : { method: 'GET', path: `/database/${schema}?${query}` };
  return {
    name: `${shape.schema} ${title}`,
    title,
    goal: 1 / GOAL,
    ours: request(shape.schema),
    bare: request(plainSchema),
  };
}

async function post({ adminOrigin, masterKey }: Platform, path: string, body: object) {
  const response = await fetch(adminOrigin + path, {
    method: 'POST',
    headers: { masterkey: masterKey, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
}

const fields = {
  title: { type: 'String', index: { type: 'Ascending' } },
  rank: { type: 'Number', required: true, index: { type: 'Ascending' } },
};
const read = { enabled: true, authenticated: true };
const cms = { crudOperations: { read }, query: { enabled: true, fields: ['rank'] }, enabled: true };

async function define(platform: Platform): Promise<void> {
  await post(platform, '/database/schemas', {
    name: plainSchema,
    fields,
    conduitOptions: { cms },
  });
  const resource = (name: string, relations: object, permissions: object, version = 0) =>
    post(platform, '/authorization/resources', { name, relations, permissions, version });
  await resource('BenchGroup', { member: ['User'] }, {});
  await resource(
    'BenchFolder',
    { viewer: ['User'], parent: ['BenchFolder'] },
    { view: ['viewer', 'parent->view'] },
  );
  const records = async (
    schema: string,
    { relations, read: reading, hasProject }: Omit<Shape, 'schema' | 'title' | 'tuples'>,
  ): Promise<void> => {
    const project = { type: 'Relation', model: projectSchema, index: { type: 'Ascending' } };
    await post(platform, '/database/schemas', {
      name: schema,
      fields: hasProject ? { ...fields, project } : fields,
      conduitOptions: { cms, authorization: { enabled: true } },
    });
    const owned = { owner: ['User'], ...relations };
    await resource(schema, owned, { read: reading, edit: ['owner'], delete: ['owner'] }, 1);
  };
  await records(projectSchema, { relations: { viewer: ['User'] }, read: ['owner', 'viewer'] });
  for (const shape of shapes) await records(shape.schema, shape);
}

async function fill(platform: Platform, user: string): Promise<void> {
  const client = new pg.Client((await platform.database()).connection);
  await client.connect();
  try {
    const fillOne = (schema: string, rows: number, [column, value] = ['', '']) =>
      client.query(
        `insert into app."${schema}" (_id, title, rank, "createdAt", "updatedAt", __v${column})
         select ${row('n')}::uuid, 'Title ' || n * 7919 % ${ROWS}, n * 7907 % ${ROWS}, now(), now(), 0${value} from generate_series(1, ${rows}) n`,
      );
    await fillOne(plainSchema, ROWS);
    await fillOne(projectSchema, PROJECTS);
    const project = [', project', `, ${row(`1 + n % ${PROJECTS}`)}::uuid`] as const;
    for (const { schema, hasProject } of shapes)
      await fillOne(schema, ROWS, hasProject && [...project]);
    for (const text of shapes.flatMap((shape) => shape.tuples(user))) await client.query(text);
    // What the server would do in the background meanwhile counts for neither side.
    await client.query('vacuum (analyze)');
    await client.query('checkpoint');
  } finally {
    await client.end();
  }
}

const head = `Measured by \`npm run bench:authorization -- --pages\`, 8 connections, beside the same pages of a schema without row authorization in the same process: ${ROWS.toLocaleString('en')} records each, of which somebody sees about half. Goal: at most ${GOAL} times the time of the page without permissions. \`p50\` in milliseconds; CPU of a page in microseconds: Node + PostgreSQL.

| | p50 | of plain | | CPU | CPU of plain |
| --- | --- | --- | --- | --- | --- |`;

/** Measures, prints a line for each page, and writes the section of the report. */
export async function measureOverPages(
  plan: Plan,
  { report, dry }: { readonly report: URL; readonly dry: boolean },
  print: (line: string) => void,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-pages-'));
  const platform = await startPlatform({ dataDir: join(folder, 'data') });
  try {
    await liftLimit(platform);
    await define(platform);
    const { userId, accessToken } = await signUp(platform);
    await fill(platform, userId);
    const none = { ids: [], sharedIds: [], authorIds: [] };
    const side = (name: Side['name']): Side => ({
      name,
      pid: platform.pid,
      origin: platform.clientOrigin,
      material: { ...none, tokens: [accessToken], userIds: [userId] },
    });
    const { pid: postgresPid } = await platform.database();
    const bench: Bench = { sides: [side('bare'), side('ours')], postgresPid, plan };
    const rows: string[] = [];
    for (const shape of shapes) {
      rows.push(`| **${shape.title}** | | | | | |`);
      const work = kinds.map((kind) => workloadOf(shape, kind));
      for (const { workload, outcome } of await compare(bench, work, () => undefined)) {
        const { bare, ours } = outcome;
        const times = ours.p50 / bare.p50;
        const cpu = (one: typeof ours): string =>
          `${Math.round(one.nodeCpu)} + ${Math.round(one.postgresCpu)}`;
        rows.push(
          `| ${workload.title} | ${ours.p50.toFixed(2)} | ${times.toFixed(1)}x | ${verdict(times <= GOAL)} | ${cpu(ours)} | ${cpu(bare)} |`,
        );
        print(`${shape.schema}: ${rows.at(-1)}`);
      }
    }
    if (!dry) await writeSection(report, '## Pages over HTTP', [head, ...rows].join('\n'));
  } finally {
    await platform.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
