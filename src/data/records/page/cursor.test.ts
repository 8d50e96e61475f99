// Walks through lists by cursor, against sorting in memory: whatever the order, the ties, the nulls and what comes and goes meanwhile.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alteredAt } from '../../../../test/support/altered.ts';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { system } from '../../../kernel/caller.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { parseFilter } from '../../conditions/parse.ts';
import type { ListOptions } from '../store.ts';

const admin = system('test');

interface Thing {
  readonly _id: string;
  readonly [field: string]: unknown;
}
interface Listed {
  readonly documents: readonly Thing[];
  readonly count?: number;
  readonly nextCursor?: string | null;
}

/** Few values, so that ties are the rule. */
const values = {
  text: fc.constantFrom(null, '', 'a', 'B', 'ä', '\u{1f600}', 'a"b', '\\', 'null'),
  must: fc.constantFrom('x', 'y', 'Z'),
  number: fc.constantFrom(null, 0, -1.5, 0.1, 1e300, 5e-324),
  whole: fc.constantFrom(null, 1, 2, 9_007_199_254_740_991),
  flag: fc.constantFrom(null, true, false),
  date: fc.constantFrom(
    null,
    '2026-01-31T00:00:00.001Z',
    '2026-01-31T00:00:00.002Z',
    '0001-01-01T00:00:00.000Z',
  ),
  link: fc.constantFrom(
    null,
    '0190a0b0-0000-7000-8000-000000000001',
    '0190a0b0-0000-7000-8000-000000000002',
  ),
};
const fields = {
  text: 'String',
  must: { type: 'String', required: true },
  number: 'Number',
  whole: { type: 'Number', sqlType: 'BIGINT' },
  flag: 'Boolean',
  date: 'Date',
  link: 'ObjectId',
} as const;

const term = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.constantFrom(...Object.keys(fields), '_id', '__v', 'createdAt'),
  )
  .map((parts) => parts.join(''));
const sorts = fc.uniqueArray(term, { maxLength: 4, selector: (text) => text.replace('-', '') });

