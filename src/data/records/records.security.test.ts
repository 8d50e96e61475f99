// Injection (CWE-89), mass assignment (CWE-915), prototype pollution (CWE-1321) and oracles on hidden fields.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { system } from '../../kernel/caller.ts';
import { newId } from '../../kernel/ids.ts';

const admin = system('test');
const nasty = [
  '\'; drop table app."Vault"; --',
  '"; drop table app."Vault"; --',
  '__proto__',
  'constructor',
  'toString',
  'a\0b',
  '$1',
  '\\',
  '\ud800',
  'x'.repeat(65_536),
  '',
  '../../etc/passwd',
  'secret',
  '_id desc, secret',
];

describe('the record engine under attack', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.schemas.create(admin, {
      name: 'Vault',
      fields: {
        open: 'String',
        secret: { type: 'String', select: false },
        inner: { visible: 'String', secret: { type: 'String', select: false } },
        rows: [{ visible: 'String', secret: { type: 'String', select: false } }],
        owner: { type: 'Relation', model: 'Vault', select: false },
        free: 'JSON',
      },
    });
  });
  afterAll(() => kernel.close());

  const statusOf = (work: Promise<unknown>) =>
    work.then(
      () => 200,
      (error: { status?: number }) => error.status ?? 500,
    );

  it.each(nasty)('takes no name from input into a statement: %j', async (name) => {
    const id = (await kernel.records.create(admin, 'Vault', {})).id;
    expect(await statusOf(kernel.records.list(admin, name))).toBe(404);
    expect(await statusOf(kernel.records.list(admin, 'Vault', { sort: [name] }))).toBe(400);
    expect(await statusOf(kernel.records.list(admin, 'Vault', { populate: [name] }))).toBe(400);
    expect(await statusOf(kernel.records.get(admin, 'Vault', name))).toBe(404);
    expect(await statusOf(kernel.records.update(admin, 'Vault', name, {}))).toBe(400);
    expect(await statusOf(kernel.records.remove(admin, 'Vault', name))).toBe(400);
    const wellFormed = !name.includes('\0') && name.isWellFormed();
    expect(
      await statusOf(
        kernel.records.update(admin, 'Vault', id, {
          open: name,
          free: { [name === '__proto__' ? 'p' : name]: name },
        }),
      ),
    ).toBe(wellFormed ? 200 : 400);
    expect(
      await statusOf(kernel.schemas.create(admin, { name, fields: { a: 'String' } })),
    ).toBeGreaterThanOrEqual(name === 'secret' ? 200 : 400);
    expect(
      await statusOf(
        kernel.schemas.create(admin, {
          name: 'Ok',
          fields: { [name]: { type: name as 'String' } },
        }),
      ),
    ).toBe(400);
  });

  it('hides, drops and purges nested fields whose name is a word of the database', async () => {
    const { records, schemas } = kernel;
    const fields = {
      inner: {
        null: { type: 'String', select: false },
        NULL: 'String',
        deep: { null: 'String', o: 'String' },
      },
    } as const;
    const { _id } = await schemas.create(admin, { name: 'Words', fields });
    const input = { inner: { null: 'TOPSECRET', NULL: 'n', deep: { null: 'd', o: 'o' } } };
    const { id } = await records.create(admin, 'Words', input);
    const inner = async () => JSON.parse((await records.get(admin, 'Words', id)).json).inner;
    expect(await inner()).toEqual({ NULL: 'n', deep: { null: 'd', o: 'o' } });
    await schemas.update(admin, _id, {
      fields: { inner: { null: { type: 'String', select: false }, deep: { o: 'String' } } },
    });
    expect(await inner()).toEqual({ deep: { o: 'o' } });
    await schemas.apply(admin, { kind: 'purge', fields: [{ id: _id, field: 'inner.deep.null' }] });
    const { rows } = await kernel.database.query<{ deep: object }>({
      text: `select "inner" -> 'deep' as deep from "app"."Words"`,
    });
    expect(rows).toEqual([{ deep: { o: 'o' } }]);
  });

  it('never shows a hidden field: not when it is created, changed, replaced, listed, nor in a list of objects', async () => {
    const value = {
      open: 'o',
      secret: 'TOPSECRET',
      inner: { visible: 'v', secret: 'TOPSECRET' },
      rows: [{ visible: 'v', secret: 'TOPSECRET' }],
    };
    const created = await kernel.records.create(admin, 'Vault', value);
    const answers = [
      created.json,
      (await kernel.records.get(admin, 'Vault', created.id)).json,
      (await kernel.records.update(admin, 'Vault', created.id, { inner: { visible: 'w' } })).json,
      (await kernel.records.replace(admin, 'Vault', created.id, value)).json,
      ...(await kernel.records.createMany(admin, 'Vault', [value])).map(({ json }) => json),
      ...(await kernel.records.updateMany(admin, 'Vault', [{ _id: created.id, ...value }])).map(
        ({ json }) => json,
      ),
      await kernel.records.list(admin, 'Vault', { limit: 2, sort: ['-_id'] }),
    ];
    for (const answer of answers) {
      expect(answer).toContain('"visible"');
      expect(answer).not.toContain('TOPSECRET');
      expect(answer).not.toContain('"secret"');
      expect(answer).not.toContain('"owner"');
    }
    expect(await statusOf(kernel.records.list(admin, 'Vault', { populate: ['owner'] }))).toBe(400);
  });

  it('assigns nothing that only the platform may', async () => {
    const forged = {
      _id: newId(),
      __v: 41,
      createdAt: '2000-01-01T00:00:00Z',
      updatedAt: '2000-01-01T00:00:00Z',
      constructor: { prototype: { open: 'x' } },
      ...JSON.parse('{"__proto__":{"open":"polluted"}}'),
    };
    const { id, json, version } = await kernel.records.create(admin, 'Vault', forged);
    expect(id).not.toBe(forged._id);
    expect(version).toBe(0);
    expect(JSON.parse(json)).toMatchObject({ _id: id, open: null });
    expect(JSON.parse(json).createdAt > '2020').toBe(true);
    expect(await statusOf(kernel.records.create(admin, 'Vault', { $set: { open: 'x' } }))).toBe(
      400,
    );
    expect(
      await statusOf(kernel.records.replace(admin, 'Vault', id, { $set: { open: 'x' } })),
    ).toBe(400);
    const inherited = Object.create({ open: 'inherited' }) as Record<string, unknown>;
    expect(
      JSON.parse((await kernel.records.create(admin, 'Vault', inherited)).json).open,
    ).toBeNull();
    expect(({} as { open?: string }).open).toBeUndefined();
  });

  it('stores what it is given as values, never as operators', async () => {
    for (const open of [{ $ne: null }, ['a'], 5, true, { toString: 'x' }]) {
      expect(await statusOf(kernel.records.create(admin, 'Vault', { open }))).toBe(400);
    }
    const deep = JSON.parse('['.repeat(200) + ']'.repeat(200)) as unknown;
    expect(await statusOf(kernel.records.create(admin, 'Vault', { free: deep }))).toBe(400);
  });
});
