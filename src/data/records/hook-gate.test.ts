/** Hooks before changes that no call names: dependants, the trash, earlier versions. Owners: acceptance/functions. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { type Caller, system } from '../../kernel/caller.ts';
import { createHooks, type HookHandler, type Hooks } from '../../kernel/hooks/hooks.ts';
import { fieldTest } from '../conditions/condition.ts';
import type { PlatformOptions } from '../schema/language/definition.ts';
import {
  type RecordHookOperation,
  type RecordHookValue,
  recordHookPoint,
} from './record-hook-value.ts';
import type { RecordStore } from './store.ts';

const caller: Caller = {
  ...{ kind: 'admin', via: 'masterkey', adminId: 'masterkey', username: 'a', isSuperAdmin: true },
};
const platform = system('test');
let kernel: RecordKernel;
let hooks: Hooks;
let records: RecordStore;
let count = 0;
beforeAll(async () => {
  kernel = await openRecordKernel();
});
afterAll(() => kernel.close());
beforeEach(() => {
  hooks = createHooks();
  records = kernel.hooked(hooks);
});

/** A schema of records of which each names another one. */
async function family(
  onDelete: 'cascade' | 'setNull',
  options: PlatformOptions = {},
  ofChildren = options,
): Promise<{ readonly parent: string; readonly child: string }> {
  const [parent, child] = [`Parent${count}`, `Child${count++}`];
  await kernel.schemas.create(platform, { name: parent, fields: { name: 'String' }, options });
  const link = { type: 'Relation', model: parent, onDelete } as const;
  const fields = { name: 'String', of: link } as const;
  await kernel.schemas.create(platform, { name: child, fields, options: ofChildren });
  return { parent, child };
}

const create = async (schema: string, input: Record<string, unknown>): Promise<string> =>
  (await kernel.records.create(platform, schema, input)).id;
const names = async (schema: string, field = 'name'): Promise<unknown[]> => {
  const filter = fieldTest('name', { kind: 'exists' });
  const found = JSON.parse(await kernel.records.find(platform, schema, { filter }));
  return found.map((one: Record<string, unknown>) => one[field]).sort();
};

/** Hears of an operation, and refuses what is locked. */
function watch(schema: string, operation: RecordHookOperation): RecordHookValue[] {
  const heard: RecordHookValue[] = [];
  const handle: HookHandler<RecordHookValue> = async ({ value }) => {
    heard.push(value);
    if (value.previous?.name === 'locked') throw new Error('this one stays');
    return undefined;
  };
  hooks.register(recordHookPoint(schema, operation), `${operation} of ${schema}`, handle);
  return heard;
}

const refused = { status: 400, code: 'HOOK_REFUSED', message: 'this one stays' };
const kept = { softDelete: true } as const;

