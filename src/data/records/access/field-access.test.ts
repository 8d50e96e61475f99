import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { anonymous, type Caller, system } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import type { PermissionEngine } from '../../../kernel/permissions.ts';
import { all, type Condition, equals, fieldTest } from '../../conditions/condition.ts';
import type { FieldMap, PlatformOptions } from '../../schema/language/definition.ts';

const admin = system('test');
const userWith = (userId = newId()) =>
  ({
    kind: 'user',
    userId,
    sessionId: 's',
    authenticatedAt: 0,
    complete: true,
    clientId: 'web',
  }) as const satisfies Caller;

/** An engine that knows roles by user, and lets users edit the records whose title is their role. */
const engineOf = (roles: Record<string, readonly string[]>): PermissionEngine => ({
  check: async () => true,
  roles: async (caller) => new Set(caller.kind === 'user' ? roles[caller.userId] : []),
  predicate: async (caller, action) => ({
    shape: `test:${action}`,
    compile: (_id, next, _use, alias) =>
      action === 'read'
        ? 'true'
        : `${alias}.title = any(${next(caller.kind === 'user' ? (roles[caller.userId] ?? []) : [])}::text[])`,
  }),
  owner: async () => ({ type: 'User', id: '' }),
  prepare: async () => {},
  adopt: async () => {},
  abandon: async () => {},
  creation: async () => undefined,
  placement: async () => undefined,
  knows: async () => true,
  changeOwner: async () => undefined,
  includes: async () => true,
  could: async () => true,
});

