import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { system } from '../../../kernel/caller.ts';
import type { FieldMap, SchemaDefinition } from './definition.ts';

const admin = system('test');
const parse = (json: string) => JSON.parse(json) as Record<string, unknown>;

describe('extensions', () => {
  let kernel: RecordKernel;
  const profile = {
    name: 'Profile',
    fields: { mail: { type: 'String', required: true, unique: true } },
  } satisfies SchemaDefinition;
  const extend = (fields: FieldMap, owner = 'database', name = 'Profile') =>
    kernel.schemas.apply(admin, {
      kind: 'extend',
      id: kernel.schemas.get(name)?._id ?? '',
      owner,
      fields,
    });

  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.schemas.install('people', [profile]);
  });
  afterAll(() => kernel.close());

  it('are part of the schema for everybody: one per owner, set as a whole, taken away by none', async () => {
    const [extended] = await extend({
      nick: 'String',
      address: { city: { type: 'String', required: true } },
    });
    expect(extended).toMatchObject({
      fields: { mail: profile.fields.mail },
      extensions: [{ ownerModule: 'database', fields: { nick: 'String' } }],
      compiledFields: { mail: profile.fields.mail, nick: 'String' },
    });
    expect(Object.keys(extended?.fields ?? {})).not.toContain('nick');
    const { id, json } = await kernel.records.create(admin, 'Profile', {
      mail: 'a@b.c',
      nick: 'Jo',
    });
    expect(parse(json)).toMatchObject({ nick: 'Jo', address: null });
    await extend({ level: { type: 'Number', default: 3 } }, 'games');
    expect(parse((await kernel.records.get(admin, 'Profile', id)).json)).toMatchObject({
      nick: 'Jo',
      level: 3,
    });
    await extend({}, 'games');
    await extend({ nick: 'String' });
    const read = parse((await kernel.records.get(admin, 'Profile', id)).json);
    expect(Object.keys(read)).toEqual(['_id', 'mail', 'nick', 'createdAt', 'updatedAt', '__v']);
    expect(kernel.schemas.get('Profile')?.dropped).toMatchObject({
      address: { extension: 'database' },
      level: { extension: 'games' },
    });
    const version = kernel.schemas.get('Profile')?.__v;
    await extend({ nick: 'String' });
    expect(kernel.schemas.get('Profile')?.__v).toBe(version);
  });

  it.each<[string, FieldMap, number, string]>([
    ['required', { a: { type: 'String', required: true } }, 400, 'fields.a.required'],
    ['unique', { a: { type: 'String', required: true, unique: true } }, 400, 'fields.a.required'],
    [
      'limited to some',
      { a: { type: 'String', access: { read: 'admin' } } },
      400,
      'fields.a.access',
    ],
    ['unknown', { a: 'Text' as never }, 400, 'fields.a.type'],
    ['a field of the schema', { mail: 'String' }, 409, 'fields.mail'],
    ['automatic', { createdAt: 'Date' }, 409, 'fields.createdAt'],
  ])('cannot have a field that is %s', async (_, fields, status, path) => {
    await expect(extend(fields)).rejects.toMatchObject({
      status,
      errors: expect.arrayContaining([expect.objectContaining({ path })]),
    });
  });

  it('cannot have a field of another extension, nor stand on a schema that does not want them', async () => {
    await extend({ mine: 'String' }, 'games');
    await expect(extend({ nick: 'String', mine: 'Number' })).rejects.toMatchObject({
      status: 409,
      errors: [{ path: 'fields.mine' }],
    });
    const closed = await kernel.schemas.create(admin, {
      name: 'Closed',
      fields: { a: 'String' },
      options: { permissions: { extendable: false } },
    });
    await expect(extend({ b: 'String' }, 'games', 'Closed')).rejects.toMatchObject({
      status: 403,
      code: 'SCHEMA_NOT_EXTENDABLE',
    });
    await kernel.schemas.update(admin, closed._id, {
      options: { permissions: { extendable: true } },
    });
    await extend({ b: 'String' }, 'games', 'Closed');
    await expect(
      kernel.schemas.update(admin, closed._id, { fields: { a: 'String', b: 'String' } }),
    ).rejects.toMatchObject({
      status: 409,
      code: 'EXTENSION_CONFLICT',
    });
  });

  it('stay when the module changes its schema, and give a field to it that it now has itself', async () => {
    await kernel.schemas.install('people', [
      { ...profile, fields: { ...profile.fields, born: 'Date' } },
    ]);
    expect(kernel.schemas.get('Profile')?.tree.fields.has('nick')).toBe(true);
    await kernel.schemas.install('people', [
      { ...profile, fields: { ...profile.fields, nick: 'String' } },
    ]);
    const own = kernel.schemas.get('Profile');
    expect(own?.extensions.map(({ ownerModule }) => ownerModule)).toEqual(['games']);
    expect(parse(await kernel.records.list(admin, 'Profile')).documents).toMatchObject([
      { nick: 'Jo' },
    ]);
    const other = {
      ...profile,
      fields: { ...profile.fields, nick: 'String', mine: 'Number' },
    } as const;
    await expect(kernel.schemas.install('people', [other])).rejects.toThrow(/extension of games/);
  });

  it('keep what an admin indexed in the schema of a module, which decides alone what is unique', async () => {
    const id = kernel.schemas.get('Profile')?._id ?? '';
    const add = (unique: boolean) =>
      kernel.schemas.apply(admin, {
        kind: 'indexes',
        changes: [
          { id, add: [{ fields: ['nick'], options: { name: 'nicks', unique } }], remove: [] },
        ],
      });
    await expect(add(true)).rejects.toMatchObject({ status: 403, code: 'INDEX_OWNED' });
    await add(false);
    await kernel.schemas.install('people', [
      { ...profile, fields: { ...profile.fields, nick: 'String', again: 'String' } },
    ]);
    expect(kernel.schemas.get('Profile')?.modelOptions.indexes).toMatchObject([
      { fields: ['nick'], ownerModule: 'database' },
    ]);
    await kernel.schemas.install('people', [profile]);
    expect(kernel.schemas.get('Profile')?.modelOptions.indexes).toBeUndefined();
  });
});
