/** Hooks before records are written, by whatever way. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { type Caller, system } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import { createHooks, type HookHandler, type Hooks } from '../../kernel/hooks/hooks.ts';
import { newId } from '../../kernel/ids.ts';
import { fieldTest, literal } from '../conditions/condition.ts';
import {
  type RecordHookOperation,
  type RecordHookValue,
  recordHookPoint,
} from './record-hook-value.ts';
import { withRecordHooks } from './record-hooks.ts';
import type { Assignment, RecordStore } from './store.ts';

const caller = system('test');
const schema = 'Order';
let kernel: RecordKernel;
let hooks: Hooks;
let records: RecordStore;
beforeAll(async () => {
  kernel = await openRecordKernel();
  await kernel.schemas.create(caller, {
    name: schema,
    fields: { total: 'Number', note: 'String' },
  });
});
afterAll(() => kernel.close());
beforeEach(() => {
  hooks = createHooks();
  records = withRecordHooks({ ...kernel, store: kernel.records, hooks });
});

const register = (
  operation: RecordHookOperation,
  handle: HookHandler<RecordHookValue>,
  name = `before-${operation}`,
) => hooks.register(recordHookPoint(schema, operation), name, handle);
const parsed = ({ json }: { readonly json: string }) => JSON.parse(json) as Record<string, unknown>;
const totals = async (): Promise<unknown[]> => {
  const filter = fieldTest('total', { kind: 'exists' });
  const json = await kernel.records.find(caller, schema, { filter });
  return (JSON.parse(json) as { total: number }[]).map(({ total }) => total).sort();
};
const create = async (total: number): Promise<string> =>
  (await kernel.records.create(caller, schema, { total })).id;

const noted: HookHandler<RecordHookValue> = async ({ value }) => ({
  ...value,
  input: { ...value.input, note: `${value.operation} ${value.previous?.total ?? '-'}` },
});

describe('a hook before a write', () => {
  it('changes what is created, by one call or by many', async () => {
    register('create', noted);
    expect(parsed(await records.create(caller, schema, { total: 1 }))).toMatchObject({
      ...{ total: 1, note: 'create -' },
    });
    const many = await records.createMany(caller, schema, [{ total: 2 }, { total: 3 }]);
    expect(many.map((one) => parsed(one).note)).toEqual(['create -', 'create -']);
  });

  it('sees the record as it is, whatever changes it', async () => {
    register('update', noted);
    const id = await create(10);
    const notes = [
      parsed(await records.update(caller, schema, id, { total: 11 })).note,
      parsed(await records.replace(caller, schema, id, { total: 12 })).note,
      parsed((await records.updateMany(caller, schema, [{ _id: id, total: 13 }]))[0] as never).note,
      parsed((await records.replaceMany(caller, schema, [{ _id: id, total: 14 }]))[0] as never)
        .note,
    ];
    expect(notes).toEqual(['update 10', 'update 11', 'update 12', 'update 13']);
    const filter = fieldTest('total', { kind: 'equal', right: literal(14) });
    const assignments = [
      { field: 'total', action: 'increment', value: 5, place: 'total' },
    ] as const;
    expect(await records.updateWhere(caller, schema, assignments, { filter })).toBe(1);
    expect(parsed(await records.get(caller, schema, id))).toMatchObject({
      ...{ total: 19, note: 'update 14' },
    });
  });

  it('refuses with its message, and nothing is written', async () => {
    const id = await create(100);
    const stored = await totals();
    for (const operation of ['create', 'update', 'delete'] as const)
      register(operation, async ({ value }) => {
        if (value.input?.total !== 101) throw new Error('too little');
        return undefined;
      });
    const refused = { status: 400, code: 'HOOK_REFUSED', message: 'too little' };
    const filter = fieldTest('total', { kind: 'equal', right: literal(100) });
    const set = [{ field: 'total', action: 'set', value: 1, place: 'total' }] as const;
    for (const write of [
      () => records.create(caller, schema, { total: 1 }),
      () => records.update(caller, schema, id, { total: 1 }),
      () => records.replace(caller, schema, id, { total: 1 }),
      () => records.remove(caller, schema, id),
      () => records.updateWhere(caller, schema, set, { filter }),
      () => records.removeWhere(caller, schema, { filter }),
    ])
      await expect(write()).rejects.toMatchObject(refused);
    const many = records.createMany(caller, schema, [{ total: 101 }, { total: 1 }]);
    await expect(many).rejects.toMatchObject({
      errors: [{ path: 'docs.1', message: 'too little' }],
    });
    expect(await totals()).toEqual(stored);
  });

  it('is asked however the id is spelled', async () => {
    const id = await create(100);
    const spelled = id.toUpperCase();
    const seen: unknown[] = [];
    for (const operation of ['update', 'delete'] as const)
      register(operation, async ({ value }) => {
        seen.push([value.id, value.previous?.total]);
        throw new Error('not this one');
      });
    for (const write of [
      () => records.update(caller, schema, spelled, { total: 1 }),
      () => records.replace(caller, schema, spelled, { total: 1 }),
      () => records.updateMany(caller, schema, [{ _id: spelled, total: 1 }]),
      () => records.replaceMany(caller, schema, [{ _id: spelled, total: 1 }]),
      () => records.remove(caller, schema, spelled),
    ])
      await expect(write()).rejects.toMatchObject({ code: 'HOOK_REFUSED' });
    expect(seen).toEqual(Array.from({ length: 5 }, () => [id, 100]));
    expect(parsed(await kernel.records.get(caller, schema, id))).toMatchObject({ total: 100 });
  });

  it('answers with a status of its own, and is bounded in time', async () => {
    const stop = register('create', async () => {
      throw errors.FORBIDDEN({ message: 'not today' });
    });
    await expect(records.create(caller, schema, {})).rejects.toMatchObject({
      ...{ status: 403, message: 'not today' },
    });
    stop();
    register('create', () => new Promise(() => undefined));
    await expect(records.create(caller, schema, {})).rejects.toMatchObject({
      code: 'HOOK_TIMEOUT',
    });
  });

  it('is asked again when the record was changed while it looked at it', async () => {
    const id = await create(1);
    const seen: unknown[] = [];
    register('update', async ({ value }) => {
      seen.push(value.previous?.total);
      if (seen.length === 1) await kernel.records.update(caller, schema, id, { total: 50 });
      return { ...value, input: { total: Number(value.previous?.total) + 1 } };
    });
    expect(parsed(await records.update(caller, schema, id, {})).total).toBe(51);
    expect(seen).toEqual([1, 50]);
  });

  it('that causes itself is ended, by name', async () => {
    register('create', async ({ value }) => {
      await records.create(caller, schema, { total: Number(value.input?.total) + 1 });
      return undefined;
    });
    await expect(records.create(caller, schema, { total: 1_000 })).rejects.toMatchObject({
      code: 'HOOK_DEPTH_EXCEEDED',
      message: expect.stringContaining('before-create > before-create'),
    });
    expect((await totals()).filter((total) => Number(total) >= 1_000)).toEqual([]);
  });

  it('leaves its name with the events of what it writes', async () => {
    register('update', async () => {
      await kernel.records.create(caller, schema, { total: 7_777 });
      return undefined;
    });
    await records.update(caller, schema, await create(1), { total: 2 });
    const { rows } = await kernel.database.query<{ actor: string }>({
      text: `select actor from penstock.outbox order by seq desc limit 2`,
    });
    expect(rows.map(({ actor }) => actor)).toEqual([
      'system:test',
      'system:test via before-update',
    ]);
  });
});

describe('a hook before a write by somebody who may not change every record', () => {
  const [ann, bob] = [newId(), newId()].map(
    (userId): Caller => ({
      ...{ kind: 'user', userId, sessionId: userId, clientId: 'test', complete: true },
      authenticatedAt: Date.now(),
    }),
  ) as [Caller, Caller];
  const total = (value: number) => fieldTest('total', { kind: 'equal', right: literal(value) });
  const set = [{ field: 'total', action: 'increment', value: 100, place: 'total' }] as const;
  const own = (by: Caller, value: number) =>
    kernel.records.create(by, 'Own', { total: value }).then(({ id }) => id);
  const heard: unknown[] = [];
  beforeAll(async () => {
    await kernel.schemas.create(caller, {
      name: 'Own',
      fields: { total: 'Number', by: { type: 'ObjectId', required: true } },
      options: { owner: { field: 'by', limit: ['update', 'delete'] }, history: true },
    });
  });
  beforeEach(() => {
    heard.length = 0;
    records = kernel.hooked(hooks);
    for (const operation of ['update', 'delete'] as const)
      hooks.register<RecordHookValue>(
        recordHookPoint('Own', operation),
        operation,
        async (call) => {
          heard.push(call.value.id);
          return undefined;
        },
      );
  });

  it('is not asked about those, nor tells of them', async () => {
    const id = await own(bob, 1);
    await kernel.records.update(bob, 'Own', id, { total: 2 });
    for (const write of [
      () => records.update(ann, 'Own', id, { total: 3 }),
      () => records.replace(ann, 'Own', id, { total: 3 }),
      () => records.updateMany(ann, 'Own', [{ _id: id, total: 3 }]),
      () => records.replaceMany(ann, 'Own', [{ _id: id, total: 3 }]),
      () => records.remove(ann, 'Own', id),
      () => records.history.restore(ann, 'Own', id, 0),
    ])
      await expect(write()).rejects.toMatchObject({ status: 403 });
    expect(heard).toEqual([]);
    expect(parsed(await records.update(bob, 'Own', id, { total: 3 }))).toMatchObject({ total: 3 });
    expect(heard).toEqual([id]);
  });

  it('leaves those alone that a condition means as well, as without a hook', async () => {
    const [mine] = [await own(ann, 10), await own(bob, 10)];
    expect(await records.updateWhere(ann, 'Own', set, { filter: total(10) })).toBe(1);
    expect(await records.removeWhere(ann, 'Own', { filter: total(110) })).toBe(1);
    expect(await records.removeWhere(ann, 'Own', { filter: total(10) })).toBe(0);
    expect(heard).toEqual([mine, mine]);
  });

  it('passes over what the condition does not mean any more', async () => {
    const [first, second] = [await own(ann, 20), await own(ann, 20)];
    hooks.register<RecordHookValue>(recordHookPoint('Own', 'update'), 'other', async () => {
      await kernel.records.update(caller, 'Own', second, { total: 21 });
      return undefined;
    });
    expect(await records.updateWhere(ann, 'Own', set, { filter: total(20) })).toBe(1);
    expect(heard).toEqual([first]);
    expect(parsed(await kernel.records.get(caller, 'Own', second))).toMatchObject({ total: 21 });
  });

  it('leaves the assignments of an endpoint as they are, in their order', async () => {
    const fields = {
      total: 'Number',
      tags: ['String'],
      box: { a: 'Number', b: 'Number' },
    } as const;
    await kernel.schemas.create(caller, { name: 'Assigned', fields });
    const made = { total: 1, tags: ['a'], box: { a: 1, b: 1 } };
    const [plain, hooked] = (await kernel.records.createMany(caller, 'Assigned', [made, made])).map(
      ({ id }) => id,
    ) as [string, string];
    const assign = (field: string, action: Assignment['action'], value: unknown) => ({
      ...{ field, action, value, place: field },
    });
    const assignments = [
      assign('total', 'set', 5),
      assign('total', 'increment', 2),
      assign('tags', 'append', ['b', 'c']),
      assign('tags', 'append', 'd'),
      assign('tags', 'remove', 'a'),
      assign('box', 'set', { a: 2 }),
    ];
    const byId = (id: string) => fieldTest('_id', { kind: 'equal', right: literal(id) });
    const granted = { granted: true };
    await kernel.records.updateWhere(ann, 'Assigned', assignments, {
      ...{ ...granted, filter: byId(plain) },
    });
    const told: unknown[] = [];
    hooks.register<RecordHookValue>(recordHookPoint('Assigned', 'update'), 'look', async (call) => {
      told.push(call.value.input);
      return undefined;
    });
    await records.updateWhere(ann, 'Assigned', assignments, { ...granted, filter: byId(hooked) });
    expect(told).toEqual([
      {
        ...{ total: 5, box: { a: 2 }, $inc: { total: 2 }, $pull: { tags: { $each: ['a'] } } },
        $push: { tags: { $each: ['b', 'c', 'd'] } },
      },
    ]);
    const { total, tags, box } = parsed(await kernel.records.get(caller, 'Assigned', hooked));
    expect(parsed(await kernel.records.get(caller, 'Assigned', plain))).toMatchObject({
      ...{ total, tags, box },
    });
    expect({ total, tags }).toEqual({ total: 7, tags: ['b', 'c', 'd'] });
  });

  it('is asked about the change of a record that came while it was asked about a new one', async () => {
    const id = newId();
    const asked: unknown[] = [];
    register('create', async ({ value }) => {
      if (asked.push(value.operation) === 1)
        await kernel.records.replace(caller, schema, id, { total: 1 }, { upsert: true });
      return undefined;
    });
    register('update', async ({ value }) => {
      asked.push([value.operation, value.previous?.total]);
      return undefined;
    });
    await records.replace(caller, schema, id, { total: 5 }, { upsert: true });
    expect(asked).toEqual(['create', ['update', 1]]);
  });

  it('does not turn a lack of rights into a conflict', async () => {
    const id = await own(bob, 30);
    const asSeen = { expectedVersion: 0 };
    await expect(kernel.records.update(ann, 'Own', id, { total: 1 }, asSeen)).rejects.toMatchObject(
      { status: 403 },
    );
    await kernel.records.update(bob, 'Own', id, { total: 31 });
    await expect(kernel.records.update(ann, 'Own', id, { total: 1 }, asSeen)).rejects.toMatchObject(
      { status: 412 },
    );
  });
});