describe('access to single fields', () => {
  let kernel: RecordKernel;
  let count = 0;
  const declare = async (fields: FieldMap, options: PlatformOptions = {}): Promise<string> => {
    const name = `Seen${count++}`;
    await kernel.schemas.create(admin, { name, fields: { title: 'String', ...fields }, options });
    return name;
  };
  const get = async (caller: Caller, name: string, id: string, options = {}) =>
    JSON.parse((await kernel.records.get(caller, name, id, options)).json) as Record<
      string,
      unknown
    >;
  const test = (path: string): Condition => fieldTest(path, { kind: 'exists' }, `query.${path}`);

  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  it('shows fields to those who still hold the role once they have been read', async () => {
    const name = await declare({ pay: { type: 'Number', access: { read: 'role:clerk' } } });
    const { id } = await kernel.records.create(admin, name, { pay: 1 });
    const shown = async (...held: readonly (readonly string[])[]): Promise<unknown> => {
      const roles = async () => new Set(held[asked++] ?? held.at(-1));
      let asked = 0;
      kernel.permissions.engine = { ...engineOf({}), roles };
      return (await get(userWith(), name, id)).pay;
    };
    expect(await shown(['clerk'])).toBe(1);
    expect(await shown(['clerk'], [])).toBeUndefined();
    expect(await shown([], ['clerk'])).toBe(1);
  });

  it('leaves fields out of every answer for those who may not see them', async () => {
    const [clerk, user] = [userWith(), userWith()];
    kernel.permissions.engine = engineOf({ [clerk.userId]: ['clerk'] });
    const name = await declare({
      forUsers: { type: 'String', access: { read: 'user' } },
      forClerks: { type: 'Number', access: { read: 'role:clerk' } },
      forAdmins: { type: 'Date', access: { read: 'admin' } },
    });
    const values = {
      title: 't',
      forUsers: 'u',
      forClerks: 1,
      forAdmins: '2026-01-01T00:00:00.000Z',
    };
    const made = JSON.parse((await kernel.records.create(user, name, values)).json);
    const seen = async (caller: Caller) =>
      Object.keys(await get(caller, name, made._id)).filter((key) => key.startsWith('for'));
    expect(await seen(anonymous)).toEqual([]);
    expect(await seen(user)).toEqual(['forUsers']);
    expect(await seen(clerk)).toEqual(['forUsers', 'forClerks']);
    expect(await seen(admin)).toEqual(['forUsers', 'forClerks', 'forAdmins']);
    expect(made).toEqual({
      _id: made._id,
      title: 't',
      forUsers: 'u',
      createdAt: made.createdAt,
      updatedAt: made.updatedAt,
      __v: 0,
    });
    expect(await get(admin, name, made._id)).toMatchObject(values);

    const holder = await declare({
      of: { type: 'Relation', model: name },
      many: [{ type: 'Relation', model: name }],
    });
    const { id } = await kernel.records.create(user, holder, { of: made._id, many: [made._id] });
    const populated = JSON.stringify(await get(user, holder, id, { populate: ['of', 'many'] }));
    expect(populated).toMatch(/forUsers.*forUsers/);
    expect(populated).not.toMatch(/forClerks|forAdmins/);
    const asAdmin = JSON.stringify(await get(admin, holder, id, { populate: ['of', 'many'] }));
    expect(asAdmin).toMatch(/forAdmins.*forAdmins/);
    const wider = JSON.stringify(await get(clerk, holder, id, { populate: ['of'] }));
    expect(wider).toMatch(/forClerks/);

    const answers = await Promise.all([
      kernel.records.list(anonymous, name),
      kernel.records.select(anonymous, name, { filter: all() }),
      kernel.records.find(anonymous, name, { filter: all() }),
      kernel.records.update(anonymous, name, made._id, { title: 'u' }).then(({ json }) => json),
      kernel.records
        .updateMany(anonymous, name, [{ _id: made._id, title: 'v' }])
        .then(([one]) => one?.json),
    ]);
    expect(answers.join()).not.toMatch(/forUsers|forClerks|forAdmins/);
  });

  it('is no oracle: what is not seen cannot be asked about', async () => {
    const name = await declare({ secret: { type: 'Number', access: { read: 'admin' } } });
    const holder = await declare({
      of: { type: 'Relation', model: name },
      hidden: { type: 'Relation', model: name, access: { read: 'user' } },
    });
    const refused = { status: 400 };
    const values = [{ as: 'x', function: 'sum', field: 'secret' }] as const;
    for (const ask of [
      () => kernel.records.list(anonymous, name, { sort: ['secret'] }),
      () => kernel.records.select(anonymous, name, { filter: test('secret') }),
      () => kernel.records.select(anonymous, holder, { filter: test('of.secret') }),
      () => kernel.records.find(anonymous, name, { filter: test('secret'), granted: true }),
      () => kernel.records.aggregate(anonymous, name, { filter: all(), groupBy: [], values }),
      () =>
        kernel.records.aggregate(anonymous, name, {
          filter: all(),
          groupBy: ['secret'],
          values: [],
        }),
      () => kernel.records.list(anonymous, holder, { populate: ['hidden'] }),
      () => kernel.records.updateWhere(anonymous, name, [], { filter: test('secret') }),
      () => kernel.records.removeWhere(anonymous, name, { filter: test('secret') }),
    ]) {
      await expect(ask()).rejects.toMatchObject(refused);
    }
    expect(
      JSON.parse(await kernel.records.select(admin, holder, { filter: test('of.secret') })),
    ).toMatchObject({ count: 0 });
  });

  it('refuses by name what may not be set, and leaves it as it is in a replacement', async () => {
    const user = userWith();
    kernel.permissions.engine = engineOf({});
    const name = await declare({
      state: { type: 'String', default: 'draft', access: { write: 'admin' } },
      note: { type: 'String', access: { write: 'user' } },
      grade: { type: 'Number', access: { write: 'role:clerk' } },
    });
    const forbidden = (...fields: string[]) => ({
      status: 403,
      code: 'FIELD_FORBIDDEN',
      errors: fields.map((path) => ({ path, rule: 'access' })),
    });
    await expect(
      kernel.records.create(anonymous, name, { note: 'x', state: 'live' }),
    ).rejects.toMatchObject(forbidden('state', 'note'));
    const { id } = await kernel.records.create(user, name, { title: 'a', note: 'x' });
    await kernel.records.update(admin, name, id, { state: 'live', grade: 5 });
    await expect(kernel.records.update(user, name, id, { state: 'draft' })).rejects.toMatchObject(
      forbidden('state'),
    );
    await expect(kernel.records.update(user, name, id, { grade: null })).rejects.toMatchObject(
      forbidden('grade'),
    );
    await expect(kernel.records.createMany(user, name, [{}, { state: 'x' }])).rejects.toMatchObject(
      forbidden('docs.1.state'),
    );
    await expect(
      kernel.records.updateMany(user, name, [{ _id: id, grade: 1 }]),
    ).rejects.toMatchObject(forbidden('docs.0.grade'));
    await expect(
      kernel.records.replaceMany(user, name, [{ _id: id, state: 'x' }]),
    ).rejects.toMatchObject(forbidden('docs.0.state'));
    const assignment = { field: 'state', action: 'set', value: 'x', place: '' } as const;
    const options = { filter: all(), granted: true };
    await expect(
      kernel.records.updateWhere(user, name, [assignment], options),
    ).rejects.toMatchObject(forbidden('state'));
    await kernel.records.replace(user, name, id, { title: 'b' });
    expect(await get(admin, name, id)).toMatchObject({
      title: 'b',
      note: null,
      state: 'live',
      grade: 5,
    });
    await kernel.records.replaceMany(anonymous, name, [{ _id: id, title: 'c' }]);
    expect(await get(admin, name, id)).toMatchObject({ title: 'c', state: 'live', grade: 5 });
  });

  it('shows and takes a field of the owner in their own records only', async () => {
    const [ann, bob] = [userWith(), userWith()];
    const own: FieldMap[string] = { type: 'String', access: { read: 'owner', write: 'owner' } };
    const name = await declare(
      { by: 'ObjectId', phone: own, at: 'Date' },
      { owner: { field: 'by' }, history: true },
    );
    const ofAnn = JSON.parse(
      (await kernel.records.create(ann, name, { title: 'a', phone: '1', at: '2026-01-01' })).json,
    );
    const ofBob = (await kernel.records.create(bob, name, { title: 'b', phone: '2' })).id;
    expect(ofAnn).toMatchObject({
      by: ann.userId,
      phone: '1',
      at: '2026-01-01T00:00:00.000Z',
      __v: 0,
    });
    expect(Object.keys(ofAnn)).toEqual([
      '_id',
      'title',
      'by',
      'phone',
      'at',
      'createdAt',
      'updatedAt',
      '__v',
    ]);
    expect(await get(ann, name, ofAnn._id)).toEqual(ofAnn);
    expect(await get(bob, name, ofAnn._id)).not.toHaveProperty('phone');
    expect(await get(anonymous, name, ofAnn._id)).not.toHaveProperty('phone');
    const { documents } = JSON.parse(await kernel.records.list(bob, name));
    expect(documents.map((one: Record<string, unknown>) => one.phone)).toEqual([undefined, '2']);
    const holder = await declare({
      of: { type: 'Relation', model: name },
      all: [{ type: 'Relation', model: name }],
    });
    const { id } = await kernel.records.create(ann, holder, {
      of: ofAnn._id,
      all: [ofBob, ofAnn._id],
    });
    expect(await get(ann, holder, id, { populate: ['of', 'all'] })).toMatchObject({
      of: ofAnn,
      all: [{ _id: ofBob }, { phone: '1' }],
    });
    expect(JSON.stringify(await get(bob, holder, id, { populate: ['of'] }))).not.toMatch(/phone/);
    await expect(kernel.records.list(ann, name, { sort: ['phone'] })).rejects.toMatchObject({
      status: 400,
    });

    await kernel.records.update(bob, name, ofAnn._id, { title: 'changed' });
    const forbidden = { code: 'FIELD_FORBIDDEN', errors: [{ path: 'phone' }] };
    await expect(kernel.records.update(bob, name, ofAnn._id, { phone: '9' })).rejects.toMatchObject(
      forbidden,
    );
    await expect(
      kernel.records.update(bob, name, ofAnn._id, { phone: '9' }, { expectedVersion: 1 }),
    ).rejects.toMatchObject(forbidden);
    await expect(
      kernel.records.update(bob, name, ofAnn._id, { phone: '9' }, { expectedVersion: 0 }),
    ).rejects.toMatchObject({
      status: 412,
    });
    const many = [
      { _id: ofBob, phone: '2' },
      { _id: ofAnn._id, title: 'many', phone: '9' },
    ];
    const atPlace = { code: 'FIELD_FORBIDDEN', errors: [{ path: 'docs.1.phone' }] };
    await expect(kernel.records.updateMany(bob, name, many)).rejects.toMatchObject(atPlace);
    await expect(kernel.records.replaceMany(bob, name, many)).rejects.toMatchObject(atPlace);
    await expect(
      kernel.records.updateMany(bob, name, [...many, { _id: newId(), phone: '9' }]),
    ).rejects.toMatchObject({ code: 'RECORD_NOT_FOUND', errors: [{ path: 'docs.2._id' }] });
    expect(await get(ann, name, ofAnn._id)).toMatchObject({ title: 'changed', phone: '1' });
    await kernel.records.replace(bob, name, ofAnn._id, { title: 'r' });
    expect(await get(ann, name, ofAnn._id)).toMatchObject({
      title: 'r',
      phone: '1',
      by: ann.userId,
    });
    await kernel.records.update(ann, name, ofAnn._id, { phone: '3' });
    const told = async (caller: Caller) =>
      JSON.parse(await kernel.records.history.get(caller, name, ofAnn._id, 2));
    expect((await told(ann)).changes).toEqual([{ field: 'phone', from: '1', to: '3' }]);
    expect(JSON.stringify(await told(bob))).not.toMatch(/phone/);
    await kernel.records.history.restore(bob, name, ofAnn._id, 0);
    expect(await get(ann, name, ofAnn._id)).toMatchObject({ title: 'a', phone: '3' });
    // Whose record it is now decides, also about what it was.
    await kernel.records.update(admin, name, ofAnn._id, { by: bob.userId });
    expect(JSON.stringify(await told(ann))).not.toMatch(/phone/);
    expect((await told(bob)).changes).toEqual([{ field: 'phone', from: '1', to: '3' }]);
  });

  it('asks the permission engine for relations to the record', async () => {
    const clerk = userWith();
    const other = userWith();
    kernel.permissions.engine = engineOf({ [clerk.userId]: ['mine'], [other.userId]: [] });
    const note: FieldMap[string] = {
      type: 'String',
      access: { read: 'relation:editor', write: 'relation:editor' },
    };
    const name = await declare({ note }, { authorization: { enabled: true } });
    const { id } = await kernel.records.create(admin, name, { title: 'mine', note: 'n' });
    expect(await get(clerk, name, id)).toMatchObject({ note: 'n' });
    expect(await get(other, name, id)).not.toHaveProperty('note');
    kernel.permissions.engine = undefined;
    await expect(get(clerk, name, id)).rejects.toMatchObject({ status: 503 });
  });

  it('refuses rules that mean nothing', async () => {
    const refuse = (fields: FieldMap, options: PlatformOptions = {}) =>
      expect(kernel.schemas.create(admin, { name: `Seen${count++}`, fields, options })).rejects;
    const at = (path: string) => ({ status: 400, errors: [expect.objectContaining({ path })] });
    await refuse({ a: { type: 'String', access: { read: 'nobody' } } }).toMatchObject(
      at('fields.a.access.read'),
    );
    await refuse({ a: { type: 'String', access: { look: 'user' } as never } }).toMatchObject(
      at('fields.a.access.look'),
    );
    await refuse({ a: { type: 'String', access: { read: 'owner' } } }).toMatchObject(
      at('fields.a.access.read'),
    );
    await refuse({ a: { type: 'String', access: { write: 'relation:editor' } } }).toMatchObject(
      at('fields.a.access.write'),
    );
    await refuse({ a: { b: { type: 'String', access: { read: 'user' } } } }).toMatchObject(
      at('fields.a.b.access'),
    );
    await refuse({ a: 'String' }, { owner: { field: 'a' } }).toMatchObject(
      at('modelOptions.conduit.owner.field'),
    );
    await refuse({ a: 'String' }, { owner: { field: 'none' } }).toMatchObject(
      at('modelOptions.conduit.owner.field'),
    );
  });
});

