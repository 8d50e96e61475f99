/** Random changes of a schema against a simple model: what records hold, and what the table really has. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { system } from '../../../kernel/caller.ts';
import type { FieldInput, FieldMap, IndexDefinition } from '../language/definition.ts';
import { listIndexes } from '../plan/index-change.ts';
import { indexStates } from './index-builds.ts';

const admin = system('test');
let kernel: RecordKernel;
beforeAll(async () => {
  kernel = await openRecordKernel();
});
afterAll(() => kernel.close());

type Kind = 'String' | 'INT' | 'BIGINT' | 'Object';
const inputOf: Readonly<Record<Kind, FieldInput>> = {
  String: 'String',
  INT: { type: 'Number', sqlType: 'INT', index: true },
  BIGINT: { type: 'Number', sqlType: 'BIGINT' },
  Object: { x: 'String', y: ['Number'] },
};
const sampleOf = (kind: Kind, seed: number): unknown =>
  ({ String: `s${seed}`, INT: seed, BIGINT: seed, Object: { x: `x${seed}`, y: [seed] } })[kind];

const names = ['a', 'b', 'c', 'd', 'e'] as const;
const name = fc.constantFrom(...names);
const command = fc.oneof(
  fc.record({
    do: fc.constant('add' as const),
    name,
    kind: fc.constantFrom<Kind[]>('String', 'INT', 'BIGINT', 'Object'),
  }),
  fc.record({ do: fc.constant('remove' as const), name }),
  fc.record({ do: fc.constant('rename' as const), name, to: name }),
  fc.record({ do: fc.constant('widen' as const), name }),
  fc.record({ do: fc.constant('restore' as const), name }),
  fc.record({ do: fc.constant('purge' as const), name }),
  fc.record({ do: fc.constant('index' as const), name }),
  fc.record({ do: fc.constant('write' as const), seed: fc.integer({ min: 1, max: 1_000 }) }),
);
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

/** One record, whose values are remembered also of fields that were taken out. */
interface Model {
  live: Map<string, Kind>;
  dropped: Map<string, Kind>;
  values: Map<string, unknown>;
}

let count = 0;

it('no order of changes loses a value, mixes two up, or leaves the table other than its declaration says', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 18 }), async (commands) => {
      const schema = `Model${count++}`;
      const { _id } = await kernel.schemas.create(admin, {
        name: schema,
        fields: { keep: 'String' },
      });
      const { id } = await kernel.records.create(admin, schema, { keep: 'k' });
      const model: Model = { live: new Map(), dropped: new Map(), values: new Map() };
      for (const one of commands) {
        const allowed = await attempt(one, { schema, id: _id, record: id, model });
        if (allowed) await compare(schema, id, model);
      }
    }),
    { numRuns: 25 },
  );
}, 120_000);

interface Subject {
  readonly schema: string;
  readonly id: string;
  readonly record: string;
  readonly model: Model;
}

const fieldsOf = (live: ReadonlyMap<string, Kind>): FieldMap => ({
  keep: 'String',
  ...Object.fromEntries([...live].map(([field, kind]) => [field, inputOf[kind]])),
});

/** What one command needs to know. */
interface Doing extends Subject {
  update(live: ReadonlyMap<string, Kind>, renames?: Record<string, string>): Promise<unknown>;
}
type Attempts = {
  readonly [K in Command['do']]: (
    one: Extract<Command, { readonly do: K }>,
    doing: Doing,
  ) => Promise<boolean>;
};

