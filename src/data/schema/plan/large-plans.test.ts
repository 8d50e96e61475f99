import { expect, it } from 'vitest';
import { turnsDuring } from '../../../../test/support/turns.ts';
import { recordShapes } from '../compile/shapes.ts';
import type { ObjectField } from '../language/field.ts';
import { platformKey } from '../language/record-key.ts';
import { changePlanOf } from './change-plan.ts';
import type { SchemaRequest } from './schema-request.ts';
import { type SchemaSnapshot, schemaSnapshotOf, workOf } from './table-work.ts';

const MANY = 40;
const none: SchemaSnapshot = new Map();
const nameOf = (id: string): string => id;

const importOf = (extra = {}): SchemaRequest => ({
  kind: 'import',
  schemas: Array.from({ length: MANY }, (_, i) => ({
    name: `Part${i}`,
    fields: { title: { type: 'String' }, size: { type: 'Number' }, ...extra },
  })),
  extensions: [],
});

async function stored(): Promise<SchemaSnapshot> {
  const changePlan = await changePlanOf(none, importOf(), nameOf);
  return schemaSnapshotOf((await workOf(none, changePlan)).map(({ declaration }) => declaration));
}

it('leaves others their turn between the schemas of an import', async () => {
  const turns = await turnsDuring(() => changePlanOf(none, importOf(), nameOf));
  expect(turns).toBeGreaterThanOrEqual(MANY);
});

it('leaves others their turn between the tables that a change is compared with', async () => {
  const snapshot = await stored();
  const change = { fields: { title: { type: 'String' } } } as const;
  const changePlan = await changePlanOf(
    snapshot,
    { kind: 'update', changes: [{ id: 'Part3', change }] },
    nameOf,
  );
  let work: Awaited<ReturnType<typeof workOf>> = [];
  const turns = await turnsDuring(async () => {
    work = await workOf(snapshot, changePlan);
  });
  expect(turns).toBeGreaterThanOrEqual(MANY);
  expect(work.map(({ declaration }) => declaration.name)).toEqual(['Part3']);
});

it('plans the same in slices as at once: what changes, in the order in which it was given', async () => {
  const snapshot = await stored();
  const { drafts } = await changePlanOf(snapshot, importOf(), nameOf);
  expect(drafts).toEqual([]);
  const more = await changePlanOf(snapshot, importOf({ weight: { type: 'Number' } }), nameOf);
  expect(more.drafts.map(({ declaration }) => declaration.name)).toEqual(
    Array.from({ length: MANY }, (_, i) => `Part${i}`),
  );
});

it('makes the shapes of records when somebody asks for them, and once', () => {
  let looks = 0;
  const tree = {
    get fields() {
      looks += 1;
      return new Map();
    },
  } as unknown as ObjectField;
  const shapes = recordShapes('Part', tree, {
    timestamps: true,
    key: platformKey,
    mapping: undefined,
  });
  expect(looks).toBe(0);
  expect(shapes.create).toBe(shapes.create);
  expect(shapes.create).toMatchObject({ component: 'PartCreate', lesser: shapes.update });
  expect(shapes.record).toBe(shapes.record);
  expect(looks).toBe(3);
});