describe('records that belong to users', () => {
  let kernel: RecordKernel;
  const [ann, bob] = [userWith(), userWith()];
  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.schemas.create(admin, {
      name: 'Mine',
      fields: { title: 'String', by: { type: 'ObjectId', required: true } },
      options: {
        owner: { field: 'by', limit: ['read', 'update', 'delete'] },
        softDelete: true,
        history: true,
      },
    });
    await kernel.schemas.create(admin, {
      name: 'Ref',
      fields: { of: { type: 'Relation', model: 'Mine', onDelete: 'setNull' } },
    });
  });
  afterAll(() => kernel.close());

  it('sets the owner itself, and nobody else can', async () => {
    await expect(kernel.records.create(anonymous, 'Mine', {})).rejects.toMatchObject({
      status: 401,
    });
    await expect(
      kernel.records.create(anonymous, 'Mine', {}, { granted: true }),
    ).rejects.toMatchObject({ status: 401 });
    await expect(kernel.records.create(ann, 'Mine', { by: bob.userId })).rejects.toMatchObject({
      status: 403,
      errors: [{ path: 'by' }],
    });
    expect(
      JSON.parse((await kernel.records.create(ann, 'Mine', { by: ann.userId })).json),
    ).toMatchObject({ by: ann.userId });
    const [made] = await kernel.records.createMany(ann, 'Mine', [{ title: 'x' }]);
    expect(JSON.parse(made?.json ?? '')).toMatchObject({ by: ann.userId });
    await expect(
      kernel.records.update(ann, 'Mine', made?.id ?? '', { by: ann.userId }),
    ).rejects.toMatchObject({ code: 'FIELD_FORBIDDEN' });
    await expect(kernel.records.create(admin, 'Mine', {})).rejects.toMatchObject({
      errors: [{ path: 'by', rule: 'required' }],
    });
    expect(
      JSON.parse((await kernel.records.create(admin, 'Mine', { by: bob.userId })).json),
    ).toMatchObject({ by: bob.userId });
  });

  it('keeps everybody else away, in every way', async () => {
    const { id } = await kernel.records.create(ann, 'Mine', { title: 'private' });
    await kernel.records.update(ann, 'Mine', id, { title: 'private' });
    const ref = (await kernel.records.create(admin, 'Ref', { of: id })).id;
    const gone = { code: 'RECORD_NOT_FOUND' };
    const assignment = { field: 'title', action: 'set', value: 'x', place: '' } as const;
    await expect(kernel.records.get(anonymous, 'Mine', id)).rejects.toMatchObject({ status: 401 });
    await expect(
      kernel.records.find(anonymous, 'Mine', { filter: all(), granted: true }),
    ).rejects.toMatchObject({ status: 401 });
    for (const ask of [
      () => kernel.records.get(bob, 'Mine', id),
      () => kernel.records.update(bob, 'Mine', id, { title: 'x' }),
      () => kernel.records.replace(bob, 'Mine', id, { title: 'x' }),
      () => kernel.records.updateMany(bob, 'Mine', [{ _id: id, title: 'x' }]),
      () => kernel.records.remove(bob, 'Mine', id),
      () => kernel.records.history.list(bob, 'Mine', id),
      () => kernel.records.history.restore(bob, 'Mine', id, 0),
      () => kernel.records.history.restore(bob, 'Mine', id, 9),
    ]) {
      await expect(ask()).rejects.toMatchObject(gone);
    }
    const inList = (text: string) => text.includes(id);
    expect(inList(await kernel.records.list(bob, 'Mine'))).toBe(false);
    expect(inList(await kernel.records.list(ann, 'Mine'))).toBe(true);
    expect(inList(await kernel.records.find(bob, 'Mine', { filter: all(), granted: true }))).toBe(
      false,
    );
    // What refers to it would be in the way, but that is not for them to know.
    await kernel.schemas.create(admin, {
      name: 'Holder',
      fields: { of: { type: 'Relation', model: 'Mine' } },
    });
    const holder = (await kernel.records.create(admin, 'Holder', { of: id })).id;
    await expect(kernel.records.remove(bob, 'Mine', id)).rejects.toMatchObject(gone);
    await expect(kernel.records.remove(ann, 'Mine', id.toUpperCase())).rejects.toMatchObject({
      code: 'RECORD_IN_USE',
    });
    await kernel.records.remove(admin, 'Holder', holder);
    expect(
      await kernel.records.updateWhere(bob, 'Mine', [assignment], { filter: all(), granted: true }),
    ).toBe(1);
    expect(
      JSON.parse((await kernel.records.get(bob, 'Ref', ref, { populate: ['of'] })).json),
    ).toMatchObject({ of: id });
    expect(
      JSON.parse((await kernel.records.get(ann, 'Ref', ref, { populate: ['of'] })).json),
    ).toMatchObject({ of: { title: 'private' } });
    const byTitle = equals('of.title', 'private', 'q');
    expect(JSON.parse(await kernel.records.select(bob, 'Ref', { filter: byTitle }))).toMatchObject({
      count: 0,
    });
    expect(JSON.parse(await kernel.records.select(ann, 'Ref', { filter: byTitle }))).toMatchObject({
      count: 1,
    });
    expect(
      JSON.parse(await kernel.records.list(admin, 'Mine', { count: 'exact' })).count,
    ).toBeGreaterThan(1);
    await kernel.records.remove(ann, 'Mine', id);
    await expect(kernel.records.trash.restore(bob, 'Mine', id)).rejects.toMatchObject({
      code: 'TRASHED_RECORD_NOT_FOUND',
    });
    expect((await kernel.records.trash.restore(ann, 'Mine', id)).version).toBe(3);
  });
});