describe('hooks before what hangs on a record', () => {
  it('are asked about each that is deleted with it, and refuse the whole', async () => {
    const { parent, child } = await family('cascade');
    const heard = watch(child, 'delete');
    const id = await create(parent, { name: 'a' });
    const free = await create(child, { name: 'free', of: id });
    await records.remove(caller, parent, id);
    expect(heard).toMatchObject([{ id: free, operation: 'delete', previous: { name: 'free' } }]);
    expect(await kernel.events(child)).toContain(`delete:${free}`);

    const other = await create(parent, { name: 'b' });
    for (const name of ['free', 'locked']) await create(child, { name, of: other });
    const filter = fieldTest('name', { kind: 'exists' });
    await expect(records.remove(caller, parent, other)).rejects.toMatchObject(refused);
    await expect(records.removeWhere(caller, parent, { filter })).rejects.toMatchObject(refused);
    await expect(records.remove(platform, parent, other)).rejects.toMatchObject(refused);
    expect(await names(parent)).toEqual(['b']);
    expect(await names(child)).toEqual(['free', 'locked']);
  });

  it('are asked of the children of children, and their own writes go with the whole', async () => {
    const { parent, child } = await family('cascade');
    const leaf = `Leaf${count}`;
    const link = { type: 'Relation', model: child, onDelete: 'cascade' } as const;
    await kernel.schemas.create(platform, { name: leaf, fields: { name: 'String', of: link } });
    hooks.register<RecordHookValue>(recordHookPoint(child, 'delete'), 'notes', async () => {
      await records.create(platform, parent, { name: 'noted' });
      return undefined;
    });
    watch(leaf, 'delete');
    const id = await create(parent, { name: 'a' });
    const of = await create(child, { name: 'free', of: id });
    await create(leaf, { name: 'locked', of });
    await expect(records.remove(caller, parent, id)).rejects.toMatchObject(refused);
    expect([await names(parent), await names(child), await names(leaf)]).toEqual([
      ...[['a'], ['free'], ['locked']],
    ]);
  });

  it('are asked about each that loses its link, with the change', async () => {
    const { parent, child } = await family('setNull');
    const heard = watch(child, 'update');
    const id = await create(parent, { name: 'a' });
    const free = await create(child, { name: 'free', of: id });
    await create(child, { name: 'locked', of: id });
    await expect(records.remove(caller, parent, id)).rejects.toMatchObject(refused);
    expect(await names(child, 'of')).toEqual([id, id]);
    expect(heard.find((value) => value.id === free)).toMatchObject({
      ...{ operation: 'update', input: { of: null }, previous: { of: id } },
    });
    const other = await create(parent, { name: 'b' });
    await create(child, { name: 'open', of: other });
    await records.remove(caller, parent, other);
    expect((await names(child, 'of')).filter((of) => of !== id)).toEqual([null]);
  });

  it('are asked about a thousand of a caller, and about all of the platform', async () => {
    const { parent, child } = await family('cascade');
    const heard = watch(child, 'delete');
    const id = await create(parent, { name: 'a' });
    const inputs = (many: number) => Array.from({ length: many }, () => ({ name: 'free', of: id }));
    await kernel.records.createMany(platform, child, inputs(1_000));
    await kernel.records.createMany(platform, child, inputs(1));
    await expect(records.remove(caller, parent, id)).rejects.toMatchObject({
      ...{ status: 409, code: 'DEPENDANT_LIMIT_EXCEEDED', message: expect.stringContaining(child) },
    });
    expect(heard).toEqual([]);
    await records.remove(platform, parent, id);
    expect(new Set(heard.map((value) => value.id)).size).toBe(1_001);
  });
});

describe('hooks and the trash', () => {
  it('are asked about what goes into it and comes back with a record', async () => {
    const { parent, child } = await family('cascade', kept);
    const gone = watch(child, 'delete');
    const id = await create(parent, { name: 'a' });
    const free = await create(child, { name: 'free', of: id });
    await records.remove(caller, parent, id);
    expect(gone).toMatchObject([{ id: free, previous: { name: 'free' } }]);

    const back = [watch(parent, 'create'), watch(child, 'create')].flatMap((one) => [one]);
    await records.trash.restore(caller, parent, id);
    expect(back).toMatchObject([
      [{ id, input: { name: 'a' }, previous: { deletedAt: expect.any(String) } }],
      [{ id: free, input: { name: 'free', of: id }, previous: { deletedAt: expect.any(String) } }],
    ]);
    expect(back.flat().flatMap(({ input }) => Object.keys(input ?? {}))).not.toContain('deletedAt');

    const locked = await create(child, { name: 'locked', of: id });
    await expect(records.remove(caller, parent, id)).rejects.toMatchObject(refused);
    expect(await names(child)).toEqual(['free', 'locked']);
    await kernel.records.remove(platform, parent, id);
    await expect(records.trash.restore(caller, parent, id)).rejects.toMatchObject(refused);
    await expect(records.trash.restore(caller, child, locked)).rejects.toMatchObject(refused);
    expect([await names(parent), await names(child)]).toEqual([[], []]);
  });

  it('keep a record there while they refuse that something goes with it for good', async () => {
    const { parent, child } = await family('cascade', { softDelete: { retainDays: 1 } }, {});
    watch(child, 'delete');
    const ids = [];
    for (const name of ['locked', 'free']) {
      const id = await create(parent, { name: `of ${name}` });
      await create(child, { name, of: id });
      await records.remove(caller, parent, id);
      ids.push(id);
    }
    await expect(records.trash.purge(caller, parent, ids)).rejects.toMatchObject(refused);
    expect(await names(child)).toEqual(['free', 'locked']);
    const text = `update "app"."${parent}" set "deletedAt" = now() - interval '2 days'`;
    await kernel.database.query({ text });
    const { signal } = new AbortController();
    expect(await records.trash.purgeExpired(platform, parent, signal)).toBe(1);
    expect(await names(child)).toEqual(['locked']);
  });
});