describe('paging by cursor', () => {
  let kernel: RecordKernel;
  let count = 0;
  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  const list = async (name: string, options: ListOptions): Promise<Listed> =>
    JSON.parse(await kernel.records.list(admin, name, options));
  const select = async (name: string, query: unknown, options: ListOptions): Promise<Listed> =>
    JSON.parse(
      await kernel.records.select(admin, name, { filter: parseFilter(query), ...options }),
    );

  async function walk(
    page: (cursor: string) => Promise<Listed>,
    between: (seen: readonly Thing[]) => Promise<void> = async () => undefined,
  ) {
    const seen: Thing[] = [];
    for (let cursor: string | null | undefined = 'start'; typeof cursor === 'string'; ) {
      const { documents, nextCursor }: Listed = await page(cursor);
      seen.push(...documents);
      if (nextCursor !== null) expect(documents.length).toBeGreaterThan(0);
      cursor = nextCursor;
      if (cursor) await between(seen);
    }
    return seen;
  }

  async function filled(rows: readonly object[]): Promise<string> {
    const name = `Walk${count++}`;
    await kernel.schemas.create(admin, { name, fields });
    if (rows.length > 0) await kernel.records.createMany(admin, name, rows as never);
    return name;
  }

  const row = fc.record(values);

  it('sees each record once and in order, as one long list does', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { maxLength: 30 }),
        sorts,
        fc.integer({ min: 1, max: 7 }),
        async (rows, sort, limit) => {
          const name = await filled(rows);
          const { documents: whole } = await list(name, { sort, limit: 1_000 });
          expect(await walk((cursor) => list(name, { sort, limit, cursor }))).toEqual(whole);
          const some = { $or: [{ must: 'x' }, { flag: true }] };
          const { documents: fitting, count: found } = await select(name, some, {
            sort,
            limit: 1_000,
          });
          const walked = await walk(async (cursor) => {
            const page = await select(name, some, { sort, limit, cursor });
            expect(page.count).toBe(found);
            return page;
          });
          expect(walked).toEqual(fitting);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('neither repeats nor misses a record that was there all the time, while others come and go', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { minLength: 5, maxLength: 20 }),
        sorts,
        fc.gen(),
        async (rows, sort, gen) => {
          const name = await filled(rows);
          const { documents: before } = await list(name, { sort, limit: 1_000 });
          const gone = new Set<string>();
          const seen = await walk(
            (cursor) => list(name, { sort, limit: 3, cursor }),
            async (already) => {
              await kernel.records.createMany(admin, name, [gen(() => row), gen(() => row)]);
              const last = gen(() => fc.boolean())
                ? already.at(-1)
                : before.find(({ _id }) => !gone.has(_id));
              if (!last || gone.has(last._id)) return;
              await kernel.records.remove(admin, name, last._id);
              gone.add(last._id);
            },
          );
          const ids = seen.map(({ _id }) => _id);
          expect(new Set(ids).size).toBe(ids.length);
          const stayed = before.map(({ _id }) => _id).filter((id) => !gone.has(id));
          expect(ids.filter((id) => stayed.includes(id))).toEqual(stayed);
        },
      ),
      { numRuns: 30 },
    );
  });

  it('changes nothing for whoever does not ask for it, and can do without the count', async () => {
    const name = await filled([{ must: 'x' }]);
    expect(Object.keys(await list(name, {}))).toEqual(['documents', 'count']);
    expect(Object.keys(await list(name, { cursor: '', count: 'none' }))).toEqual([
      'documents',
      'nextCursor',
    ]);
    expect(await list(name, { cursor: 'start' })).toMatchObject({ count: 1, nextCursor: null });
    expect(await list(await filled([]), { cursor: 'start' })).toEqual({
      documents: [],
      count: 0,
      nextCursor: null,
    });
    expect(Object.keys(await select(name, {}, { count: 'estimated' }))).toEqual([
      'documents',
      'count',
      'estimated',
    ]);
  });

  const refusalOf = async (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'nothing was refused',
      (error: unknown) =>
        error instanceof PenstockError
          ? [error.status, error.errors?.map(({ path, rule }) => `${path} ${rule}`)]
          : error,
    );

  it('refuses what is no cursor of this list', async () => {
    const name = await filled([{ must: 'x' }, { must: 'y' }]);
    const other = await filled([{ must: 'x' }, { must: 'y' }]);
    const { nextCursor } = await list(name, { limit: 1, cursor: 'start' });
    const cursor = String(nextCursor);
    const bytes = Buffer.from(cursor, 'base64url');
    const changed = Buffer.from(alteredAt(bytes.toString('latin1'), -4), 'latin1').toString(
      'base64url',
    );
    const forged = Buffer.concat([bytes.subarray(0, 32), Buffer.from(`["' or true --"]`)]).toString(
      'base64url',
    );
    const refusal = [400, ['cursor cursor']];
    for (const wrong of [
      changed,
      forged,
      'x',
      '!',
      '\0',
      'starts',
      cursor.slice(1),
      'A'.repeat(9_000),
    ]) {
      expect(await refusalOf(list(name, { cursor: wrong })), wrong).toEqual(refusal);
    }
    expect(await refusalOf(list(other, { cursor }))).toEqual(refusal);
    expect(await refusalOf(list(name, { cursor, sort: ['must'] }))).toEqual(refusal);
    expect(await refusalOf(list(name, { cursor, sort: ['-_id'] }))).toEqual(refusal);
    expect(await refusalOf(select(name, {}, { cursor }))).toEqual(refusal);
    const { nextCursor: filtered } = await select(
      name,
      { must: { $ne: 'a' } },
      { limit: 1, cursor: 'start' },
    );
    expect(
      await refusalOf(select(name, { must: { $ne: 'b' } }, { cursor: String(filtered) })),
    ).toEqual(refusal);
    expect(await refusalOf(list(name, { cursor, skip: 1 }))).toEqual([400, ['skip cursor']]);
    expect((await list(name, { cursor, limit: 5, sort: ['_id'] })).documents).toHaveLength(1);
  });

  it('ends with a field that it rests on, also when another one of that name comes', async () => {
    const name = `Changed${count++}`;
    const { _id } = await kernel.schemas.create(admin, {
      name,
      fields: { a: 'String', b: 'String' },
    });
    await kernel.records.createMany(admin, name, [{ a: 'x' }, { a: 'y' }]);
    const options = { sort: ['a'], limit: 1 };
    const { nextCursor } = await list(name, { ...options, cursor: 'start' });
    await kernel.schemas.update(admin, _id, { fields: { b: 'String' } });
    await kernel.schemas.apply(admin, { kind: 'purge', fields: [{ id: _id, field: 'a' }] });
    await kernel.schemas.update(admin, _id, { fields: { a: 'Number', b: 'String' } });
    expect(await refusalOf(list(name, { ...options, cursor: String(nextCursor) }))).toEqual([
      400,
      ['cursor cursor'],
    ]);
  });

  it('serves on every node', async () => {
    const name = await filled([{ must: 'x' }, { must: 'y' }]);
    const other = await kernel.another();
    const { nextCursor } = await list(name, { limit: 1, cursor: 'start' });
    const page = JSON.parse(
      await other.records.list(admin, name, { cursor: String(nextCursor) }),
    ) as Listed;
    expect(page.documents.map(({ must }) => must)).toEqual(['y']);
  });

  it('says so when a value is too long to travel', async () => {
    const name = await filled([{ must: 'x'.repeat(10_000) }, { must: 'y' }]);
    expect(await refusalOf(list(name, { limit: 1, sort: ['must'], cursor: 'start' }))).toEqual([
      400,
      ['sort cursor'],
    ]);
  });

  it('leads straight to the place where the order has an index', async () => {
    const name = `Indexed${count++}`;
    await kernel.schemas.create(admin, {
      name,
      fields: {
        rank: { type: 'Number', index: true },
        must: { type: 'Number', required: true, index: true },
      },
    });
    const rows = Array.from({ length: 1_000 }, (_, i) => ({
      rank: i % 10 === 0 ? null : i,
      must: i,
    }));
    for (let i = 0; i < 5; i++) await kernel.records.createMany(admin, name, rows);
    await kernel.database.query({ text: `analyze "app"."${name}"` });
    const plans: string[] = [];
    const { database } = kernel;
    const query = database.query.bind(database);
    for (const sort of ['_id', 'must', '-must', 'rank', '-rank']) {
      const page = async (cursor: string) =>
        list(name, { sort: [sort], limit: 20, cursor, count: 'none' });
      const { nextCursor } = await page(String((await page('start')).nextCursor));
      Object.assign(database, {
        query: async (statement: { text: string; values?: unknown[] }) => {
          // Jobs of the platform ask through the same door.
          if (!statement.text.includes(name)) return query(statement);
          const { rows: lines } = await query<{ 'QUERY PLAN': string }>({
            text: `explain ${statement.text}`,
            values: statement.values ?? [],
          });
          plans.push(lines.map((line) => line['QUERY PLAN']).join('\n'));
          return query(statement);
        },
      });
      await page(String(nextCursor));
      Object.assign(database, { query });
      expect(plans.at(-1), sort).toContain('Index Cond');
      expect(plans.at(-1), sort).not.toContain('Seq Scan');
    }
  });
});