/** Each is done on both sides where the model says that it can be done; else the platform must refuse it and change nothing. */
const attempts: Attempts = {
  async add(one, { model, update }) {
    if (model.live.has(one.name)) return false;
    const stored = model.dropped.get(one.name);
    const live = new Map(model.live).set(one.name, one.kind);
    const fits =
      stored === undefined || stored === one.kind || (stored === 'INT' && one.kind === 'BIGINT');
    return settle(fits, update(live), () => {
      model.live = live;
      model.dropped.delete(one.name);
      if (stored === undefined) model.values.set(one.name, null);
    });
  },
  async remove(one, { model, update }) {
    const kind = model.live.get(one.name);
    if (!kind) return false;
    const live = new Map([...model.live].filter(([field]) => field !== one.name));
    return settle(true, update(live), () => {
      model.live = live;
      model.dropped.set(one.name, kind);
    });
  },
  async rename(one, { model, update }) {
    if (!model.live.has(one.name) || one.name === one.to) return false;
    const free = !model.live.has(one.to) && !model.dropped.has(one.to);
    const live = new Map(
      [...model.live].map(([field, its]) => [field === one.name ? one.to : field, its] as const),
    );
    return settle(free, update(live, { [one.name]: one.to }), () => {
      model.live = live;
      model.values.set(one.to, model.values.get(one.name));
      model.values.delete(one.name);
    });
  },
  async widen(one, { model, update }) {
    const kind = model.live.get(one.name);
    if (kind !== 'INT' && kind !== 'BIGINT') return false;
    const live = new Map(model.live).set(one.name, kind === 'INT' ? 'BIGINT' : 'INT');
    return settle(kind === 'INT', update(live), () => {
      model.live = live;
    });
  },
  async restore(one, { model, id }) {
    const kind = model.dropped.get(one.name);
    return settle(
      kind !== undefined,
      kernel.schemas.apply(admin, { kind: 'restore', id, field: one.name }),
      () => {
        model.live.set(one.name, kind ?? 'String');
        model.dropped.delete(one.name);
      },
    );
  },
  async purge(one, { model, id }) {
    const done = kernel.schemas.apply(admin, { kind: 'purge', fields: [{ id, field: one.name }] });
    return settle(model.dropped.has(one.name), done, () => {
      model.dropped.delete(one.name);
      model.values.delete(one.name);
    });
  },
  async index(one, { model, id, schema, update }) {
    const change = (add: readonly IndexDefinition[], remove: readonly string[]) =>
      kernel.schemas.apply(admin, { kind: 'indexes', changes: [{ id, add, remove }] });
    const kind = model.live.get(one.name);
    return settle(
      kind !== undefined && kind !== 'Object',
      change([{ fields: [one.name, 'keep'] }], []),
      async () => {
        const without = new Map([...model.live].filter(([field]) => field !== one.name));
        await expect(update(without)).rejects.toMatchObject({
          status: 400,
          errors: [{ path: `fields.${one.name}`, rule: 'index' }],
        });
        const index = listIndexes(kernel.schemas.get(schema) ?? never()).find(
          ({ layout }) => layout.columns.join() === `${one.name},keep`,
        );
        await change([], [index?.name ?? '']);
      },
    );
  },
  async write(one, { model, schema, record }) {
    for (const [field, kind] of model.live) model.values.set(field, sampleOf(kind, one.seed));
    const values = [...model.live.keys()].map((field) => [field, model.values.get(field)]);
    await kernel.records.update(admin, schema, record, Object.fromEntries(values));
    return true;
  },
};

function attempt(one: Command, subject: Subject): Promise<boolean> {
  const update: Doing['update'] = (live, renames) =>
    kernel.schemas.update(admin, subject.id, {
      fields: fieldsOf(live),
      ...(renames && { renames }),
    });
  return attempts[one.do](one as never, { ...subject, update });
}

const never = (): never => {
  throw new Error('the schema is gone');
};

async function settle(
  possible: boolean,
  done: Promise<unknown>,
  then: () => void | Promise<void>,
): Promise<boolean> {
  if (!possible) {
    await expect(done).rejects.toMatchObject({
      status: expect.toSatisfy((status: number) => status >= 400 && status < 500),
    });
    return true;
  }
  await done;
  await then();
  return true;
}

async function compare(schema: string, record: string, model: Model): Promise<void> {
  const read = JSON.parse((await kernel.records.get(admin, schema, record)).json) as Record<
    string,
    unknown
  >;
  const { _id, createdAt, updatedAt, __v, ...values } = read;
  expect(values).toEqual({
    keep: 'k',
    ...Object.fromEntries([...model.live.keys()].map((field) => [field, model.values.get(field)])),
  });
  const compiled = kernel.schemas.get(schema) ?? never();
  expect(compiled.droppedFields.filter((path) => !path.includes('.'))).toEqual(
    [...model.dropped.keys()].sort(),
  );
  const { rows } = await kernel.database.query<{ name: string; type: string }>({
    text: `select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
      where attrelid = '"app"."${schema}"'::regclass and attnum > 0 and not attisdropped`,
  });
  const automatic = new Set(['_id', 'createdAt', 'updatedAt', '__v']);
  const table = Object.fromEntries(
    rows.filter((row) => !automatic.has(row.name)).map((row) => [row.name, row.type]),
  );
  expect(table).toEqual(
    Object.fromEntries(
      Object.entries(compiled.layout.columns).map(([column, { type }]) => [column, type]),
    ),
  );
  const states = await indexStates(kernel.database, schema);
  const real = [...states.keys()].filter((index) => !index.startsWith('pk_')).sort();
  expect(real).toEqual(Object.keys(compiled.layout.indexes).sort());
}