describe('what is in the trash when something that it hangs on goes for good', () => {
  it('was asked about and told as deleted before: it goes with its history, and nothing is told', async () => {
    const { parent, child } = await family('cascade', kept, { ...kept, history: true });
    const gone = watch(child, 'delete');
    const id = await create(parent, { name: 'a' });
    const going = await create(child, { name: 'free', of: id });
    await records.remove(caller, parent, id);
    expect(gone).toHaveLength(1);
    const before = await kernel.events(child);
    await records.trash.purge(caller, parent, [id]);
    expect(gone).toHaveLength(1);
    // An event without an operation: only what is kept of the record elsewhere goes.
    expect((await kernel.events(child)).slice(before.length)).toEqual([null]);
    expect(JSON.parse(await kernel.records.history.list(caller, child, going))).toMatchObject({
      count: 0,
    });
    expect(await names(child)).toEqual([]);
  });

  it('loses its link without a word, beside what is alive', async () => {
    const { parent, child } = await family('setNull', {}, kept);
    const heard = watch(child, 'update');
    const id = await create(parent, { name: 'a' });
    const [alive, deleted] = [
      await create(child, { name: 'alive', of: id }),
      await create(child, { name: 'deleted', of: id }),
    ];
    await records.remove(caller, child, deleted);
    const before = await kernel.events(child);
    await records.remove(caller, parent, id);
    expect(heard).toMatchObject([{ id: alive, input: { of: null } }]);
    expect((await kernel.events(child)).slice(before.length)).toEqual([`update:${alive}`]);
    await records.trash.restore(caller, child, deleted);
    expect(await names(child, 'of')).toEqual([null, null]);
  });
});

describe('hooks and earlier versions', () => {
  const options = { history: true } as const;

  it('are asked about a version that comes back, and change it', async () => {
    const schema = `Versioned${count++}`;
    const fields = { name: 'String', note: 'String' } as const;
    await kernel.schemas.create(platform, { name: schema, fields, options });
    const heard: RecordHookValue[] = [];
    for (const operation of ['create', 'update'] as const)
      hooks.register<RecordHookValue>(
        recordHookPoint(schema, operation),
        'h',
        async ({ value }) => {
          heard.push(value);
          return { ...value, input: { ...value.input, note: operation } };
        },
      );
    const id = await create(schema, { name: 'old' });
    await kernel.records.update(platform, schema, id, { name: 'new' });
    const { json } = await records.history.restore(caller, schema, id, 0);
    expect(JSON.parse(json)).toMatchObject({ name: 'old', note: 'update' });
    expect(heard).toMatchObject([{ id, input: { name: 'old' }, previous: { name: 'new' } }]);
    await kernel.records.remove(platform, schema, id);
    const revived = await records.history.restore(caller, schema, id, 1);
    expect(JSON.parse(revived.json)).toMatchObject({ name: 'new', note: 'create' });
  });

  it('refuse it', async () => {
    const schema = `Versioned${count++}`;
    await kernel.schemas.create(platform, { name: schema, fields: { name: 'String' }, options });
    watch(schema, 'update');
    const id = await create(schema, { name: 'open' });
    await kernel.records.update(platform, schema, id, { name: 'locked' });
    await expect(records.history.restore(caller, schema, id, 0)).rejects.toMatchObject(refused);
    expect(await names(schema)).toEqual(['locked']);
  });
});
