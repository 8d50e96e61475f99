// Rows out of a schema and into it, as an admin does it over HTTP.
import { request } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

describe('rows in any number', () => {
  let platform: TestPlatform;
  let sql: pg.Client;
  beforeAll(async () => {
    platform = await createTestPlatform();
    sql = new pg.Client(platform.databaseUrl);
    await sql.connect();
    const fields = {
      title: { type: 'String', required: true },
      rank: { type: 'Number', validate: { min: 0 } },
      tags: ['String'],
      extra: 'JSON',
      due: 'Date',
      secret: { type: 'String', select: false },
    } as const;
    for (const name of ['Row', 'Copy', 'Upsert', 'Progress', 'Parallel'])
      await platform.createSchema({ name, fields });
    const code = { type: 'String', required: true, unique: true } as const;
    for (const name of ['Atomic', 'Loose'])
      await platform.createSchema({ name, fields: { ...fields, code } });
  });
  afterAll(async () => {
    await sql.end();
    await platform.close();
  });

  const place = (name: string): string => `/database/schemas/${name}/docs`;
  const csv = { headers: { 'content-type': 'text/csv' } };
  const jsonl = { headers: { 'content-type': 'application/jsonl' } };
  const put = (name: string, body: string, query = '', options = jsonl) =>
    platform.admin.post(`${place(name)}/import${query}`, body, options);
  const get = (name: string, query = '') => platform.admin.get(`${place(name)}/export${query}`);
  const lines = (rows: readonly object[]): string =>
    rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  const stored = async (name: string, query: Json = {}): Promise<Json[]> =>
    (await platform.admin.post(`/database/schemas/${name}/query?limit=1000`, { query })).body
      .documents;
  const eventsOf = async (name: string): Promise<string[]> => {
    const { rows } = await sql.query(
      `select operation || ':' || id as event from penstock.outbox, unnest(ids) with ordinality i(id, place)
        where schema = $1 and topic not like '%:schema' order by seq, place`,
      [name],
    );
    return rows.map(({ event }) => event);
  };

  it('go out and come back as they were, as JSON lines and as CSV', async () => {
    const rows = [
      {
        title: 'a,"b"\n',
        rank: 1.5,
        tags: ['p', 'q,"'],
        extra: { deep: [1, null] },
        due: '2026-01-31T00:00:00.000Z',
        secret: 's',
      },
      { title: '', extra: 'text', tags: [] },
      { title: 'é\u{1f600}', rank: null },
    ];
    expect((await put('Row', lines(rows))).body).toEqual({
      read: 3,
      created: 3,
      updated: 0,
      failed: 0,
      dryRun: false,
      errors: [],
      truncated: false,
    });
    const all = await stored('Row');
    const out = await get('Row');
    expect(out.headers.get('content-type')).toBe('application/jsonl; charset=utf-8');
    expect(out.headers.get('content-disposition')).toBe('attachment; filename="Row.jsonl"');
    expect(
      out.text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual(all);
    expect(out.text).not.toContain('secret');

    const asCsv = await get('Row', '?format=csv&delimiter=semicolon');
    expect(asCsv.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(asCsv.text.split('\r\n')[0]).toBe(
      '_id;title;rank;tags;extra;due;createdAt;updatedAt;__v',
    );
    expect((await put('Copy', asCsv.text, '?delimiter=semicolon', csv)).body).toMatchObject({
      created: 3,
      failed: 0,
    });
    expect(await stored('Copy')).toEqual(all);
    expect((await get('Copy')).text).toBe(out.text);
    expect(await eventsOf('Copy')).toEqual(all.map(({ _id }) => `insert:${_id}`));
  });

  it('go out as they are asked for', async () => {
    const query = encodeURIComponent(JSON.stringify({ rank: { $gt: 1 } }));
    expect((await get('Row', `?select=rank,title&query=${query}`)).text).toBe(
      '{"title":"a,\\"b\\"\\n","rank":1.5}\n',
    );
    expect((await get('Row', '?format=csv&select=rank,extra&sort=-rank')).text).toBe(
      'rank,extra\r\n,"""text"""\r\n,\r\n1.5,"{""deep"":[1,null]}"\r\n',
    );
    expect((await get('Loose', '?format=csv&select=title')).text).toBe('title\r\n');
    expect((await get('Loose')).text).toBe('');
  });

  it.each([
    ['Row', '?select=secret', 400, 'select'],
    ['Row', '?select=nonsense', 400, 'select'],
    ['Row', '?sort=secret', 400, 'sort'],
    ['Row', '?query={', 400, 'query'],
    ['Row', '?query={"secret":"s"}', 400, 'query.secret'],
    ['Row', '?format=xml', 400, 'format'],
    ['Row', '?delimiter=|', 400, 'delimiter'],
    ['None', '', 404, undefined],
  ])('do not go out of %s with %s', async (name, query, status, path) => {
    expect(await get(name, query)).toMatchObject({
      status,
      body: path === undefined ? {} : { errors: [{ path }] },
    });
  });

  it('come in all or not at all, and every problem has its line, field and rule', async () => {
    const { body: first } = await platform.admin.post(place('Atomic'), {
      inputDocument: { title: 'there', code: 'taken' },
    });
    const rows = [
      { title: 'ok', code: '1' },
      { rank: 1, code: '2' },
      { title: 'x', rank: -1, code: '3' },
      { title: 'y', nonsense: 1, code: '4' },
      { title: 'z', code: 'taken' },
    ];
    const answer = await put(
      'Atomic',
      `${lines(rows)}{broken\n${lines([
        { _id: 'x', title: 't', code: '5' },
        { _id: first._id, title: 't', code: '6' },
      ])}`,
    );
    expect(answer).toMatchObject({
      status: 400,
      body: { code: 'IMPORT_REFUSED', message: 'Nothing was stored: 7 of 8 rows are not valid' },
    });
    expect(answer.body.errors.map(({ path, rule }: Json) => `${path} ${rule}`)).toEqual([
      'lines.2.title required',
      'lines.3.rank min',
      'lines.4.nonsense field',
      'lines.5.code unique',
      'lines.6 json',
      'lines.7._id format',
      'lines.8._id unique',
    ]);
    expect(await stored('Atomic')).toHaveLength(1);
    expect(await eventsOf('Atomic')).toHaveLength(1);
    // Also when the problem stands far behind what was stored already.
    const many = Array.from({ length: 1_200 }, (_, i) => ({ title: String(i), code: String(i) }));
    expect((await put('Atomic', lines([...many, { code: 'last' }]))).body.errors).toMatchObject([
      { path: 'lines.1201.title' },
    ]);
    expect(await stored('Atomic')).toHaveLength(1);
    expect(await eventsOf('Atomic')).toHaveLength(1);
  });

  it('come in as far as they are valid when that is asked for', async () => {
    const rows = Array.from({ length: 1_100 }, (_, i) => ({
      ...(i % 10 !== 3 && { title: String(i) }),
      code: `c${i % 550}`,
    }));
    const { status, body } = await put('Loose', lines(rows), '?atomic=false');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      read: 1_100,
      created: 495,
      updated: 0,
      failed: 605,
      truncated: true,
    });
    expect(body.errors).toHaveLength(100);
    expect(body.errors[0]).toEqual({
      line: 4,
      field: 'title',
      rule: 'required',
      message: 'is required',
    });
    expect(await stored('Loose')).toHaveLength(495);
    expect(await eventsOf('Loose')).toHaveLength(495);
  });

  it('change what is there when that is asked for, and leave alone what a row does not name', async () => {
    const [a, b] = (
      await platform.admin.post(`${place('Upsert')}/many`, {
        inputDocuments: [
          { title: 'a', rank: 1 },
          { title: 'b', rank: 2 },
        ],
      })
    ).body.docs;
    const given = '0190a0b0-0000-7000-8000-00000000000a';
    const text = `_id,rank,title\n${a._id},10,\n${given},30,new\n${b._id.toUpperCase()},,b2\n,40,fresh\n${given},31,twice\n`;
    const refusedTitle = await put(
      'Upsert',
      `_id,title,rank\n${a._id},"",1\n`,
      '?mode=upsert&dryRun=true',
      csv,
    );
    expect(refusedTitle.body).toMatchObject({ updated: 1, dryRun: true });
    expect((await put('Upsert', text, '?mode=upsert', csv)).body).toMatchObject({
      read: 5,
      created: 2,
      updated: 3,
      failed: 0,
    });
    const found = (await stored('Upsert')).map(({ title, rank, __v }) => ({ title, rank, __v }));
    expect(found).toHaveLength(4);
    expect(found).toEqual(
      expect.arrayContaining([
        { title: 'a', rank: 10, __v: 1 },
        { title: 'b2', rank: null, __v: 1 },
        { title: 'twice', rank: 31, __v: 1 },
        { title: 'fresh', rank: 40, __v: 0 },
      ]),
    );
    expect((await put('Upsert', `_id,title\n${a._id},x\n`, '', csv)).body.errors).toMatchObject([
      { path: 'lines.2._id', rule: 'unique' },
    ]);
  });

  it('can be tried without a trace', async () => {
    const before = await stored('Upsert');
    const { status, body } = await put(
      'Upsert',
      lines([{ title: 'x' }, { rank: 1 }]),
      '?dryRun=true',
    );
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ read: 2, created: 1, failed: 1, dryRun: true }),
    ]);
    expect(await stored('Upsert')).toEqual(before);
  });

  it('keep the times that they bring', async () => {
    const times = { createdAt: '2001-02-03T04:05:06.789Z', updatedAt: '2002-02-03T04:05:06.789Z' };
    await put(
      'Copy',
      lines([
        { title: 'old', ...times },
        { title: 'young' },
        { title: 'wrong', createdAt: 'yesterday' },
      ]),
      '?atomic=false',
    );
    const [old, young] = await stored('Copy', { title: { $in: ['old', 'young', 'wrong'] } });
    expect(old).toMatchObject({ title: 'old', ...times });
    expect(Date.parse(young.createdAt)).toBeGreaterThan(Date.parse('2020-01-01'));
  });

  it.each([
    ['Row', '', 'title,nonsense\nx,1\n', csv, 400, 'columns.1'],
    ['Row', '', '', csv, 400, 'body'],
    ['Row', '?owner=User:someone', 'title\nx\n', csv, 400, 'owner'],
    ['Row', '?mode=replace', 'title\nx\n', csv, 400, 'mode'],
    ['Row', '?atomic=maybe', 'title\nx\n', csv, 400, 'atomic'],
    [
      'Row',
      '',
      'title\nx\n',
      { headers: { 'content-type': 'application/octet-stream' } },
      400,
      'format',
    ],
    ['Row', '', 'title\nx\n', { headers: { 'content-type': 'application/json' } }, 415, undefined],
    ['None', '', 'title\nx\n', csv, 404, undefined],
    ['User', '', 'email\nx@y.example\n', csv, 404, undefined],
  ])('do not come into %s with %s %j', async (...[name, query, body, options, status, path]) => {
    expect(await put(name, body, query, options)).toMatchObject({
      status,
      body: path === undefined ? {} : { errors: [{ path }] },
    });
  });

  it('belong to whom the import says, or to nobody', async () => {
    await platform.createSchema({
      name: 'Mine',
      fields: { title: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
    await put('Mine', lines([{ title: 'a' }, { title: 'b' }]), `?owner=User:${ann.userId}`);
    await put('Mine', lines([{ title: 'c' }]));
    const seenBy = async (user: typeof ann) =>
      (await user.api.get('/database/Mine')).body.documents.map(({ title }: Json) => title);
    expect([await seenBy(ann), await seenBy(bob)]).toEqual([['a', 'b'], []]);
    expect(await put('Mine', lines([{ title: 'd' }]), '?owner=nobody')).toMatchObject({
      status: 400,
    });
    expect(await stored('Mine')).toHaveLength(3);
  });

  it('are for admins', async () => {
    expect((await platform.adminAnonymous.get(`${place('Row')}/export`)).status).toBe(401);
    expect((await platform.adminAnonymous.post(`${place('Row')}/import`, '{}', jsonl)).status).toBe(
      401,
    );
    expect((await platform.client.get(`${place('Row')}/export`)).status).toBe(404);
  });

  const upload = (name: string, query: string, headers: Record<string, string> = {}) =>
    request(`${platform.addresses.admin}${place(name)}/import${query}`, {
      method: 'POST',
      headers: { masterkey: platform.masterKey, 'content-type': 'application/jsonl', ...headers },
    });

  it('come in while they are sent, a hundred thousand of them, and tell how far they are', async () => {
    const sending = upload('Progress', '?atomic=false', { accept: 'application/x-ndjson' });
    const answered = new Promise<{ progress: Json[]; result: Json; type: string | undefined }>(
      (resolve, reject) => {
        sending.on('error', reject).on('response', async (response) => {
          let pending = '';
          const progress: Json[] = [];
          for await (const chunk of response.setEncoding('utf8')) {
            pending += chunk;
            const told = pending.split('\n');
            pending = told.pop() ?? '';
            progress.push(...told.map((line) => JSON.parse(line)));
            told.length && seen.push(...progress.map((line) => line.progress?.created ?? 0));
          }
          const { result } = progress.pop() ?? {};
          resolve({ progress, result, type: response.headers['content-type'] });
        });
      },
    );
    const seen: number[] = [];
    const block = (from: number): string =>
      lines(Array.from({ length: 1_000 }, (_, i) => ({ title: `row ${from + i}`, rank: i })));
    for (let i = 0; i < 100; i++) {
      if (!sending.write(block(i * 1_000)))
        await new Promise((resolve) => sending.once('drain', resolve));
      // The rest is sent when the server has told that it stored some: it cannot have waited for the whole.
      if (i === 49) await waitFor(() => seen.some((created) => created > 0));
    }
    sending.end();
    const { progress, result, type } = await answered;
    expect(type).toBe('application/x-ndjson; charset=utf-8');
    expect(progress.length).toBeGreaterThan(0);
    expect(result).toMatchObject({ read: 100_000, created: 100_000, failed: 0 });
    const { rows } = await sql.query(
      `select count(*)::integer as n, count(distinct id)::integer as ids from penstock.outbox, unnest(ids) id where schema = 'Progress' and topic not like '%:schema'`,
    );
    expect(rows).toEqual([{ n: 100_000, ids: 100_000 }]);
  });

  it('go out at the pace of the reader, those of one moment', async () => {
    const open = async (): Promise<number> =>
      (
        await sql.query(
          `select count(*)::integer as n from pg_stat_activity
           where state = 'idle in transaction' and query like 'fetch%' and state_change < clock_timestamp() - interval '300 ms'`,
        )
      ).rows[0].n;
    const reading = request(`${platform.addresses.admin}${place('Progress')}/export`, {
      headers: { masterkey: platform.masterKey },
    });
    const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
      reading.on('error', reject).on('response', resolve).end();
    });
    // Nobody reads: the export stands still in the middle, instead of filling the memory.
    await waitFor(async () => (await open()) === 1);
    await sql.query(`delete from app."Progress"`);
    expect((await textOf(response)).trim().split('\n')).toHaveLength(100_000);
    await waitFor(async () => (await open()) === 0);
  });

  it('hold only so many connections, and let go of them', async () => {
    await sql.query(
      `insert into app."Parallel" ("_id", "title", "createdAt", "updatedAt", "__v") select gen_random_uuid(), repeat('x', 1000), now(), now(), 0 from generate_series(1, 50000)`,
    );
    const start = async (): Promise<import('node:http').IncomingMessage> =>
      new Promise((resolve, reject) => {
        const reading = request(`${platform.addresses.admin}${place('Parallel')}/export`, {
          headers: { masterkey: platform.masterKey },
        });
        reading.on('error', reject).on('response', resolve).end();
      });
    const held = await Promise.all([start(), start(), start()]);
    const fourth = await get('Parallel');
    expect([fourth.status, fourth.body.name, fourth.headers.get('retry-after')]).toEqual([
      503,
      'UNAVAILABLE',
      '10',
    ]);
    for (const response of held) response.destroy();
    await waitFor(
      async () => (await get('Parallel', '?select=title&query={"rank":1}')).status === 200,
    );
  });

  it('leave nothing of an upload that breaks off', async () => {
    const before = (await stored('Atomic')).length;
    const sending = upload('Atomic', '');
    sending.on('error', () => undefined);
    for (let i = 0; i < 3; i++)
      sending.write(
        lines(Array.from({ length: 1_000 }, (_, n) => ({ title: 'x', code: `${i} ${n}` }))),
      );
    const running = async (): Promise<boolean> =>
      (
        await sql.query(
          `select 1 from pg_stat_activity where state like 'idle in transaction%' or (state = 'active' and query like '%"Atomic"%' and pid <> pg_backend_pid())`,
        )
      ).rows.length > 0;
    await waitFor(running);
    sending.destroy();
    await waitFor(async () => !(await running()));
    expect(await stored('Atomic')).toHaveLength(before);
  });
});
